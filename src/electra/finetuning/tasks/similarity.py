"""Your own data: pairs of texts with similarity scores, to train text vectors."""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_vectors import SimilarPairs
from electra.finetuning.tasks.regression import TASK as REGRESSION

TASK = SimilarPairs(
    name="similarity",
    version=1,
    source="your own data; Su 2022",
    metrics=("spearmanr", "pearson"),
    texts=tuple(names for names in REGRESSION.texts if len(names) == 2),
    label=REGRESSION.label,
)
