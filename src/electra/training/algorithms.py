"""The optimizers that a recipe can select, as a table.

torch is imported only when an optimizer is built, because `--help` imports this module.
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
    """Optimizer settings of the recipe's [training]."""

    HEADING: ClassVar[str] = "Optimizer"

    learning_rate: float = 5e-4
    """Peak learning rate."""
    generator_learning_rate: float | None = None
    """Peak learning rate of weights that only the generator has (default: `learning_rate`)."""
    optimizer: Algorithm = "adamw"
    """The optimizer. muon: orthogonalised momentum for the layers' matrices, AdamW for the rest."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates of the two moments."""
    epsilon: float = 1e-6
    """Adam's epsilon."""
    weight_decay: float = 0.01
    """Decoupled weight decay, except on biases and norms, as in the published code."""
    bias_correction: bool = True
    """Adam's bias correction; the published code has none."""
    clip: float = 1.0
    """Maximum global gradient norm, over both networks together."""
    clip_separately: bool = False
    """Clip the gradients of weights that only the generator has separately, as in DeBERTa's trainer."""


@dataclass(frozen=True)
class AlgorithmSpec:
    """An optimizer that a recipe can select."""

    build: Callable[[Groups, OptimizerSection], torch.optim.Optimizer]
    moments: tuple[str, ...]
    """Names, in checkpoints, of its state for each weight."""
    accepts: Callable[[str, Tensor], bool] = lambda name, weight: True
    """Whether it updates a weight of this name; AdamW updates the others."""


def _adamw(groups: Groups, settings: OptimizerSection) -> torch.optim.Optimizer:
    from electra.training.adamw import AdamW

    return AdamW(groups, settings.betas, settings.epsilon, settings.bias_correction)


def _muon(groups: Groups, settings: OptimizerSection) -> torch.optim.Optimizer:
    from torch.optim import Muon

    return Muon(groups, lr=0.0, adjust_lr_fn="match_rms_adamw")


ALGORITHMS: dict[Algorithm, AlgorithmSpec] = {
    "adamw": AlgorithmSpec(_adamw, ("step", "exp_avg", "exp_avg_sq")),
    "muon": AlgorithmSpec(
        _muon, ("momentum_buffer",), lambda name, weight: weight.dim() >= 2 and ".layers." in name
    ),
}


def algorithm_for(chosen: Algorithm, name: str, weight: Tensor) -> Algorithm:
    """Returns the algorithm that updates a weight: the chosen one if it accepts the weight, else AdamW."""
    return chosen if ALGORITHMS[chosen].accepts(name, weight) else "adamw"
