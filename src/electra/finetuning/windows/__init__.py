"""Converts texts to windows of token ids, windows to batches, and predicted spans back to the text."""
