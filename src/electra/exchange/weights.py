"""Reads and writes weights in safetensors format, with a digest that detects damage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from electra.artifacts.model import FILES_DIGEST
from electra.foundation import durable
from electra.foundation.errors import ModelError

DIGEST = "sha256"  # key in the file's header


def write_weights(
    path: Path,
    tensors: Mapping[str, Tensor],
    other_files: Mapping[str, durable.Content] = {},
    further: Mapping[str, str] = {},
) -> None:
    """Writes tensors to a safetensors file; equal arguments give equal bytes.

    The library writes the header's metadata in random order, so the header is sorted afterwards.

    Args:
        path: the file.
        tensors: the tensors by name.
        other_files: the model's other files, by name; the digests of those given as bytes go into the header.
        further: further metadata for the header.
    """
    from safetensors.torch import save_file

    file_digests = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in other_files.items()
        if isinstance(content, bytes)
    }
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
    """Returns the digest in the file's header; None if another program or an older version wrote it.

    Raises SafetensorError or OSError if the file cannot be read.
    """
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return (file.metadata() or {}).get(key)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Reads a weights file and compares it with the digest in its header, if there is one.

    Raises:
        ModelError: not a safetensors file, or the digest differs.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    fix = "Download or export it again"
    try:
        tensors, saved_digest = dict(load_file(path)), recorded_digest(path)
    except (SafetensorError, OSError, ValueError) as problem:
        raise ModelError(f"not a valid safetensors file ({problem})", where=path, fix=fix) from None
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
