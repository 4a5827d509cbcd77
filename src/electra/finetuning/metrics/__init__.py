"""Scores of predictions; null with a reason if a number is not defined."""
