"""Trains a fine-tuning: data, settings, each seed, the saved model."""
