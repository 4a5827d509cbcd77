"""From text to batches: readers, tables, tokenizer, token store, rows of token ids."""
