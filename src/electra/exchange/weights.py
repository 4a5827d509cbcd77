"""Reads and writes weights in safetensors format, with a digest that detects damage.

For storage, matrices may be 8-bit or 4-bit integers with scales; they are float32 again once they are read. A
matrix NAME becomes integers, and the scales by which they are multiplied are in NAME.scale.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from electra.artifacts.model_files import FILES_DIGEST, Dtype
from electra.foundation import durable
from electra.foundation.errors import ModelError, translated

DIGEST = "sha256"  # key in the file's header
BITS: dict[Dtype, Literal[8, 4]] = {"int8": 8, "int4": 4}
SCALE = ".scale"  # what is appended to a tensor's name, for the tensor of its scales
LARGEST_INT8 = 127  # largest absolute value of an 8-bit weight; -128 is not used
LARGEST_INT4, OFFSET = 7, 8  # of a 4-bit weight, from -8 to 7; the offset makes it a digit from 0 to 15
GROUP = 64  # neighbouring 4-bit weights of a row that share a scale
# Scales that are tried, relative to the group's largest value / 7. Once stored, weights
# are stored again without a change: where -8 is used, the scale is 7/8 of that.
SHARES = (1.0, 0.95, 0.9, 7 / 8, 0.8, 0.75)


def write_weights(
    path: Path,
    tensors: Mapping[str, Tensor],
    other_files: Mapping[str, durable.Content] = {},
    further: Mapping[str, str] = {},
) -> None:
    """Writes tensors to a safetensors file; equal arguments give equal bytes.

    The header has the digests of the `other_files` of the model that are given as bytes, and the `further`
    metadata. The library writes these in random order, so they are sorted afterwards.
    """
    from safetensors.torch import save_file

    contents = {name: content for name, content in other_files.items() if isinstance(content, bytes)}
    file_digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    metadata = {"format": "pt", DIGEST: digest(tensors), **further}
    metadata[FILES_DIGEST] = json.dumps(file_digests, sort_keys=True)
    save_file(dict(tensors), path, metadata=metadata)
    with open(path, "r+b") as file:
        header_size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_size))
        ordered = {"__metadata__": dict(sorted(header.pop("__metadata__").items())), **header}
        content = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()
        assert len(content) <= header_size
        file.seek(8)
        file.write(content.ljust(header_size))


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Returns the SHA-256 of the names, types, shapes and bytes of CPU tensors, sorted by name."""
    hasher = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        hasher.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        hasher.update(tensor.flatten().view(torch.uint8).numpy().data)
    return hasher.hexdigest()


