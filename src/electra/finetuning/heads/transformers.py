"""The head `transformers`: the head of the transformers class that the model is saved as.

The saved folder therefore contains the whole trained model. The classes are ElectraFor... or
ModernBertFor... SequenceClassification, TokenClassification and QuestionAnswering.
"""

from typing_extensions import override

from electra.finetuning.heads.linear import CLASSES as LINEAR
from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadShape
from electra.finetuning.heads.parts.modules import (
    ElectraClassifier,
    ModernClassifier,
    ModernTokens,
)
from electra.finetuning.task import HeadKind
from electra.model.sizes import Architecture

ELECTRA: dict[HeadKind, type[Head]] = LINEAR | {"classifier": ElectraClassifier}
CLASSES: dict[Architecture, dict[HeadKind, type[Head]]] = {
    "electra": ELECTRA,
    "transformers": ELECTRA,
    "modern": {"classifier": ModernClassifier, "tagger": ModernTokens, "reader": ModernTokens},
}


class Transformers(HeadFactory):
    """Builds the standard head of a task and an architecture."""

    name = "transformers"

    @override
    def build(self, shape: HeadShape) -> Head:
        head_class = CLASSES[shape.config.architecture][shape.kind]
        return head_class(shape.config, shape.num_outputs, shape.pooling)

    @override
    def has_class(self, kind: HeadKind, architecture: Architecture) -> bool:
        return architecture != "transformers"


HEAD = Transformers()
