"""One fine-tuning from data to a saved model: its seeds, their loop, search, baselines, predictions."""
