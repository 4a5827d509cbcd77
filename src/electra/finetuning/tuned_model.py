"""An encoder with a task's head, and which head that is.

`transformers` (default): the head of the transformers class that the model is saved as, so that the saved
    folder is the model that was trained: ElectraFor... or ModernBertFor... SequenceClassification,
    TokenClassification, QuestionAnswering.
`linear`: dropout and one matrix, as in the original code; transformers has no class for it on a whole text.
`compare`: for pairs of texts, the first plus a linear answer on how far they agree (compare_head.py).
`bag`: for single texts, the first plus a linear answer on the words that are there (bag_head.py).
`joint`: the original code's reader (joint_head.py), for which transformers has no class either.
What has no class is saved as the encoder, which transformers loads, with the head's weights in a file beside
it, for `electra predict`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from electra.exchange.pooling import Pooling
from electra.finetuning.bag_head import BagHead
from electra.finetuning.compare_head import CompareHead
from electra.finetuning.counting_head import CountingHead
from electra.finetuning.features import Batch
from electra.finetuning.heads import (
    CandidateHead,
    ElectraClassifier,
    Head,
    LinearClassifier,
    LinearReader,
    LinearTagger,
    ModernClassifier,
    ModernTokens,
)
from electra.finetuning.joint_head import JointHead
from electra.finetuning.task import HeadKind
from electra.finetuning.vector_head import VectorHead
from electra.foundation.errors import ConfigError
from electra.model.encoder import Encoder
from electra.model.pair import initialise
from electra.model.sizes import Architecture, EncoderConfig

HeadStyle = Literal["transformers", "linear", "joint", "compare", "bag"]
COUNTING: tuple[HeadStyle, ...] = ("compare", "bag")  # those that start from counting
AnyHead = Head | CandidateHead | CountingHead


class TunedModel(nn.Module):
    def __init__(self, encoder: Encoder, head: AnyHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    @property
    def per_token(self) -> bool:
        """Whether there are logits of each token, or of each text."""
        return self.head.per_token

    def forward(self, batch: Batch) -> Tensor:
        hidden_BTD = self.encoder(
            batch.input_ids, piece_ids=batch.piece_ids, token_type_ids=batch.token_type_ids
        )
        table = (self.encoder.token_table(),) if isinstance(self.head, CountingHead) else ()
        logits: Tensor = self.head(hidden_BTD, batch, *table)
        return logits


Builder = Callable[[EncoderConfig, int, Pooling], Head]
LINEAR: dict[HeadKind, Builder] = {
    "classifier": LinearClassifier,
    "tagger": LinearTagger,
    "reader": LinearReader,
}
TRANSFORMERS: dict[Architecture, dict[HeadKind, Builder]] = {
    "electra": {**LINEAR, "classifier": ElectraClassifier},
    "modern": {"classifier": ModernClassifier, "tagger": ModernTokens, "reader": ModernTokens},
    "deberta": {**LINEAR, "classifier": ElectraClassifier},
}


def build_head(  # noqa: PLR0917
    kind: HeadKind,
    style: HeadStyle,
    config: EncoderConfig,
    num_outputs: int,
    seed: int,
    pooling: Pooling = "cls",
) -> Head | CountingHead:
    """A fresh head; its weights depend on the seed and on their names only."""
    if kind == "vectors":
        return VectorHead(pooling)
    builders = LINEAR if style == "linear" else TRANSFORMERS[config.architecture]
    head: Head | CountingHead
    head = JointHead(config) if style == "joint" else builders[kind](config, num_outputs, pooling)
    if style == "compare":
        head = CompareHead(head, config.vocab_size, num_outputs)
    elif style == "bag":
        head = BagHead(head, config.vocab_size, config.hidden_size, num_outputs)
    initialise(nn.ModuleDict({"finetune": head}), seed, "paper")
    return head


def exportable(kind: HeadKind, style: HeadStyle, architecture: Architecture, pooling: Pooling) -> bool:
    """Whether transformers has a class with this head."""
    if kind in ("vectors", "candidates"):
        return False
    if kind == "classifier" and pooling not in ("cls", "mean")[: 1 + (architecture == "modern")]:
        return False
    return style == "transformers" or (style == "linear" and LINEAR[kind] is TRANSFORMERS[architecture][kind])


def choose_pooling(
    wanted: Pooling | None,
    kind: HeadKind,
    architecture: Architecture,
    own: Pooling | None = None,
) -> Pooling:
    """Where nothing is `wanted`: as the encoder makes vectors, if its folder says so; else the mean, or [CLS]
    where the saved class reads nothing else. Replaced token detection asks about each token and never about
    the text, so nothing has taught [CLS] to stand for it.

    own: how the model that is started from makes vectors.
    """
    if kind == "vectors":
        return wanted or own or "mean"
    if kind != "classifier":
        if wanted not in (None, "cls"):
            what = f"a {kind} answers for each token: there is nothing to pool"
            raise ConfigError(what, key="pooling", fix="Leave it out")
        return "cls"
    return wanted or own or ("mean" if architecture == "modern" else "cls")
