"""The head `transformers`: that of the transformers class that the model is saved as.

So the saved folder contains the whole trained model: ElectraFor... or ModernBertFor...
SequenceClassification, TokenClassification, QuestionAnswering.
"""

from __future__ import annotations

from typing_extensions import override

from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadShape
from electra.finetuning.heads.parts.layers import (
    ElectraClassifier,
    LinearReader,
    LinearTagger,
    ModernClassifier,
    ModernTokens,
)
from electra.finetuning.tasks.parts.task import HeadKind
from electra.model.sizes import Architecture

ELECTRA: dict[HeadKind, type[Head]] = {
    "classifier": ElectraClassifier,
    "tagger": LinearTagger,
    "reader": LinearReader,
}
CLASSES: dict[Architecture, dict[HeadKind, type[Head]]] = {
    "electra": ELECTRA,
    "deberta": ELECTRA,
    "modern": {"classifier": ModernClassifier, "tagger": ModernTokens, "reader": ModernTokens},
}


class Transformers(HeadFactory):
    """Builds the standard head of a task and an architecture."""

    name = "transformers"
    kinds = ("classifier", "tagger", "reader", "vectors")

    @override
    def build(self, shape: HeadShape) -> Head:
        kind = CLASSES[shape.config.architecture][shape.kind]
        return kind(shape.config, shape.num_outputs, shape.pooling)

    @override
    def has_class(self, kind: HeadKind, architecture: Architecture) -> bool:
        return True


HEAD = Transformers()
