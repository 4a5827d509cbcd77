"""The tensors of a model's weights file, with a digest that notices damage."""

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

DIGEST = "sha256"  # its key in the header


def write_weights(
    path: Path,
    tensors: Mapping[str, Tensor],
    beside: Mapping[str, durable.Content] = {},
    further: Mapping[str, str] = {},
) -> None:
    """The same tensors make the same bytes: the library writes the header's metadata in no fixed order, so it
    is put in order.

    beside: the files that belong to these weights, whose digests the header keeps.
    further: what else the header says.
    """
    from safetensors.torch import save_file

    listing = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in beside.items()
        if isinstance(content, bytes)
    }
    metadata = {"format": "pt", DIGEST: digest(tensors), FILES_DIGEST: json.dumps(listing, sort_keys=True)}
    metadata |= further
    save_file(dict(tensors), path, metadata=metadata)
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        ordered = {"__metadata__": dict(sorted(header.pop("__metadata__").items())), **header}
        content = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()
        assert len(content) <= size
        file.seek(8)
        file.write(content.ljust(size))


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over the names, types, shapes and bytes of the tensors, in the order of their names."""
    state = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        state.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        state.update(tensor.flatten().view(torch.uint8).numpy().data)
    return state.hexdigest()


def recorded_digest(path: Path, key: str = DIGEST) -> str | None:
    """None: written by others, or by an older version."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return (file.metadata() or {}).get(key)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Raises ModelError for a file that is no safetensors, or whose tensors are not those that were saved
    (where that is recorded): nothing else would notice a wrong bit in one of them.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors, recorded = dict(load_file(path)), recorded_digest(path)
    except (SafetensorError, OSError, ValueError) as problem:
        raise ModelError(
            f"not readable as safetensors ({problem})", where=path, fix="The file is damaged: get it again"
        ) from None
    if recorded not in (None, digest(tensors)):
        raise ModelError(
            "damaged: its tensors are not those that were saved (their SHA-256 differs)",
            where=path,
            fix="Get it or export it again",
        )
    return tensors


def read_shards(index: Path) -> dict[str, Tensor]:
    """The tensors of `model.safetensors.index.json`, which says in which file beside it each is."""
    listed = durable.read_json(index, ModelError)
    places = listed.get("weight_map") if isinstance(listed, dict) else None
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ModelError("no weight_map that says in which file each tensor is", where=index)
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(places.values())):
        shard = index.parent / file
        if Path(file).name != file or not shard.is_file():
            raise ModelError("missing: a file of the weights", where=shard, fix="Get the whole model again")
        tensors |= read_safetensors(shard)
    if lost := sorted(places.keys() - tensors.keys()):
        raise ModelError(f"the tensor {lost[0]} is in none of its files", where=index, fix="Get it again")
    return tensors


def refuse_broken(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Weights that are not numbers would make every answer of the model "not a number", silently."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ModelError(
                f"tensor {name} holds values that are not finite (NaN or infinity)",
                where=folder,
                fix="The weights are damaged or their training diverged: get or export them again",
            )


def refuse_other_types(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Weights of other types, as quantised models have, mean something else than their numbers say."""
    floating = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    for name, tensor in tensors.items():
        if tensor.dtype not in floating and not name.endswith("position_ids"):  # a buffer in older files
            raise ModelError(
                f"tensor {name} holds {str(tensor.dtype).removeprefix('torch.')}, not floating-point weights",
                where=folder,
                fix="Save the model in float32, float16 or bfloat16",
            )
