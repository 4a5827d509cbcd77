"""Your own data: one text, or two, and a number."""

from __future__ import annotations

from electra.finetuning.sequence import SequenceTask

TASK = SequenceTask(
    name="regression",
    version=1,
    source="your own data",
    kind="regression",
    metrics=("spearmanr", "pearson", "mae"),
    texts=(
        ("sentence1", "sentence2"),
        ("premise", "hypothesis"),
        ("question1", "question2"),
        ("sentence",),
        ("text",),
    ),
    label=("score", "label", "labels"),
    max_length=512,
)
