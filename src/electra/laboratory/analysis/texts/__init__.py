"""Texts for probes: held-out text, sentences by learners, texts corrupted on purpose."""
