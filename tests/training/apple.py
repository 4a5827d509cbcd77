"""A stand-in for an Apple GPU: it computes on the CPU, and refuses what such a device refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

MPS = torch.device("mps")
MOVES = (Tensor.to, Tensor.cpu, Tensor.copy_)


class OnApple(Tensor):
    device = property(lambda self: MPS)  # type: ignore[assignment]


class AppleParameter(OnApple, nn.Parameter):
    pass


class Apple(TorchFunctionMode):
    """While it is entered, what is made on or moved to `mps` counts as lying there."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = dict(kwargs or {})
        tensors = [value for value in tree_flatten((args, given))[0] if isinstance(value, Tensor)]
        here = any(isinstance(tensor, OnApple) for tensor in tensors)
        if func is Tensor.cpu:
            here = False
        named = [*(args[1:] if func is Tensor.to else ()), given.get("device")]
        for place in named:
            if isinstance(place, str | torch.device):
                here = torch.device(place).type == "mps"
        if func is Tensor.to:
            args = tuple(value for value in args if not isinstance(value, str | torch.device))
            given.setdefault("copy", False)
        given.pop("device", None)
        if here and func not in MOVES:
            refuse_mixture(func, tensors)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **given)
        return tree_map(lambda value: placed(value, here, func), result)


def refuse_mixture(func: object, tensors: Iterable[Tensor]) -> None:
    apart = [tensor for tensor in tensors if not isinstance(tensor, OnApple) and tensor.dim()]
    if apart and "getitem" not in str(func) and "__set__" not in str(func):
        raise RuntimeError(f"{func}: a tensor on the host among those on mps")


def placed(value: object, here: bool, func: object) -> object:
    if not isinstance(value, Tensor) or isinstance(value, OnApple) == here:
        return value
    if not here:
        return value.as_subclass(Tensor)
    if value.dtype == torch.float64:
        raise TypeError(f"{func}: mps has no float64")
    return value.as_subclass(OnApple)


def to_apple(module: nn.Module) -> nn.Module:
    """What `module.to("mps")` does, here."""
    for part in module.modules():
        for parameter in part._parameters.values():
            if parameter is not None:
                parameter.__class__ = AppleParameter
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else buffer.as_subclass(OnApple)
    return module
