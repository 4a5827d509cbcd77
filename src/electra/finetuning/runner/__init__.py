"""Runs a fine-tuning, from the data to a saved model: seeds, training loop, search and baselines."""
