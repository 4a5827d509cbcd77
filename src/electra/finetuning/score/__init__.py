"""Scores a fine-tuning: metrics, predictions, baselines, and the choice of the head."""
