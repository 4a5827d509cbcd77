"""What steps the weights: one row for each optimizer that a recipe may name. Torch is imported when one is
built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Algorithm = Literal["adamw", "muon"]
Groups = list[dict[str, Any]]  # each with its "params", "peak" rate and "weight_decay"


@dataclass(frozen=True)
class OptimizerSection:
    """How gradients become updates."""

    HEADING: ClassVar[str] = "How gradients become updates"

    learning_rate: float = 5e-4
    """Peak learning rate."""
    generator_learning_rate: float | None = None
    """Learning rate of the weights that only the generator has (default: the same)."""
    optimizer: Algorithm = "adamw"
    """muon: orthogonalised momentum for the layers' matrices, AdamW for the rest."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates of the two moments."""
    epsilon: float = 1e-6
    """Adam's epsilon."""
    weight_decay: float = 0.01
    """Decoupled weight decay, except on biases and norms, as in the published code."""
    bias_correction: bool = True
    """Correct Adam's moments for their start at zero; the published code does not."""
    clip: float = 1.0
    """Largest global gradient norm, over both networks together."""
    clip_separately: bool = False
    """Clip the generator's own weights apart from all others, as DeBERTa's decoupled trainer does."""


@dataclass(frozen=True)
class Row:
    build: Callable[[Groups, OptimizerSection], torch.optim.Optimizer]
    moments: tuple[str, ...]
    """What it keeps of each weight, as checkpoints name it."""
    takes: Callable[[str, Tensor], bool] = lambda name, weight: True
    """The weights that it can step; AdamW steps the others."""


def _adamw(groups: Groups, settings: OptimizerSection) -> torch.optim.Optimizer:
    from electra.training.adamw import AdamW

    return AdamW(groups, settings.betas, settings.epsilon, settings.bias_correction)


def _muon(groups: Groups, settings: OptimizerSection) -> torch.optim.Optimizer:
    from torch.optim import Muon

    return Muon(groups, lr=0.0, adjust_lr_fn="match_rms_adamw")


ALGORITHMS: dict[Algorithm, Row] = {
    "adamw": Row(_adamw, ("step", "exp_avg", "exp_avg_sq")),
    "muon": Row(_muon, ("momentum_buffer",), lambda name, weight: weight.dim() >= 2 and ".layers." in name),
}


def algorithm_for(chosen: Algorithm, name: str, weight: Tensor) -> Algorithm:
    """What steps a weight where the recipe has chosen an algorithm."""
    return chosen if ALGORITHMS[chosen].takes(name, weight) else "adamw"
