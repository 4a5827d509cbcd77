"""A trained model at work on texts.

detection      P(replaced) for the tokens and words of texts
mlm_detection  the same by a masked language model, a pass a word
embedding      a vector of each text
filling        what a generator would put at each [MASK]
examples       the table Original | Masked | Generated | Label | P(replaced)
models         the models that come with the package
"""
