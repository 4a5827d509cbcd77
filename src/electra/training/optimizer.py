"""The optimizer of a run: its weights in groups, each updated by an algorithm that the recipe selects."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.model.pair import Pair
from electra.training.recipe import Algorithm, OptimizerSection

Groups = list[dict[str, Any]]  # each with its "params", "peak" rate and "weight_decay"


def _undecorated(method: Any) -> Any:
    """Returns the method without torch's decorator, which imports the compiler and so takes a second."""
    return getattr(method, "__wrapped__", method)


class AdamW(torch.optim.AdamW):
    """torch's fused AdamW without its slow import, optionally without bias correction.

    The caller sets each group's `lr` before each step.
    """

    add_param_group = _undecorated(torch.optim.Optimizer.add_param_group)
    _step = torch.no_grad()(_undecorated(torch.optim.AdamW.step))

    def __init__(
        self,
        groups: list[dict[str, Any]],
        betas: tuple[float, float],
        eps: float,
        bias_correction: bool = True,
    ) -> None:
        super().__init__(groups, lr=0.0, betas=betas, eps=eps, fused=True)
        self.bias_correction, self.epsilon = bias_correction, eps
        self.decays = [group["weight_decay"] for group in self.param_groups]

    @override
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if not self.bias_correction:
            for group, decay in zip(self.param_groups, self.decays, strict=True):
                self._cancel_bias_correction(group, decay)
        self._step()

    def _cancel_bias_correction(self, group: dict[str, Any], decay: float) -> None:
        """Sets rate, epsilon and decay so that torch's corrected update equals the uncorrected one.

        torch: p -= lr/c1 * m / (sqrt(v)/sqrt(c2) + eps) with c = 1 - beta^step.
        The published code: p -= rate * m / (sqrt(v) + epsilon).
        """
        step = 1 + self._num_updates(group)
        c1, c2 = (1 - beta**step for beta in group["betas"])
        group["eps"] = self.epsilon / math.sqrt(c2)
        group["lr"] *= c1 / math.sqrt(c2)
        group["weight_decay"] = decay * math.sqrt(c2) / c1

    def _num_updates(self, group: dict[str, Any]) -> int:
        """Returns how often the group's weights were updated; stages of the training may skip them."""
        return next((int(self.state[p]["step"]) for p in group["params"] if p in self.state), 0)


@dataclass(frozen=True)
class AlgorithmSpec:
    """An optimizer that a recipe can select."""

    build: Callable[[Groups, OptimizerSection], torch.optim.Optimizer]
    moments: tuple[str, ...]
    """Names, in checkpoints, of its state for each weight."""
    accepts: Callable[[str, Tensor], bool] = lambda name, weight: True
    """Whether it updates a weight of this name; AdamW updates the others."""


def _adamw(groups: Groups, settings: OptimizerSection) -> torch.optim.Optimizer:
    return AdamW(groups, settings.betas, settings.epsilon, settings.bias_correction)


def _muon(groups: Groups, settings: OptimizerSection) -> torch.optim.Optimizer:
    return torch.optim.Muon(groups, lr=0.0, adjust_lr_fn="match_rms_adamw")


ALGORITHMS: dict[Algorithm, AlgorithmSpec] = {
    "adamw": AlgorithmSpec(_adamw, ("step", "exp_avg", "exp_avg_sq")),
    "muon": AlgorithmSpec(
        _muon, ("momentum_buffer",), lambda name, weight: weight.dim() >= 2 and ".layers." in name
    ),
}


class GroupedOptimizer:
    """Updates named weights in groups, with torch's fused kernels.

    Optimizer state is saved by the weight's name, so a checkpoint does not depend on the order of groups.
    """

    def __init__(
        self,
        named: Mapping[str, nn.Parameter],
        groups: Mapping[Algorithm, Groups],
        settings: OptimizerSection,
    ) -> None:
        self.settings = settings
        self.names: dict[Tensor, str] = {parameter: name for name, parameter in named.items()}
        self.optimizers: dict[Algorithm, torch.optim.Optimizer] = {
            name: row.build(groups[name], settings) for name, row in ALGORITHMS.items() if name in groups
        }
        self.parameters = list(named.values())

    def clip(self) -> Tensor:
        """Scales the gradients down to the maximum norm. Returns the total norm before that."""
        return nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)

    def step(self, multiplier: float) -> None:
        """Updates the weights, with each group's peak learning rate times `multiplier`."""
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * multiplier
            optimizer.step()

    def zero_grad(self) -> None:
        """Removes all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """Returns the optimizer state: a tensor for each `NAME:MOMENT`."""
        return {
            f"{self.names[parameter]}:{moment}": value
            for optimizer in self.optimizers.values()
            for parameter, state in optimizer.state.items()
            for moment, value in state.items()
            if isinstance(value, Tensor)
        }

    @property
    def bytes(self) -> int:
        """Size of the optimizer state in bytes, known before the first step."""
        return sum(
            len([moment for moment in ALGORITHMS[name].moments if moment != "step"]) * parameter.nbytes
            for name, optimizer in self.optimizers.items()
            for group in optimizer.param_groups
            for parameter in group["params"]
        )

    def load_tensors(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """Restores the optimizer state after `num_steps` updates.

        A parameter may have no state at all: then it was never updated, because the stage that trains it had
        not begun.

        Raises:
            KeyError: with the name of a missing tensor.
        """
        if num_steps == 0:
            return
        for name, optimizer in self.optimizers.items():
            moments = ALGORITHMS[name].moments
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if not any(f"{self.names[parameter]}:{moment}" in tensors for moment in moments):
                        continue
                    optimizer.state[parameter] = {
                        moment: tensors[f"{self.names[parameter]}:{moment}"].to(parameter.device)
                        for moment in moments
                    }


class Optimizer(GroupedOptimizer):
    """The optimizer of a run, with groups by network, weight decay and algorithm.

    `rates` are the peak learning rates, by network, of weights that only this network has; shared weights
    have the main network's.
    """

    def __init__(
        self, pair: Pair, settings: OptimizerSection, rates: Mapping[str, float] | None = None
    ) -> None:
        others = [(name, network) for name, network in pair.named.items() if network is not pair.main]
        owners = {p: name for name, network in reversed(others) for p in pair.own_parameters(network)}
        named = dict(pair.named_parameters())
        groups: dict[Algorithm, dict[tuple[str, bool], dict[str, Any]]] = {}
        for name, parameter in named.items():
            network, decayed = owners.get(parameter, ""), parameter.dim() >= 2
            group = {
                "params": [],
                "peak": (rates or {}).get(network, settings.learning_rate),
                "weight_decay": settings.weight_decay if decayed else 0.0,
            }
            chosen = settings.optimizer
            algorithm = chosen if ALGORITHMS[chosen].accepts(name, parameter) else "adamw"
            by_key = groups.setdefault(algorithm, {})
            by_key.setdefault((network, decayed), group)["params"].append(parameter)
        super().__init__(named, {name: list(each.values()) for name, each in groups.items()}, settings)
