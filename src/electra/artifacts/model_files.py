"""Model folders: one network in the format of transformers, ready to be published."""

import json
from pathlib import Path
from typing import Literal

from safetensors import SafetensorError, safe_open

from electra.artifacts.folder import REPORT, ChildPath, Folder
from electra.foundation import durable
from electra.foundation.errors import ModelError

Dtype = Literal["float32", "bfloat16", "float16", "int8", "int4"]  # number format of the weights
Pooling = Literal["cls", "mean", "max", "last"]
Scorer = Literal["auto", "discriminator", "language-model", "both"]
DETECTION = "detection.json"  # what the thresholds of `electra detect` do; see inference/detector.py
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
# Integers with scales, instead of WEIGHTS. The names keep other programs from using the integers as weights.
INTEGER_WEIGHTS = {"int8": "model-int8.safetensors", "int4": "model-int4.safetensors"}
# Heads for which transformers has no class are saved next to the weights of the encoder.
HEAD = "head.safetensors"
# The same key in two places: in config.json, the name of the sibling folder that has the encoder; in the
# weights' header, the SHA-256 of the sibling's encoder and tokenizer.
SHARED = SHARED_DIGEST = "encoder_beside"
# In config.json: the names of the tensors that are read from the sibling (absent: the whole encoder).
SHARED_TENSORS = "tensors_beside"
FILES_DIGEST = "files"  # in the weights' header: SHA-256 of the files written along with the weights
SHARDS = f"{WEIGHTS}.index.json"  # present instead of WEIGHTS if the weights are in several files
_OTHERS = "pytorch_model.bin tf_model.h5 flax_model.msgpack model.ckpt.index rust_model.ot"
OTHER_WEIGHTS = tuple(_OTHERS.split())
ONNX = "model.onnx"  # instead of the weights
TASK = "task.json"  # the task and settings of a fine-tuned model, as in finetune.json
# Files of sentence-transformers: the steps from a text to its vector, and how tokens are pooled.
MODULES, POOLING = "modules.json", "1_Pooling/config.json"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
SPECIAL_TOKENS, ADDED_TOKENS = "special_tokens_map.json", "added_tokens.json"
VOCABULARY, VOCABULARY_JSON, MERGES = "vocab.txt", "vocab.json", "merges.txt"
_OF_WORDS = (VOCABULARY, ADDED_TOKENS, VOCABULARY_JSON, MERGES)
TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS, *_OF_WORDS)
# What `electra export` writes, with weights that are no integers
FILES = (CONFIG, WEIGHTS, TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, MODULES, POOLING, CARD, DETECTION)
NEEDED = {*FILES, *INTEGER_WEIGHTS.values(), HEAD, TASK, *TOKENIZER_FILES} - {CARD}  # by any model


class ModelFolder(Folder):
    """One model and nothing else: configuration, weights or a graph, tokenizer, pooling, task and card."""

    KIND = "model folder"
    RECORD = CONFIG
    ALLOWED_EARLY = ()
    ERROR = ModelError

    head = ChildPath(HEAD)
    card = ChildPath(CARD)
    onnx = ChildPath(ONNX)  # the graph, in a folder without weights
    task = ChildPath(TASK)  # the task of a fine-tuned model
    pooling = ChildPath(POOLING)  # how token states become a vector of the text; other programs may omit it

    @property
    def weights(self) -> Path:
        """The file with the weights, if they are in a single one. Raises ModelError if there are several."""
        names = (*INTEGER_WEIGHTS.values(), WEIGHTS, SHARDS)
        present = [name for name in names if (self.path / name).is_file()]
        if present[1:] and present != [WEIGHTS, SHARDS]:  # as transformers, which prefers the single file
            problem = f"weights in several files, {' and '.join(present)}, which may differ"
            raise ModelError(problem, where=self.path, fix="Delete all but the one to use")
        return self.path / (present[0] if present and present[0] != SHARDS else WEIGHTS)

    @property
    def page(self) -> Path:
        """The HTML page, next to the folder: the folder itself holds only what can be published."""
        return self.path.with_name(f"{self.path.resolve().name}-{REPORT}")

    @property
    def shares_encoder_with(self) -> Path | None:
        """The sibling folder with this network's encoder and tokenizer; None if this folder has its own.

        What two networks share, an encoder or its token table, is thus stored only once; this folder has only
        the other weights. Raises ModelError if the sibling is missing or `record` cannot be read.
        """
        name = self.record.get(SHARED)
        if name is None:
            return None
        parent = self.path.resolve().parent
        siblings = {path.name: path for path in parent.iterdir() if ModelFolder.is_at(path)}
        if not isinstance(name, str) or name not in siblings:
            problem = f"{SHARED} is {str(name)[:60]!r}, which is not a model folder in {parent}"
            raise ModelError(problem, where=self.path / CONFIG, fix="Copy both folders")
        return siblings[name]

    @property
    def holds_graph(self) -> bool:
        """Whether the folder has an ONNX graph instead of weights."""
        return self.onnx.is_file() and not self.weights.is_file()

    @property
    def graphs(self) -> list[Path]:
        """The ONNX graph, if there is one (model.onnx, here or in onnx/), else all files that may be it."""
        usual = [path for path in (self.onnx, self.path / "onnx" / ONNX) if path.is_file()]
        return usual[:1] or sorted({*self.path.glob("*.onnx"), *self.path.glob("onnx/*.onnx")})

    def changed_files(self) -> dict[str, str]:
        """Returns the problem with each missing or changed file, by name; {} if no digests are recorded."""
        problems = {}
        for name, digest in (recorded_files(self.weights) or {}).items():
            path = self.path / name
            if durable.points_outside(name) or not path.is_file():
                problems[name] = f"{name} is missing"
            elif durable.sha256(path) != digest:
                problems[name] = f"{name} was changed (its SHA-256 differs from that in {self.weights.name})"
        return problems

    def damage_of_graph(self) -> str | None:
        """Returns what is damaged in a folder with a graph, or None. The card may have been changed."""
        return durable.verify_directory(self.path, skip=(CARD,))


def recorded_files(weights: Path) -> dict[str, str] | None:
    """Returns the digests, by name, of the model's other files, which the weights' header records.

    Returns None if there are none: the file is unreadable, or another program or an older version wrote it.
    """
    try:
        with safe_open(weights, "np") as file:
            listing = json.loads(file.metadata()[FILES_DIGEST])
        return {str(name): str(digest) for name, digest in listing.items()}
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
