"""Pre-training: recipes, runs and the training loop."""
