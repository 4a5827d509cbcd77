"""Text to train on: read, tokenized, stored, and given out in batches."""
