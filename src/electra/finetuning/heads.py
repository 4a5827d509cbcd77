"""What stands on the encoder in fine-tuning.

`transformers` (default): the head of the transformers class that the model is saved as, so that the saved
folder is the model that was
trained: ElectraFor... or ModernBertFor... SequenceClassification, TokenClassification, QuestionAnswering.
`linear`: dropout and one matrix, as in the original code. transformers has no class for it on a whole text.
`joint`: the original code's reader (readers.py), for which transformers has no class either.
What has no class is saved as the encoder, which transformers loads, and the head's weights in a file beside
it, for `electra predict`.

A classifier reads one vector of the text. `cls`: the one at [CLS]. `mean`: the mean over all tokens, special
ones included, padding excluded, which is what `classifier_pooling = "mean"` means in ModernBERT.
ElectraForSequenceClassification knows [CLS] only. A head takes the encoder's output [B, T, D] and the batch,
and gives logits: [B, outputs], or [B, T, outputs] where `per_token`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from electra.errors import ConfigError
from electra.finetuning.features import Batch
from electra.finetuning.tasks import HeadKind
from electra.model.dropout import dropout
from electra.model.encoder import Encoder
from electra.model.pair import initialise
from electra.model.sizes import Architecture, EncoderConfig

HeadStyle = Literal["transformers", "linear", "joint"]
Pooling = Literal["cls", "mean"]


class Head(nn.Module):
    """What every head has: dropout and a last layer named `output` (its names in a saved folder are in
    interop/names.py).
    """

    per_token = False

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__()
        self.rate, self.pooling = config.dropout, pooling
        self.output = nn.Linear(config.hidden_size, num_outputs)

    def drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate, self.training)

    def pool(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        """One vector of each text."""
        if self.pooling == "cls":
            return hidden_BTD[:, 0]
        if batch.piece_ids is None:
            return hidden_BTD.mean(1)
        real_BT1 = (batch.piece_ids >= 0).unsqueeze(-1)
        return (hidden_BTD * real_BT1).sum(1) / real_BT1.sum(1)


class ElectraClassifier(Head):
    """dropout -> dense -> gelu -> dropout -> output, on [CLS]."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        x_BD = self.drop(self.pool(hidden_BTD, batch))
        return torch.as_tensor(self.output(self.drop(F.gelu(self.dense(x_BD)))))


class ModernClassifier(Head):
    """dense -> gelu -> norm -> dropout -> output, on the pooled text."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        x = hidden_BTD if self.per_token else self.pool(hidden_BTD, batch)
        return torch.as_tensor(self.output(self.drop(self.norm(F.gelu(self.dense(x))))))


class ModernTokens(ModernClassifier):
    """The same on every token: the tagger and the reader of ModernBERT."""

    per_token = True


class LinearClassifier(Head):
    """dropout -> output, on the pooled text."""

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(self.drop(self.pool(hidden_BTD, batch))))


class LinearTagger(Head):
    """dropout -> output on every token: ELECTRA's tagger."""

    per_token = True

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(self.drop(hidden_BTD)))


class LinearReader(Head):
    """One matrix on every token, start and end: ELECTRA's reader, which has no dropout of its own."""

    per_token = True

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.output(hidden_BTD))


class FineTuned(nn.Module):
    """An encoder with a task's head."""

    def __init__(self, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, batch: Batch) -> Tensor:
        hidden_BTD = self.encoder(
            batch.input_ids, piece_ids=batch.piece_ids, token_type_ids=batch.token_type_ids
        )
        logits: Tensor = self.head(hidden_BTD, batch)
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
}


def build_head(  # noqa: PLR0917
    kind: HeadKind,
    style: HeadStyle,
    config: EncoderConfig,
    num_outputs: int,
    seed: int,
    pooling: Pooling = "cls",
) -> Head:
    """A fresh head; its weights depend on the seed and on their names only."""
    if style == "joint":
        from electra.finetuning.readers import JointReader

        head: Head = JointReader(config)
    else:
        builders = LINEAR if style == "linear" else TRANSFORMERS[config.architecture]
        head = builders[kind](config, num_outputs, pooling)
    initialise(nn.ModuleDict({"finetune": head}), seed, "paper")
    return head


def exportable(kind: HeadKind, style: HeadStyle, architecture: Architecture) -> bool:
    """Whether transformers has a class with this head."""
    return style == "transformers" or (style == "linear" and LINEAR[kind] is TRANSFORMERS[architecture][kind])


def choose_pooling(
    wanted: Pooling | None, kind: HeadKind, style: HeadStyle, architecture: Architecture
) -> Pooling:
    """Left open: the mean where the saved class can do it. Replaced token detection asks about each token and
    never about the text, so nothing has taught [CLS] to stand for it.
    """
    if kind != "classifier":
        if wanted == "mean":
            raise ConfigError(
                f"a {kind} answers for each token: there is nothing to pool",
                where="--pooling",
                fix="Leave it out",
            )
        return "cls"
    if wanted == "mean" and architecture == "electra" and style == "transformers":
        what = "ElectraForSequenceClassification reads [CLS] only, so a mean could not be saved"
        raise ConfigError(
            what,
            where="--pooling",
            fix="Leave it out, use --head linear, or a model of the modern architecture",
        )
    return wanted or ("mean" if architecture == "modern" else "cls")
