"""The weights of a training in groups, stepped by the algorithms that its recipe names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from electra.model.pair import Pair
from electra.training.algorithms import ALGORITHMS, Algorithm, Groups, OptimizerSection, algorithm_for


class Steps:
    """Named weights in groups by algorithm, stepped by torch's fused kernels.

    Moments are addressed by the weight's name, so a checkpoint does not depend on the order of groups.
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
        """Scale the gradients down to the largest allowed norm. Returns the norm before, of all of them."""
        return nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)

    def step(self, multiplier: float) -> None:
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * multiplier
            optimizer.step()

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """The moments, as `name:moment` -> tensor."""
        return {
            f"{self.names[parameter]}:{moment}": value
            for optimizer in self.optimizers.values()
            for parameter, state in optimizer.state.items()
            for moment, value in state.items()
            if isinstance(value, Tensor)
        }

    @property
    def bytes(self) -> int:
        """Of the moments that it will keep."""
        return sum(
            len([moment for moment in ALGORITHMS[name].moments if moment != "step"]) * parameter.nbytes
            for name, optimizer in self.optimizers.items()
            for group in optimizer.param_groups
            for parameter in group["params"]
        )

    def load_tensors(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """Put the moments back; raises KeyError with the name of one that is missing.

        A parameter without any was never updated: that of a network whose stage has not begun.
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


class Optimizer(Steps):
    """That of a training: its groups are network x decayed or not x algorithm.

    rates: the peak learning rate of the weights that a network has alone, where it is not the training's.
    """

    def __init__(
        self, pair: Pair, settings: OptimizerSection, rates: Mapping[str, float] | None = None
    ) -> None:
        self.own = {
            name: pair.own_parameters(net) for name, net in pair.named.items() if net is not pair.main
        }
        named = dict(pair.named_parameters())
        super().__init__(named, self._groups(named, settings, rates or {}), settings)

    def _groups(
        self, named: Mapping[str, nn.Parameter], settings: OptimizerSection, rates: Mapping[str, float]
    ) -> dict[Algorithm, Groups]:
        """Weights that a network shares with the one it serves belong to that one's groups."""
        groups: dict[Algorithm, dict[tuple[str, bool], dict[str, Any]]] = {}
        for name, parameter in named.items():
            network = next((owner for owner, own in self.own.items() if parameter in own), "")
            decayed = parameter.dim() >= 2
            group = {
                "params": [],
                "peak": rates.get(network, settings.learning_rate),
                "weight_decay": settings.weight_decay if decayed else 0.0,
            }
            chosen = algorithm_for(settings.optimizer, name, parameter)
            groups.setdefault(chosen, {}).setdefault((network, decayed), group)["params"].append(parameter)
        return {algorithm: list(each.values()) for algorithm, each in groups.items()}

    def clip(self) -> Tensor:
        """Where the recipe says so, each network's own weights apart from all others."""
        if not self.settings.clip_separately:
            return super().clip()
        apart = [list(own) for own in self.own.values()]
        rest = [p for p in self.parameters if not any(p in own for own in self.own.values())]
        norms = [nn.utils.clip_grad_norm_(part, self.settings.clip) for part in [*apart, rest]]
        together: Tensor = torch.linalg.vector_norm(torch.stack([norm.to(rest[0].device) for norm in norms]))
        return together
