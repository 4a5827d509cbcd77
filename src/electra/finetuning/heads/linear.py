"""The head `linear` of the original code: dropout and a linear layer.

transformers has no classifier with this head.
"""

from typing_extensions import override

from electra.finetuning.heads.parts.contract import Head, HeadFactory, HeadShape
from electra.finetuning.heads.parts.modules import LinearReader, LinearTagger
from electra.finetuning.task import HeadKind
from electra.model.sizes import Architecture

CLASSES: dict[HeadKind, type[Head]] = {
    "classifier": Head,
    "tagger": LinearTagger,
    "reader": LinearReader,
}


class Linear(HeadFactory):
    """Builds a linear layer on the pooled text or on each token."""

    name = "linear"

    @override
    def build(self, shape: HeadShape) -> Head:
        return CLASSES[shape.kind](shape.config, shape.num_outputs, shape.pooling)

    @override
    def has_class(self, kind: HeadKind, architecture: Architecture) -> bool:
        return architecture == "electra" and kind != "classifier"


HEAD = Linear()
