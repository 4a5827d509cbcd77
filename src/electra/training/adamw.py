"""AdamW as in the paper (Table 6), or without bias correction, as in its published code."""

from __future__ import annotations

import math
from typing import Any

import torch
from typing_extensions import override


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
