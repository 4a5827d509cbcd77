"""The original code's head: dropout and one matrix. transformers has no class for it on a whole text."""

from __future__ import annotations

from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadShape
from electra.finetuning.heads.parts.layers import LinearClassifier, LinearReader, LinearTagger
from electra.finetuning.tasks.parts.task import HeadKind
from electra.model.sizes import Architecture

CLASSES: dict[HeadKind, type[Head]] = {
    "classifier": LinearClassifier,
    "tagger": LinearTagger,
    "reader": LinearReader,
}


class Linear(HeadFactory):
    name = "linear"

    def build(self, shape: HeadShape) -> Head:
        return CLASSES[shape.kind](shape.config, shape.num_outputs, shape.pooling)

    def has_class(self, kind: HeadKind, architecture: Architecture) -> bool:
        return architecture != "modern" and kind != "classifier"


HEAD = Linear()
