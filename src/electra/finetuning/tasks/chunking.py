"""Chunking: noun phrases, verb phrases and others.

The columns of CoNLL-2000's files are the word, its part of speech and its chunk tag.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.word_tags import WordTagging

TASK = WordTagging(
    name="chunking",
    version=1,
    source="Tjong Kim Sang, Buchholz 2000",
    scheme="entities",
    metrics=("f1", "precision", "recall", "accuracy"),
    label=("chunk", "chunk_tags", "tag", "tags", "labels", "label"),
)
