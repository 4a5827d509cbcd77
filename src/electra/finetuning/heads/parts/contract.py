"""The contract of heads: a module on the encoder's output, and the factory that builds it.

Weights are initialised after `build`, from the seed and their names. If a head cannot be exported to ONNX,
`HeadModule.not_in_graphs` gives the reason.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.artifacts.model_files import Pooling
from electra.data.corpus.tokenizer import Tokenizer
from electra.finetuning.task import HeadKind, Task
from electra.finetuning.windows.features import Ids, LabelledBatch, Windows
from electra.foundation.errors import ConfigError
from electra.model.dropout import dropout
from electra.model.encoder import Encoder
from electra.model.sizes import Architecture, EncoderConfig


class HeadModule(nn.Module):
    """Maps the result of `encode`, usually states [B, T, D], and the batch to logits.

    The logits are [B, outputs], or [B, T, outputs] if `per_token`.
    """

    per_token = False
    not_in_graphs: ClassVar[str] = ""
    """The reason why the head cannot be exported to ONNX; "" if it can."""

    def encode(self, encoder: Encoder, batch: LabelledBatch) -> Tensor:
        """Returns the encoder's states [B, T, D], or what else `forward` reads."""
        types = batch.token_type_ids if encoder.config.reads_token_types else None
        hidden_BTD: Tensor = encoder(batch.input_ids, document_ids=batch.document_ids, token_type_ids=types)
        return hidden_BTD

    def rescale(self, factor: float, offset: float) -> None:
        """Changes the weights so that the outputs are multiplied by `factor`, then increased by `offset`.

        The default does nothing.
        """


class Head(HeadModule):
    """A head with pooling (unless `per_token`), `features`, dropout and a last layer `output`.

    exchange/weight_names.py maps its names.
    """

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__()
        self.dropout_rate, self.pooling = config.dropout, pooling
        self.output = nn.Linear(config.hidden_size, num_outputs)

    @override
    def encode(self, encoder: Encoder, batch: LabelledBatch) -> Tensor:
        """Returns the encoder's states [B, T, D], or only those that are read: [B, 1, D] with [CLS]."""
        if self.per_token or self.pooling != "cls":
            return super().encode(encoder, batch)
        types = batch.token_type_ids if encoder.config.reads_token_types else None
        return encoder.first_state(batch.input_ids, batch.document_ids, types)

    def drop(self, x: Tensor) -> Tensor:
        """Returns `x` with dropout in training, unchanged in inference."""
        return dropout(x, self.dropout_rate, self.training)

    def pool(self, hidden_BTD: Tensor, batch: LabelledBatch) -> Tensor:
        """Returns a vector for each text [B, D] by `pooling`; padding is excluded."""
        if self.pooling == "cls":
            return hidden_BTD[:, 0]
        document_ids = torch.zeros_like(batch.input_ids) if batch.document_ids is None else batch.document_ids
        real_BT1 = (document_ids >= 0).unsqueeze(-1)
        if self.pooling == "max":
            return hidden_BTD.masked_fill(~real_BT1, -torch.inf).amax(1)
        if self.pooling == "last":
            return hidden_BTD[torch.arange(len(hidden_BTD)), real_BT1.sum(1).squeeze(-1) - 1]
        if batch.document_ids is None:
            return hidden_BTD.mean(1)
        return (hidden_BTD * real_BT1).sum(1) / real_BT1.sum(1)

    def features(self, x: Tensor) -> Tensor:
        """Returns what dropout and the last layer are applied to [..., D], from states or pooled texts."""
        return x

    @override
    def forward(self, hidden_BTD: Tensor, batch: LabelledBatch) -> Tensor:
        x = hidden_BTD if self.per_token else self.pool(hidden_BTD, batch)
        return torch.as_tensor(self.output(self.drop(self.features(x))))

    @override
    def rescale(self, factor: float, offset: float) -> None:
        self.output.weight.mul_(factor)
        self.output.bias.mul_(factor).add_(offset)


@dataclass(frozen=True)
class HeadShape:
    """The task, the encoder and the number of outputs that a head is built for."""

    kind: HeadKind
    config: EncoderConfig
    num_outputs: int
    pooling: Pooling = "cls"
    separate_texts: bool = False
    """Whether the head encodes the two texts of a pair separately."""


@dataclass(frozen=True)
class TrainingData:
    """The training data that a head receives before the first step."""

    windows: Windows
    task: Task
    tokenizer: Tokenizer
    device: torch.device
    folds: Callable[[], Ids]  # gives the fold of each training example; equal texts are in one


class HeadFactory(ABC):
    """Builds a head and declares what it supports; a head file defines one as `HEAD`."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[HeadKind, ...]] = ("classifier", "tagger", "reader")
    texts: ClassVar[int | None] = None
    """The number of texts that an example must have; None: any number."""
    dropout: ClassVar[float | None] = None
    epochs: ClassVar[float | None] = None
    """The default number of epochs; 0: the head is fitted, and nothing is ever trained."""
    pooling: ClassVar[Pooling | None] = None
    separates_pairs: ClassVar[bool] = False
    """Whether it encodes the two texts of a pair separately (`HeadModule.encode`)."""

    @abstractmethod
    def build(self, shape: HeadShape) -> HeadModule:
        """Returns a new module; its weights are initialised afterwards."""

    def check_supports(self, kind: HeadKind, texts: int | None) -> None:
        """Raises ConfigError if the head does not support the kind of output or the number of texts."""
        if kind not in self.kinds or (None not in (self.texts, texts) and texts != self.texts):
            number = f" with {self.texts} texts" if self.texts else ""
            fix = f"Use it for a {' or '.join(self.kinds)}{number}, or another `head`"
            raise ConfigError(f"the head {self.name} is not for this task", key="head", fix=fix)

    def has_class(self, kind: HeadKind, architecture: Architecture) -> bool:
        """Whether transformers has a class with this head for tasks of this kind."""
        return False

    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:  # noqa: B027
        """Prepares the head before training, once, with the encoder's initial weights."""
