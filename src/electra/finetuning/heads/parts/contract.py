"""What a head is: a module on the encoder's output, and the factory that builds it and says what it needs.

    build(shape)              a fresh module; its last layer is named `output`, and `rescale` changes
                              the answers' unit
    kinds, texts              the kinds of tasks it answers, and how many texts an example has
    adapted(task)             the task, where this head's outputs mean something else than usual
    dropout, epochs, pooling  its defaults, where they are not the usual ones
    starts_from               the network whose own head it begins with
    has_class(...)            whether transformers has a class with it; otherwise the encoder is saved, with
                              the head's weights in a file beside it
    start(head, encoder, ...) what is done with the training data before the first step

Weights are initialised after `build`, from the seed and their names. The module says itself why it cannot be
exported to ONNX, if so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from electra.artifacts.model import Pooling
from electra.data.tokenizer import Tokenizer
from electra.exchange.names import Kind
from electra.finetuning.settings import ResolvedSettings
from electra.finetuning.tasks.parts.task import HeadKind, Task
from electra.finetuning.windows.features import Batch, Windows
from electra.foundation.errors import ConfigError
from electra.model.dropout import dropout
from electra.model.encoder import Encoder
from electra.model.sizes import Architecture, EncoderConfig


class HeadModule(nn.Module):
    """Takes the encoder's output [B, T, D] and the batch; gives logits [B, outputs], or [B, T, outputs] where
    `per_token`. With `reads_table` it is also given the token table [V, E].
    """

    per_token = False
    reads_table = False
    not_in_graphs: ClassVar[str] = ""
    """Why it cannot be exported to ONNX."""

    def rescale(self, factor: float, offset: float) -> None:
        """Answer in another unit: the outputs times `factor`, plus `offset`."""


class Head(HeadModule):
    """A head with dropout and a last layer named `output` (its names in a saved folder are in
    exchange/names.py).
    """

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
        pieces = torch.zeros_like(batch.input_ids) if batch.piece_ids is None else batch.piece_ids
        real_BT1 = (pieces >= 0).unsqueeze(-1)
        if self.pooling == "max":
            return hidden_BTD.masked_fill(~real_BT1, -torch.inf).amax(1)
        if self.pooling == "last":
            return hidden_BTD[torch.arange(len(hidden_BTD)), real_BT1.sum(1).squeeze(-1) - 1]
        if batch.piece_ids is None:
            return hidden_BTD.mean(1)
        return (hidden_BTD * real_BT1).sum(1) / real_BT1.sum(1)

    def rescale(self, factor: float, offset: float) -> None:
        self.output.weight.mul_(factor)
        self.output.bias.mul_(factor).add_(offset)


@dataclass(frozen=True)
class HeadShape:
    """What a head is built for."""

    kind: HeadKind
    config: EncoderConfig
    num_outputs: int
    pooling: Pooling = "cls"
    pretrained: nn.Module | None = None
    """The head that the encoder was pre-trained with, where the model has one."""


@dataclass(frozen=True)
class TrainingData:
    """What a head may learn from before the first step."""

    windows: Windows
    task: Task
    tokenizer: Tokenizer
    device: torch.device


class HeadFactory(ABC):
    name: ClassVar[str]
    kinds: ClassVar[tuple[HeadKind, ...]] = ("classifier", "tagger", "reader")
    texts: ClassVar[int | None] = None
    """How many texts an example must have (None: any number)."""
    purpose: ClassVar[str] = "for other tasks"
    """What it is for, in a message to whom chose it for another task."""
    instead: ClassVar[str] = "Use it with another `task`"
    options: ClassVar[frozenset[str]] = frozenset()
    """Settings that it reads and other heads do not."""
    dropout: ClassVar[float | None] = None
    epochs: ClassVar[float | None] = None
    pooling: ClassVar[Pooling | None] = None
    starts_from: ClassVar[Kind] = "encoder"
    """The network whose encoder is tuned. With another than "encoder", its own head is in the shape, and
    nothing of the new head is initialised.
    """

    @abstractmethod
    def build(self, shape: HeadShape) -> HeadModule: ...

    def refuse(self, kind: HeadKind, texts: int | None) -> None:
        """Raise ConfigError where it does not answer tasks of this kind, or examples of so many texts (None:
        not known yet).
        """
        if kind == "vectors" and kind not in self.kinds:
            raise ConfigError("a text's vector needs no head", key="head", fix="Leave it out")
        if kind not in self.kinds or (None not in (self.texts, texts) and texts != self.texts):
            raise ConfigError(f"the head {self.name} is {self.purpose}", key="head", fix=self.instead)

    def adapted(self, task: Task) -> Task:
        return task

    def configure(self, module: HeadModule, settings: ResolvedSettings) -> None:  # noqa: B027
        """Apply the head's own `options`."""

    def has_class(self, kind: HeadKind, architecture: Architecture) -> bool:
        return False

    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:  # noqa: B027
        """Called once before training, with the encoder as it is."""
