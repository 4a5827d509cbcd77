"""Computes scores of predictions; an undefined score is null, with a reason."""
