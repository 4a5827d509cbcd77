"""Inference with trained models.

detection      P(replaced) for the tokens and words of texts
mlm_detection  the same from a masked language model, one row per word
embedding      one vector per text
filling        a generator's candidates for each [MASK]
examples       the table Original | Masked | Generated | Label | P(replaced)
models         the models that come with the package
"""
