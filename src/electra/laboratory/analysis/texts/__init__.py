"""What is read to a model: held-out text, annotated sentences, minimal pairs, texts made wrong on purpose."""
