"""The contract of heads: a module on the encoder's output, and the factory that builds it.

    build(shape)              a fresh module; its last layer is named `output`, and `rescale` changes
                              the unit of the predictions
    kinds, texts              the kinds of tasks it supports, and how many texts an example must have
    adapted(task)             the task, changed if this head's outputs have another meaning than usual
    dropout, epochs, pooling  its defaults, if they differ from the usual ones
    starts_from               the network whose own head it starts from
    has_class(...)            whether transformers has a class with it; otherwise the encoder is saved, with
                              the head's weights in a separate file
    start(head, encoder, ...) called with the training data before the first step

Weights are initialised after `build`, from the seed and their names. `HeadModule.not_in_graphs` is the reason
why a head cannot be exported to ONNX, if it cannot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

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
    """Maps the encoder's output [B, T, D] and the batch to logits.

    The logits are [B, outputs], or [B, T, outputs] if `per_token`. With `reads_table`, `forward` also
    receives the token table [V, E].
    """

    per_token = False
    reads_table = False
    not_in_graphs: ClassVar[str] = ""
    """Why it cannot be exported to ONNX ("": it can)."""

    def rescale(self, factor: float, offset: float) -> None:
        """Changes the weights so that the outputs are multiplied by `factor`, then increased by `offset`."""


class Head(HeadModule):
    """A head with dropout, pooling and a last layer `output` (exchange/names.py has its names on disk)."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__()
        self.rate, self.pooling = config.dropout, pooling
        self.output = nn.Linear(config.hidden_size, num_outputs)

    def drop(self, x: Tensor) -> Tensor:
        """Returns `x` with dropout in training, unchanged in inference."""
        return dropout(x, self.rate, self.training)

    def pool(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        """Returns one vector for each text [B, D], by `pooling`; padding is excluded."""
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
    pretrained: nn.Module | None = None
    """The head that the encoder was pre-trained with, if the model has one."""


@dataclass(frozen=True)
class TrainingData:
    """The training data that a head receives before the first step."""

    windows: Windows
    task: Task
    tokenizer: Tokenizer
    device: torch.device


class HeadFactory(ABC):
    """Builds a head and declares what it supports; a head file defines one as `HEAD`."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[HeadKind, ...]] = ("classifier", "tagger", "reader")
    texts: ClassVar[int | None] = None
    """How many texts an example must have (None: any number)."""
    purpose: ClassVar[str] = "for other tasks"
    """What it is for, in the error message when it is used with another task."""
    instead: ClassVar[str] = "Use it with another `task`"
    """The advice in that message."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Names of the settings that only this head reads."""
    dropout: ClassVar[float | None] = None
    epochs: ClassVar[float | None] = None
    pooling: ClassVar[Pooling | None] = None
    starts_from: ClassVar[Kind] = "encoder"
    """The network whose encoder is fine-tuned. If it is not "encoder", the shape has that network's own head,
    and the new head is not initialised.
    """

    @abstractmethod
    def build(self, shape: HeadShape) -> HeadModule:
        """Returns a new module. Its weights are initialised afterwards."""

    def refuse(self, kind: HeadKind, texts: int | None) -> None:
        """Checks that the head supports a task.

        Args:
            kind: the kind of the task's outputs.
            texts: texts in each example (None: not known yet).

        Raises:
            ConfigError: it does not.
        """
        if kind == "vectors" and kind not in self.kinds:
            raise ConfigError("a text's vector needs no head", key="head", fix="Leave it out")
        if kind not in self.kinds or (None not in (self.texts, texts) and texts != self.texts):
            raise ConfigError(f"the head {self.name} is {self.purpose}", key="head", fix=self.instead)

    def adapted(self, task: Task) -> Task:
        """Returns the task for this head's outputs; the same task by default."""
        return task

    def configure(self, module: HeadModule, settings: ResolvedSettings) -> None:  # noqa: B027
        """Applies the settings named in `options` to the module."""

    def has_class(self, kind: HeadKind, architecture: Architecture) -> bool:
        """Whether transformers has a class with this head for such tasks."""
        return False

    def start(self, head: HeadModule, encoder: Encoder, data: TrainingData) -> None:  # noqa: B027
        """Prepares the head before training, once, with the encoder's initial weights."""
