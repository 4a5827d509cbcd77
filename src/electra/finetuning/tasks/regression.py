"""Your own data: one text, or two, and a number."""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_regression import TextRegression

TASK = TextRegression(
    name="regression",
    version=1,
    source="your own data",
    metrics=("spearmanr", "pearson", "mae"),
    texts=(
        ("sentence1", "sentence2"),
        ("premise", "hypothesis"),
        ("question1", "question2"),
        ("text_a", "text_b"),
        ("text1", "text2"),
        ("text", "text_pair"),
        ("text", "text_b"),
        ("text", "text2"),
        ("query", "passage"),
        ("sentence",),
        ("text",),
    ),
    label=("score", "label", "labels"),
    max_length=512,
)
