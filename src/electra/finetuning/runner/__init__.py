"""One fine-tuning, from data to a saved model: seeds, training loop, search, baselines, predictions."""
