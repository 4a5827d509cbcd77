"""Scores of tokens, words and sentences by a network."""
