"""Frozen encoders side by side: vectors of words, attention heads, measures at each depth."""
