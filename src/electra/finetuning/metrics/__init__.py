"""Scores of predictions; null with a reason where a number is not defined."""