def recorded_digest(path: Path, key: str = DIGEST) -> str | None:
    """Returns the digest in the file's header; None if another program or an older version wrote it."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return (file.metadata() or {}).get(key)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Reads a weights file; ModelError if it is no safetensors file, or differs from its own digest."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    fix = "Download or export it again"
    kinds = (SafetensorError, OSError, ValueError)
    with translated(ModelError, "not a valid safetensors file", kinds, where=path, fix=fix):
        tensors, saved_digest = dict(load_file(path)), recorded_digest(path)
    if saved_digest not in (None, digest(tensors)):
        message = "damaged: the tensors differ from those that were saved (SHA-256 mismatch)"
        raise ModelError(message, where=path, fix=fix)
    return tensors


def read_shards(index: Path) -> dict[str, Tensor]:
    """Reads all shards that `index`, a model.safetensors.index.json, lists. Raises ModelError."""
    content, fix = durable.read_json(index, ModelError), "Download the model again"
    shard_of = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(shard_of, dict) or not all(isinstance(file, str) for file in shard_of.values()):
        raise ModelError("has no valid weight_map", where=index, fix=fix)
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(shard_of.values())):
        if Path(file).name != file or not (index.parent / file).is_file():
            raise ModelError("a shard of the weights is missing", where=index.parent / file, fix=fix)
        tensors |= read_safetensors(index.parent / file)
    if missing := sorted(shard_of.keys() - tensors.keys()):
        raise ModelError(f"tensor {missing[0]} is in none of the shards", where=index, fix=fix)
    return tensors


def require_numbers(tensors: Mapping[str, Tensor], where: Path) -> None:
    """Raises ModelError unless all weights are floating-point numbers and finite."""
    floating = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    for name, tensor in tensors.items():
        if name.endswith("position_ids"):  # a buffer in older files
            continue
        if tensor.dtype not in floating:
            problem = f"has the type {str(tensor.dtype).removeprefix('torch.')}, not a floating-point type"
            fix = "Save the model in float32, float16 or bfloat16"
            raise ModelError(f"tensor {name} {problem}", where=where, fix=fix)
        if not tensor.isfinite().all():
            problem = f"tensor {name} contains values that are not finite (NaN or infinity)"
            fix = "The weights are damaged or training diverged: download or export them again"
            raise ModelError(problem, where=where, fix=fix)


def quantize(tensors: Mapping[str, Tensor], bits: Literal[8, 4]) -> dict[str, Tensor]:
    """Returns the matrices as integers with scales, and all else in float32.

    8 bits: a weight becomes the nearest multiple of its row's scale, a float32, the row's largest absolute
    value / 127. So it changes by at most half a scale, 0.4 % of that value.

    4 bits: GROUP neighbouring weights of a row share a scale, a float16: of several, the one with the
    smallest squared error. Two weights are stored in a byte, the first in its lower half. 8 bits hold a
    matrix whose width is no multiple of GROUP, or whose values do not fit such a scale.
    """
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        values = stored[name] = tensor.float()
        if values.ndim > 1:
            packed = _to_int4(values) if bits == 4 else None
            stored[name], stored[name + SCALE] = packed or _to_int8(values)
    return stored


def dequantize(stored: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Returns the float32 weights that `quantize` stored; ModelError if integers and scales do not match."""
    weights = {name: tensor for name, tensor in stored.items() if not name.endswith(SCALE)}
    for name, values in list(weights.items()):
        if values.dtype not in (torch.int8, torch.uint8):
            continue
        is_packed, scale = values.dtype == torch.uint8, stored.get(name + SCALE)
        shape, fits = values.shape[:1], True
        if is_packed:  # `quantize` packs whole groups only, and no empty matrix
            fits = values.ndim > 1 and values.numel() > 0 and not values.shape[-1] * 2 % GROUP
        if is_packed and fits:
            shape = torch.Size([*values.shape[:-1], values.shape[-1] * 2 // GROUP])
        kind = torch.float16 if is_packed else torch.float32
        if not fits or scale is None or scale.dtype != kind or scale.shape != shape:
            problem = f"{name}{SCALE} is missing, or does not fit the {4 if is_packed else 8}-bit tensor"
            raise ModelError(problem, where=path, fix="Download or export it again")
        weights[name] = _from_int4(values, scale) if is_packed else values.float() * _per_row(scale, values)
    return weights


def _to_int8(values: Tensor) -> tuple[Tensor, Tensor]:
    """Returns integers of the shape of `values`, and a scale for each row."""
    scale = values.flatten(1).abs().amax(1) / LARGEST_INT8
    scale = scale.clamp(min=torch.finfo(torch.float32).tiny)
    return (values / _per_row(scale, values)).round().to(torch.int8), scale


def _per_row(scale: Tensor, values: Tensor) -> Tensor:
    return scale.reshape(-1, *[1] * (values.ndim - 1))


def _to_int4(values: Tensor) -> tuple[Tensor, Tensor] | None:
    """Returns bytes [..., width / 2] and scales [..., width / GROUP]; None if these cannot hold `values`."""
    if values.shape[-1] % GROUP or not values.numel():
        return None
    groups = values.reshape(*values.shape[:-1], -1, GROUP)
    largest = groups.abs().amax(-1, keepdim=True)
    limits, largest_scale = torch.finfo(torch.float16), float(largest.max()) / LARGEST_INT4
    if largest_scale and not limits.tiny <= largest_scale <= limits.max:
        return None
    # What was packed once must be packed again: no share makes a sufficient scale too small, and where a
    # multiple of 8 would make a smaller one sufficient, -8 is not used.
    sufficient, nearly = largest / LARGEST_INT4 >= limits.tiny, limits.tiny * LARGEST_INT4 / OFFSET
    best, scale, smallest = (torch.zeros_like(x) for x in (groups, largest, largest))
    for number, share in enumerate(SHARES):
        tried = (largest * share / LARGEST_INT4).half().float()
        tried = tried.clamp(min=limits.tiny).where(sufficient, tried)
        integers = (groups / tried.where(tried > 0, 1.0)).round().clamp(-OFFSET, LARGEST_INT4)
        is_near = (tried >= nearly) & (tried < limits.tiny)
        integers = integers.clamp(min=-LARGEST_INT4).where(is_near, integers)
        error = (integers * tried - groups).square().sum(-1, keepdim=True)
        better = error < smallest if number else torch.ones_like(error, dtype=torch.bool)
        best = torch.where(better, integers, best)
        scale, smallest = torch.where(better, tried, scale), torch.where(better, error, smallest)
    digits = (best + OFFSET).to(torch.uint8).flatten(-2)
    return digits[..., ::2] | digits[..., 1::2] << 4, scale.squeeze(-1).half()


def _from_int4(packed: Tensor, scale: Tensor) -> Tensor:
    """Returns the weights [..., width] in float32."""
    digits = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)
    groups = (digits.float() - OFFSET).reshape(*digits.shape[:-1], -1, GROUP)
    return torch.as_tensor((groups * scale.float()[..., None]).flatten(-2))
