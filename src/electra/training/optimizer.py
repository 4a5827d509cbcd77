"""The optimizer of a run: its weights in groups, each updated by an algorithm that the recipe selects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.model.pair import Pair
from electra.training.algorithms import ALGORITHMS, Algorithm, Groups, OptimizerSection, algorithm_for


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

    `rates` are the peak learning rates, by network, of weights that only this network has.
    """

    def __init__(
        self, pair: Pair, settings: OptimizerSection, rates: Mapping[str, float] | None = None
    ) -> None:
        self.own_parameters = {
            name: pair.own_parameters(net) for name, net in pair.named.items() if net is not pair.main
        }
        named = dict(pair.named_parameters())
        super().__init__(named, self._groups(named, settings, rates or {}), settings)

    def _groups(
        self, named: Mapping[str, nn.Parameter], settings: OptimizerSection, rates: Mapping[str, float]
    ) -> dict[Algorithm, Groups]:
        """Returns the groups of each algorithm.

        Shared weights belong to the groups of the main network.
        """
        groups: dict[Algorithm, dict[tuple[str, bool], dict[str, Any]]] = {}
        for name, parameter in named.items():
            network = next(
                (
                    network_name
                    for network_name, parameters in self.own_parameters.items()
                    if parameter in parameters
                ),
                "",
            )
            decayed = parameter.dim() >= 2
            group = {
                "params": [],
                "peak": rates.get(network, settings.learning_rate),
                "weight_decay": settings.weight_decay if decayed else 0.0,
            }
            algorithm_name = algorithm_for(settings.optimizer, name, parameter)
            groups.setdefault(algorithm_name, {}).setdefault((network, decayed), group)["params"].append(
                parameter
            )
        return {algorithm: list(groups_by_key.values()) for algorithm, groups_by_key in groups.items()}

    @override
    def clip(self) -> Tensor:
        """As in the base class, but separately for each network's own weights if the recipe says so."""
        if not self.settings.clip_separately:
            return super().clip()
        by_network = [list(own) for own in self.own_parameters.values()]
        other_parameters = [
            p for p in self.parameters if not any(p in own for own in self.own_parameters.values())
        ]
        norms = [
            nn.utils.clip_grad_norm_(parameters, self.settings.clip)
            for parameters in [*by_network, other_parameters]
        ]
        total_norm: Tensor = torch.linalg.vector_norm(
            torch.stack([norm.to(other_parameters[0].device) for norm in norms])
        )
        return total_norm
