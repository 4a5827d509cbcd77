"""Grammatical error detection: is each word correct (c) or incorrect (i)?

The metric is F0.5 of the incorrect words, which favours precision.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.word_tags import WordTagging

TASK = WordTagging(
    name="ged",
    version=1,
    source="FCE (Rei, Yannakoudakis 2016), MultiGED-2023 (Volodina et al. 2023) and others",
    scheme="errors",
    metrics=("f0_5", "precision", "recall"),
    labels=("c", "i"),
    label=("ged", "GED", "tag", "tags", "labels", "label"),
)
