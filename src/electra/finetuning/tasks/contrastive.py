"""Your own data: single texts (a table, or one per line) or pairs of related texts, to train text vectors."""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_vectors import ContrastedTexts
from electra.finetuning.tasks.regression import TASK as REGRESSION

TASK = ContrastedTexts(
    name="contrastive",
    version=1,
    source="your own data; Gao, Yao, Chen 2021",
    metrics=("spearmanr", "pearson"),
    texts=REGRESSION.texts,
    label=REGRESSION.label,
    epochs=1,
    dropout=0.1,  # SimCSE's: without it the two vectors of a text are equal
)
