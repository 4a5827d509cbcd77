"""Frozen encoders side by side: their words' vectors, their heads, measures at each depth."""
