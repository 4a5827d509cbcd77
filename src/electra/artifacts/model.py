"""Model folders: one network in the format of transformers, ready to be published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from electra.artifacts.folder import REPORT, File, Finding, Folder
from electra.foundation import durable
from electra.foundation.errors import ModelError

Dtype = Literal["float32", "bfloat16", "float16"]  # of the weights
Pooling = Literal["cls", "mean", "max", "last"]
Judge = Literal["auto", "discriminator", "language-model"]
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
# transformers has no class for some heads: ours are then saved beside the weights of the encoder.
HEAD = "head.safetensors"
SHARED = "encoder_beside"  # in config.json: the name of the folder beside that has the encoder's weights
SHARED_DIGEST = "encoder_beside"  # in the same header: SHA-256 of the encoder and the tokenizer beside
FILES_DIGEST = "files"  # in the header of the weights: SHA-256 of the files that were written with them
_LONGEST_HEADER = 100_000_000  # of the format
SHARDS = f"{WEIGHTS}.index.json"  # in its place where the weights are in several files
PICKLE = "pytorch_model.bin"
GENERATOR_PICKLE = "pytorch_model.generator.bin"  # of DeBERTaV3, beside its discriminator's
OTHER_WEIGHTS = ("tf_model.h5", "flax_model.msgpack", "model.ckpt.index", "rust_model.ot")
ONNX = "model.onnx"  # in the place of the weights
TASK = "task.json"  # what a fine-tuned model answers: task and settings as its finetune.json has them
# What sentence-transformers reads to make one vector of a text: its steps, and how tokens are pooled.
MODULES, POOLING = "modules.json", "1_Pooling/config.json"
TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS, VOCABULARY = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)
ADDED_TOKENS, VOCABULARY_JSON, MERGES = "added_tokens.json", "vocab.json", "merges.txt"
SENTENCE_PIECES = "spm.model"
TOKENIZER_FILES = (
    TOKENIZER,
    TOKENIZER_CONFIG,
    SPECIAL_TOKENS,
    VOCABULARY,
    ADDED_TOKENS,
    VOCABULARY_JSON,
    MERGES,
    SENTENCE_PIECES,
)


class ModelFolder(Folder):
    """config.json, model.safetensors, the tokenizer's files, how vectors are pooled, README.md; no more."""

    KIND = "model folder"
    RECORD = CONFIG
    BESIDE = ()
    ERROR = ModelError

    weights = File(WEIGHTS)
    head = File(HEAD)
    card = File(CARD)
    onnx = File(ONNX)  # the graph, in a folder that holds one in the place of weights
    task = File(TASK)  # what a fine-tuned model was trained to answer
    pooling = File(POOLING)  # how the tokens' states become one vector of a text; absent in folders of others
    pickle = File(PICKLE)

    @property
    def page(self) -> Path:
        """Beside the folder, which holds what can be published and nothing else."""
        return self.path.with_name(f"{self.path.resolve().name}-{REPORT}")

    @property
    def shares_encoder_with(self) -> Path | None:
        """The folder beside this one that has this network's encoder and tokenizer: its own weights are its
        head's alone. So one body with two heads comes with the package once.
        """
        name = self.record.get(SHARED)
        if name is None:
            return None
        parent = self.path.resolve().parent
        beside = {path.name: path for path in parent.iterdir() if ModelFolder.is_at(path)}
        if not isinstance(name, str) or name not in beside:
            what = f"{SHARED} is {str(name)[:60]!r}, not a model folder beside it"
            raise ModelError(what, where=self.path / CONFIG, fix="Copy the folders that belong together")
        return beside[name]

    @property
    def holds_graph(self) -> bool:
        return self.onnx.is_file() and not self.weights.is_file()

    def changed(self) -> dict[str, str]:
        """Problems of the files that were written with the weights, by the digests in the weights' header."""
        found = {}
        for name, digest in (recorded_files(self.weights) or {}).items():
            path = self.path / name
            if durable.points_outside(name) or not path.is_file():
                found[name] = f"{name} is missing"
            elif durable.sha256(path) != digest:
                found[name] = f"{name} is not what was saved (its SHA-256 differs from that in {WEIGHTS})"
        return found

    def damage_of_graph(self) -> str | None:
        """What is wrong with a folder that holds a graph. Its author adds to the card."""
        return durable.verify_directory(self.path, apart=(CARD,))

    def check(self) -> Iterator[Finding]:
        """Without torch: that the configuration can be read, and that the weights are as long as they say."""
        yield from super().check()
        if self.holds_graph:
            yield Finding(self.onnx, "graph", self.damage_of_graph() or "")
            return
        problem = _problem_of_weights(self.weights)
        yield Finding(self.weights, "weights", problem or "; ".join(self.changed().values()))

    def facts(self) -> Sequence[tuple[str, Any]]:
        record = self.record
        return (
            ("kind", (record.get("architectures") or [record.get("model_type", "model")])[0]),
            ("layers", f"{record.get('num_hidden_layers')} of {record.get('hidden_size')}"),
            ("vocabulary", f"{record.get('vocab_size'):,}"),
        )


def _problem_of_weights(path: Path) -> str:
    """The header of a safetensors file names the bytes of every tensor: none may be missing."""
    if not path.is_file():
        return "missing"
    try:
        length, header = _header(path)
        ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return "not readable as safetensors"
    expected, size = 8 + length + max(ends, default=0), path.stat().st_size
    return "" if size == expected else f"has {size} bytes instead of {expected}"


def _header(path: Path) -> tuple[int, dict[str, Any]]:
    """The length of a safetensors file's header, and what it says; ValueError and the like when damaged."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_HEADER:
            raise ValueError("a longer header than the format allows")
        return length, dict(json.loads(file.read(length)))


def recorded_files(weights: Path) -> dict[str, str] | None:
    """The digests of other files in the header of the weights; None: of others, or of an older version."""
    try:
        listing = json.loads(_header(weights)[1]["__metadata__"][FILES_DIGEST])
        return {str(name): str(digest) for name, digest in listing.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
