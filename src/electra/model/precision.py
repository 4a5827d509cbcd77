"""Choice of device and number format: bf16 matrix products where the hardware supports them, else fp32."""

import torch
from torch import Tensor

from electra.foundation.config import convert
from electra.foundation.errors import ConfigError, RunFailed
from electra.foundation.machine import DEVICES, Device, DeviceKind


def device_kind(device: torch.device | Tensor) -> DeviceKind:
    """Returns the properties of a device, or of the device of a tensor."""
    return DEVICES[device.device.type if isinstance(device, Tensor) else device.type]


def pick_device(name: str, local_rank: int = 0, key: str = "device") -> torch.device:
    """Returns the device called `name`; "auto" is the GPU `local_rank` if there is one, else the CPU.

    Raises ConfigError, with the setting `key`, if the name is unknown or there is no such device.
    """
    convert(Device, name, key)
    if name == "auto":
        name = "cuda" if DEVICES["cuda"].is_available() else "cpu"
    if not DEVICES[name].is_available():
        raise ConfigError(f"PyTorch finds no {DEVICES[name].name}", key=key, fix=f"Use `{key}=cpu`")
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)


def pick_precision(name: str, device: torch.device) -> str:
    """Returns "bf16" or "fp32"; "auto" is bf16 where the device supports it."""
    if name != "auto":
        return name
    return "bf16" if device_kind(device).has_bf16() else "fp32"


def to_float64(tensor: Tensor) -> Tensor:
    """Converts to float64, on the host if the tensor's device does not support it."""
    return (tensor if device_kind(tensor).float64 else tensor.cpu()).double()


def finite(outputs: Tensor) -> Tensor:
    """Returns the outputs of a network. Raises RunFailed if one is not a finite number."""
    if not bool(outputs.isfinite().all()):
        fix = "Restore the model if its weights are damaged; in training, lower `learning_rate`"
        raise RunFailed("the model's outputs are not finite", fix=fix)
    return outputs


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Moves a tensor to the device; float64 stays on the host if the device does not support it."""
    stays = tensor.dtype == torch.float64 and not device_kind(device).float64
    return tensor if stays else tensor.to(device, non_blocking=True)


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Returns a context manager that autocasts to bf16 if `precision` is "bf16", else does nothing."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
