"""Part-of-speech tagging: UPOS tags, from CoNLL-U files (Universal Dependencies) or tables."""

from __future__ import annotations

from electra.finetuning.tasks.parts.word_tags import WordTagging

TASK = WordTagging(
    name="pos",
    version=1,
    source="Universal Dependencies: Nivre et al. 2020",
    scheme="words",
    metrics=("accuracy", "f1_macro"),
    label=("UPOS", "upos", "pos_tags", "tag", "tags", "labels", "label", "pos_tag"),
)
