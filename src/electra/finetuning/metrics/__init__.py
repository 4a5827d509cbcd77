"""Computes the scores of predictions; an undefined score is None, with a reason."""
