"""An encoder under a head: what is trained, and what predicts.

A head that transformers has no class for is saved beside the encoder, which transformers loads, in a file of
ours, for `electra predict`.
"""

from __future__ import annotations

from torch import Tensor, nn

from electra.artifacts.model import Pooling
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import HeadModule, HeadShape
from electra.finetuning.heads.parts.layers import VectorHead
from electra.finetuning.tasks.parts.task import HeadKind
from electra.finetuning.windows.features import Batch
from electra.foundation.errors import ConfigError
from electra.model.encoder import Encoder
from electra.model.pair import initialise
from electra.model.sizes import Architecture


class TunedModel(nn.Module):
    def __init__(self, encoder: Encoder, head: HeadModule) -> None:
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
        table = (self.encoder.token_table(),) if self.head.reads_table else ()
        logits: Tensor = self.head(hidden_BTD, batch, *table)
        return logits


def build_head(name: str, shape: HeadShape, seed: int) -> HeadModule:
    """A fresh head; its weights depend on the seed and on their names only."""
    if shape.kind == "vectors":
        return VectorHead(shape.pooling)
    factory = load_head(name)
    head = factory.build(shape)
    if factory.starts_from == "encoder":
        initialise(nn.ModuleDict({"finetune": head}), seed, "paper")
    return head


def has_class(kind: HeadKind, name: str, architecture: Architecture, pooling: Pooling) -> bool:
    """Whether transformers has a class with this head."""
    if kind == "vectors":
        return False
    if kind == "classifier" and pooling not in ("cls", "mean")[: 1 + (architecture == "modern")]:
        return False
    return load_head(name).has_class(kind, architecture)


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
