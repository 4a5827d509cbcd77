"""A study file and a recipe, as small as they can be."""

STUDY = """
title = "Toy"
question = "Does it work?"
baseline = "mlm"
[arms.mlm]
objective.name = "mlm"
[arms.rtd]
title = "detection"
paper = 85.0
objective.name = "rtd"
"""
RECIPE = """
[model]
size = "tiny"
dropout = 0.1
[training]
length = 16
batch_size = 8
learning_rate = 1e-3
precision = "fp32"
log_every = 1
checkpoint_every = 4
[evaluation]
rows = 8
"""
