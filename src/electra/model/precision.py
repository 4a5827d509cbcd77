"""Which device and which number format: bf16 matrix products where the hardware has them, fp32 elsewhere."""

from __future__ import annotations

import torch

from electra.foundation.config import convert
from electra.foundation.errors import ConfigError
from electra.foundation.machine import Device


def pick_device(name: str, local_rank: int = 0, key: str = "device") -> torch.device:
    """The device that the setting `key` asks for."""
    convert(Device, name, key)
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("no CUDA device found", key=key, fix=f"Use `{key}=cpu`")
    if name == "mps":  # an Apple GPU
        if not torch.backends.mps.is_available():
            raise ConfigError("no Apple GPU found by this torch", key=key, fix=f"Use `{key}=cpu`")
        return torch.device("mps")
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        return torch.device("cuda", local_rank)
    return torch.device("cpu")


def pick_precision(name: str, device: torch.device) -> str:
    """'bf16' or 'fp32'."""
    if name != "auto":
        return name
    if device.type == "mps":
        return "fp32"
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    return "bf16" if torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported() else "fp32"


def autocast(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
