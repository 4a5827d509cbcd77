"""STS-B: how similar are the two sentences, from 0 to 5?"""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_regression import TextRegression

TASK = TextRegression(
    name="sts-b",
    version=1,
    source="Cer et al. 2017",
    metrics=("spearmanr", "pearson"),
    texts=(("sentence1", "sentence2"),),
    label=("score", "label"),
    scale=(0.0, 5.0),
    both_orders=True,
    epochs=10,
    submissions=(("test", "STS-B"),),
)
