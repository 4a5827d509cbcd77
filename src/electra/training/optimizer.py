"""AdamW as in the paper (Table 6) or its published code, and Muon for the matrices of the layers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from electra.model.pair import Pair
from electra.training.recipe import TrainingSection


def _undecorated(method: Any) -> Any:
    """torch keeps these methods out of compiled programs by a decorator that imports the compiler: a second
    at the start of every run.
    """
    return getattr(method, "__wrapped__", method)


class AdamW(torch.optim.AdamW):
    """torch's own, without that second."""

    add_param_group = _undecorated(torch.optim.Optimizer.add_param_group)
    step = torch.no_grad()(_undecorated(torch.optim.AdamW.step))


class Optimizer:
    """Named parameters in groups (network x decayed or not x algorithm), stepped by torch's fused kernels.

    Moments are addressed by parameter name, so a checkpoint does not depend on the order of groups.
    """

    def __init__(self, pair: Pair, settings: TrainingSection) -> None:
        self.settings = settings
        self.names: dict[Tensor, str] = {parameter: name for name, parameter in pair.named_parameters()}
        self.adam_groups: list[dict[str, Any]] = []
        self.muon_groups: list[dict[str, Any]] = []
        for group in _groups(pair, settings):
            (self.muon_groups if group.pop("muon") else self.adam_groups).append(group)
        self.optimizers: list[torch.optim.Optimizer] = [
            AdamW(self.adam_groups, lr=0.0, betas=settings.betas, eps=settings.epsilon, fused=True)
        ]
        if self.muon_groups:
            self.optimizers.append(torch.optim.Muon(self.muon_groups, lr=0.0, adjust_lr_fn="match_rms_adamw"))
        self.parameters = [parameter for _, parameter in pair.named_parameters()]
        self.generators = own_parameters(pair)

    def clip(self) -> Tensor:
        """Scale the gradients down to the largest allowed norm. Returns the norm before, of all of them."""
        if not self.settings.clip_separately:
            return nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        others = [parameter for parameter in self.parameters if parameter not in self.generators]
        norms = [
            nn.utils.clip_grad_norm_(part, self.settings.clip) for part in (list(self.generators), others)
        ]
        together: Tensor = torch.linalg.vector_norm(
            torch.stack([norm.to(others[0].device) for norm in norms])
        )
        return together

    def step(self, multiplier: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * multiplier
                if not self.settings.bias_correction and isinstance(optimizer, torch.optim.AdamW):
                    _cancel_bias_correction(group, self.settings, 1 + _num_updates(optimizer, group))
            optimizer.step()

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """The moments, as `name:moment` -> tensor."""
        return {
            f"{self.names[parameter]}:{moment}": value
            for optimizer in self.optimizers
            for parameter, state in optimizer.state.items()
            for moment, value in state.items()
            if isinstance(value, Tensor)
        }

    def load_tensors(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """Put the moments back; raises KeyError with the name of one that is missing.

        A parameter without any was never updated: that of a network whose stage has not begun.
        """
        if num_steps == 0:
            return
        for optimizer in self.optimizers:
            moments = (
                ("momentum_buffer",)
                if isinstance(optimizer, torch.optim.Muon)
                else ("step", "exp_avg", "exp_avg_sq")
            )
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if not any(f"{self.names[parameter]}:{moment}" in tensors for moment in moments):
                        continue
                    saved = {moment: tensors[f"{self.names[parameter]}:{moment}"] for moment in moments}
                    optimizer.state[parameter] = {
                        moment: value.to(parameter.device) if value.dim() else value.clone()
                        for moment, value in saved.items()
                    }


def own_parameters(pair: Pair) -> dict[nn.Parameter, None]:
    """The weights of the auxiliary network that it does not share with the main one, in order."""
    small, shared = pair.auxiliary, {id(parameter) for parameter in pair.main.parameters()}
    return dict.fromkeys(
        parameter for parameter in (small.parameters() if small else ()) if id(parameter) not in shared
    )


def _groups(pair: Pair, settings: TrainingSection) -> list[dict[str, Any]]:
    """Weights that a small generator shares with the network it serves belong to that network's groups."""
    own = own_parameters(pair)
    groups: dict[tuple[bool, bool, bool], dict[str, Any]] = {}
    for name, parameter in pair.named_parameters():
        generator_only = parameter in own
        decayed = parameter.dim() >= 2
        muon = settings.optimizer == "muon" and decayed and ".layers." in name
        rate = settings.learning_rate
        if generator_only and settings.generator_learning_rate is not None:
            rate = settings.generator_learning_rate
        decay = settings.weight_decay if decayed else 0.0
        fresh = {"params": [], "peak": rate, "weight_decay": decay, "decay": decay, "muon": muon}
        groups.setdefault((generator_only, decayed, muon), fresh)["params"].append(parameter)
    return list(groups.values())


def _num_updates(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> int:
    """Updates of the group's weights so far: fewer than the run's where their stage began later."""
    return next(
        (
            int(optimizer.state[parameter]["step"])
            for parameter in group["params"]
            if parameter in optimizer.state
        ),
        0,
    )


def _cancel_bias_correction(group: dict[str, Any], settings: TrainingSection, step: int) -> None:
    """Choose the rate, epsilon and decay that make the corrected update of torch equal the uncorrected one of
    the published code.

    torch: p -= lr/c1 * m / (sqrt(v)/sqrt(c2) + eps), c = 1 - beta^step. Wanted: p -= rate * m / (sqrt(v) +
        epsilon).
    """
    c1, c2 = (1 - beta**step for beta in settings.betas)
    rate = group["lr"]
    group["eps"] = settings.epsilon / math.sqrt(c2)
    group["lr"] = rate * c1 / math.sqrt(c2)
    group["weight_decay"] = group["decay"] * math.sqrt(c2) / c1
