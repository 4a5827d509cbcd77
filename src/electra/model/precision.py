"""Which device and which number format: bf16 matrix products where the hardware has them, fp32 elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from electra.foundation.config import convert
from electra.foundation.errors import ConfigError
from electra.foundation.machine import DEVICES, Device, DeviceKind


def kind_of(device: torch.device | Tensor) -> DeviceKind:
    return DEVICES[device.device.type if isinstance(device, Tensor) else device.type]


def pick_device(name: str, local_rank: int = 0, key: str = "device") -> torch.device:
    """The device that the setting `key` asks for."""
    convert(Device, name, key)
    if name == "auto":
        name = "cuda" if DEVICES["cuda"].is_there() else "cpu"
    if not DEVICES[name].is_there():
        raise ConfigError(f"torch finds no {DEVICES[name].what}", key=key, fix=f"Use `{key}=cpu`")
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)


def pick_precision(name: str, device: torch.device) -> str:
    """'bf16' or 'fp32'."""
    if name != "auto":
        return name
    return "bf16" if kind_of(device).has_bf16() else "fp32"


def wide(tensor: Tensor) -> Tensor:
    """The tensor in float64; on the host where its device has no such numbers."""
    return (tensor if kind_of(tensor).float64 else tensor.cpu()).double()


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; float64 stays on the host where the device has no such numbers."""
    stays = tensor.dtype == torch.float64 and not kind_of(device).float64
    return tensor if stays else tensor.to(device, non_blocking=True)


def autocast(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
