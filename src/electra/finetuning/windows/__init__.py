"""Windows of token ids: texts to encoder inputs, batches of similar length, and answers back to the text."""
