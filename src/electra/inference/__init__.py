"""Inference with trained models.

detection      P(replaced) of the tokens and words of a text
detector       both networks together, and the thresholds by false alarms
embedding      one vector per text
filling        a generator's candidates for each [MASK]
example_rows   the table Original | Masked | Generated | Label | P(replaced)
model       a model of a run, a folder or the hub, with its networks
"""
