"""AdamW over named weights in groups, and the groups of a run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.model.pair import Pair
from electra.training.recipe import OptimizerSection

MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # torch's names for the state of a weight


def _undecorated(method: Any) -> Any:
    """Returns the method without torch's decorator, which imports the compiler and so takes a second."""
    return getattr(method, "__wrapped__", method)


class GroupedOptimizer(torch.optim.AdamW):
    """torch's fused AdamW without its slow import, optionally without bias correction.

    Each group has its "params", its "peak" learning rate and its "weight_decay". The state is saved by the
    weight's name, so a checkpoint does not depend on the order of groups.
    """

    add_param_group = _undecorated(torch.optim.Optimizer.add_param_group)
    _step = torch.no_grad()(_undecorated(torch.optim.AdamW.step))

    def __init__(
        self, named: Mapping[str, nn.Parameter], groups: Sequence[dict[str, Any]], settings: OptimizerSection
    ) -> None:
        super().__init__(groups, lr=0.0, betas=settings.betas, eps=settings.epsilon, fused=True)
        self.settings, self.named, self.parameters = settings, dict(named), list(named.values())
        self.decays = [group["weight_decay"] for group in self.param_groups]

    def clip(self) -> Tensor:
        """Scales the gradients down to the maximum norm. Returns the total norm before that."""
        return nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)

    @override
    def step(self, multiplier: float) -> None:  # type: ignore[override]
        """Updates the weights, with each group's peak learning rate times `multiplier`."""
        for group, decay in zip(self.param_groups, self.decays, strict=True):
            group["lr"] = group["peak"] * multiplier
            if not self.settings.bias_correction:
                self._cancel_bias_correction(group, decay)
        self._step()

    def _cancel_bias_correction(self, group: dict[str, Any], decay: float) -> None:
        """Sets rate, epsilon and decay so that torch's corrected update equals the uncorrected one.

        torch: p -= lr/c1 * m / (sqrt(v)/sqrt(c2) + eps) with c = 1 - beta^step.
        The published code: p -= rate * m / (sqrt(v) + epsilon), for every weight, whatever its own step.
        """
        step = 1 + self._share_step(group["params"])
        c1, c2 = (1 - beta**step for beta in group["betas"])
        group["eps"] = self.settings.epsilon / math.sqrt(c2)
        group["lr"] *= c1 / math.sqrt(c2)
        group["weight_decay"] = decay * math.sqrt(c2) / c1

    def _share_step(self, parameters: Sequence[nn.Parameter]) -> int:
        """Gives the weights of a group that have a gradient one number of updates so far, and returns it.

        torch corrects each by its own number, which a stage of the training that skips a weight leaves
        behind; but the correction is cancelled for all of the group at once.
        """
        steps = [self.state[p]["step"] for p in parameters if p in self.state]
        done = int(torch.stack(steps).max()) if steps else 0
        for parameter in parameters if done else ():
            if parameter.grad is None:
                continue
            if parameter not in self.state:
                moments = {name: torch.zeros_like(parameter) for name in MOMENTS[1:]}
                step = torch.zeros((), device=parameter.device)
                self.state[parameter] = {"step": step, **moments}
            self.state[parameter]["step"].fill_(done)
        return done

    @override
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """Returns the optimizer state: a tensor for each `NAME:MOMENT`."""
        return {
            f"{name}:{moment}": value
            for name, parameter in self.named.items()
            if parameter in self.state
            for moment, value in self.state[parameter].items()
        }

    @property
    def bytes(self) -> int:
        """Size of the optimizer state in bytes, known before the first step."""
        return 2 * sum(parameter.nbytes for parameter in self.parameters)

    def load_tensors(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """Restores the optimizer state after `num_steps` updates.

        A parameter may have no state at all: then it was never updated, because the stage that trains it had
        not begun. Raises KeyError with the name of a missing tensor.
        """
        for name, parameter in self.named.items() if num_steps else ():
            if any(f"{name}:{moment}" in tensors for moment in MOMENTS):
                self.state[parameter] = {moment: tensors[f"{name}:{moment}"].to(parameter.device) for moment in MOMENTS}


class Optimizer(GroupedOptimizer):
    """The optimizer of a run, with groups by network and weight decay.

    `rates` are the peak learning rates, by network, of weights that only this network has; shared weights
    have the main network's.
    """

    def __init__(self, pair: Pair, settings: OptimizerSection, rates: Mapping[str, float] | None = None) -> None:
        others = [(name, network) for name, network in pair.named.items() if network is not pair.main]
        owners = {p: name for name, network in reversed(others) for p in pair.own_parameters(network)}
        named = dict(pair.named_parameters())
        groups: dict[tuple[str, bool], dict[str, Any]] = {}
        for parameter in named.values():
            network, decayed = owners.get(parameter, ""), parameter.dim() >= 2
            group = {
                "params": [],
                "peak": (rates or {}).get(network, settings.learning_rate),
                "weight_decay": settings.weight_decay if decayed else 0.0,
            }
            groups.setdefault((network, decayed), group)["params"].append(parameter)
        super().__init__(named, list(groups.values()), settings)
