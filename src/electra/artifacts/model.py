"""Model folders: one network in the format of transformers, ready to be published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electra.artifacts.folder import REPORT, Finding, Folder
from electra.errors import ModelError

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
# transformers has no class for some heads: ours are then saved beside the weights of the encoder.
HEAD = "head.safetensors"
PICKLE = "pytorch_model.bin"
# What sentence-transformers reads to make one vector of a text: its steps, and how tokens are pooled.
MODULES, POOLING = "modules.json", "1_Pooling/config.json"
TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS, VOCABULARY = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)
TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS, VOCABULARY)


class ModelFolder(Folder):
    """config.json, model.safetensors, the tokenizer's files, how its vectors are pooled, README.md, and
    nothing else.
    """

    KIND = "model folder"
    RECORD = CONFIG
    BESIDE = ()
    ERROR = ModelError

    @property
    def page(self) -> Path:
        """Beside the folder, which holds what can be published and nothing else."""
        return self.path.with_name(f"{self.path.resolve().name}-{REPORT}")

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS

    @property
    def head(self) -> Path:
        return self.path / HEAD

    @property
    def card(self) -> Path:
        return self.path / CARD

    @property
    def pooling(self) -> Path:
        """How the tokens' states become one vector of a text; absent in folders of others."""
        return self.path / POOLING

    @property
    def pickle(self) -> Path:
        return self.path / PICKLE

    def check(self) -> Iterator[Finding]:
        """Without torch: that the configuration can be read, and that the weights are as long as they say."""
        yield from super().check()
        yield Finding(self.weights, "weights", _problem_of_weights(self.weights))

    def describe(self) -> list[str]:
        record = self.record
        kind = (record.get("architectures") or [record.get("model_type", "model")])[0]
        shape = f"{record.get('num_hidden_layers')} layers of {record.get('hidden_size')}"
        return [f"{kind}, {shape}, a vocabulary of {record.get('vocab_size'):,}"]


def _problem_of_weights(path: Path) -> str:
    """The header of a safetensors file names the bytes of every tensor: none may be missing."""
    if not path.is_file():
        return "missing"
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header: Any = json.loads(file.read(min(length, path.stat().st_size)))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
            return "not readable as safetensors"
    expected, size = 8 + length + max(ends, default=0), path.stat().st_size
    return "" if size == expected else f"has {size} bytes instead of {expected}"
