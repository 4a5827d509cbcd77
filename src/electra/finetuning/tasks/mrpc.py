"""MRPC: are the two sentences paraphrases? The primary metric is accuracy, which the paper reports."""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_class import TextClassification

TASK = TextClassification(
    name="mrpc",
    version=1,
    source="Dolan, Brockett 2005",
    metrics=("accuracy", "f1"),
    texts=(("#1 String", "#2 String"), ("sentence1", "sentence2")),
    label=("Quality", "label"),
    labels=("not_equivalent", "equivalent"),
    both_orders=True,
    submissions=(("test", "MRPC"),),
    submit_numbers=True,
)
