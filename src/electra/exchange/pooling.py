"""How the states of a text's tokens become its one vector, as sentence-transformers keeps it in a folder.

`modules.json` lists the steps: the transformer, a pooling, and what follows it (dense layers, normalisation).
Every step is applied, or refused by its name. The pooling's file speaks of each mode by a switch of its own,
which every version of that library reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.artifacts.model import CONFIG, MODULES, POOLING, TOKENIZER_CONFIG, WEIGHTS, Pooling
from electra.foundation import durable
from electra.foundation.errors import ModelError

Array = npt.NDArray[np.float64]
SWITCHES = {  # ours, or the library's own name: its switch in POOLING
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "last": "pooling_mode_lasttoken",
}  # in the order in which sentence-transformers puts several side by side
_OTHER_NAMES = {"lasttoken": "last"}  # of `pooling_mode`, which versions from 5.2 write
_PROMPTS = "config_sentence_transformers.json"
_SETTINGS = tuple(
    f"sentence_{kind}_config.json" for kind in ("bert", "roberta", "xlm-roberta", "camembert")
)  # the library reads the first that there is
SENTENCE_FILES = (*_SETTINGS, _PROMPTS)  # further ones that say how sentence-transformers reads a text
_TRANSFORMERS = {"Transformer", "BERT", "RoBERTa", "XLMRoBERTa", "CamemBERT"}
_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "Identity": lambda x: x,
    "Tanh": np.tanh,
    "ReLU": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "GELU": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
}


@dataclass(frozen=True)
class TextVector:
    """What makes a text's vector: [T, D] states of its tokens -> [D'] numbers."""

    modes: tuple[str, ...] = ("mean",)
    steps: tuple[Callable[[Array], Array], ...] = ()  # what follows the pooling, each [N, D] -> [N, D']
    max_length: int | None = None  # tokens that are read, special ones included, if fewer than the positions
    prompt: str = ""  # stands before every text
    lowercase: bool = False  # before the tokenizer
    keep_end: bool = False  # of a text that is too long
    files: Mapping[str, bytes] = field(
        default_factory=dict, repr=False
    )  # that say all this; {}: nothing does

    @property
    def pooling(self) -> Pooling | None:
        """The one mode that this is, where it is one that fine-tuning has."""
        [first, *others] = self.modes
        return None if others or first not in ("cls", "mean", "max", "last") else first  # type: ignore[return-value]

    def with_pooling(self, pooling: Pooling) -> TextVector:
        """Another way of pooling, without what followed the model's own."""
        return replace(self, modes=(pooling,), steps=(), files={})

    def check(self, hidden_size: int, folder: Path) -> None:
        """Raises ModelError where the steps do not fit what they are given."""
        try:
            self.apply(np.zeros((1, hidden_size * len(self.modes))))
        except ValueError:
            what = (
                f"the steps after the pooling do not fit {hidden_size} dimensions and {len(self.modes)} modes"
            )
            raise ModelError(what, where=folder / MODULES) from None

    def apply(self, pooled: Array) -> Array:
        """The steps after the pooling, on [N, D]."""
        for step in self.steps:
            pooled = step(pooled)
        return pooled


class PooledText:
    """The modes of one text, or of a window of it, from the states of its tokens."""

    def __init__(self, modes: Sequence[str], states_TD: Array, first: int = 0) -> None:
        """first: tokens of the text before these."""
        self.modes, self.count = modes, first + len(states_TD)
        places = np.arange(first + 1, self.count + 1)[:, None]
        self.sums: dict[str, Array] = {}
        for mode in modes:
            if mode in ("cls", "last"):
                self.sums[mode] = states_TD[0 if mode == "cls" else -1]
            elif mode == "max":
                self.sums[mode] = states_TD.max(0)
            else:
                self.sums[mode] = (states_TD * places if mode == "weightedmean" else states_TD).sum(0)

    def join(self, later: PooledText) -> None:
        """Add the window that follows."""
        for mode, value in later.sums.items():
            if mode == "last":
                self.sums[mode] = value
            elif mode != "cls":
                self.sums[mode] = (np.maximum if mode == "max" else np.add)(self.sums[mode], value)
        self.count = later.count

    def vector(self) -> Array:
        """All modes side by side."""
        n = self.count
        size = {"mean": n, "mean_sqrt_len_tokens": math.sqrt(n), "weightedmean": n * (n + 1) / 2}
        return np.concatenate([self.sums[mode] / size.get(mode, 1) for mode in self.modes])


def pooling_files(pooling: Pooling, hidden_size: int) -> dict[str, durable.Content]:
    """The files that make `SentenceTransformer(folder)` pool as we do."""
    steps = [("", "Transformer"), (POOLING.partition("/")[0], "Pooling")]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(steps)
    ]
    # older versions take a switch that is missing for false, except that of the mean
    switches = {SWITCHES[way]: way == pooling for way in ("mean", "cls", pooling)}
    settings = {"word_embedding_dimension": hidden_size, **switches}
    return {MODULES: durable.to_json(modules), POOLING: durable.to_json(settings)}


def transformer_folder(folder: Path) -> Path:
    """The folder of the transformer itself: sentence-transformers may keep it in one of its own, 0_BERT/."""
    return folder / _transformer_path(_modules(folder) or ())


def _transformer_path(modules: Iterable[tuple[str, str]]) -> str:
    return next((path for name, path in modules if name in _TRANSFORMERS), "")


def read_text_vector(folder: Path) -> TextVector | None:
    """What a folder says; None where it says nothing. Raises ModelError for a step that is not ours."""
    reader = _Reader(folder)
    modules = _modules(folder)
    if modules is None:
        if not (folder / POOLING).is_file():
            return None
        modules = [("Pooling", POOLING.partition("/")[0])]
    modes: tuple[str, ...] = ()
    steps: list[Callable[[Array], Array]] = []
    for name, path in modules:
        if name in _TRANSFORMERS and not modes:
            continue
        if name == "Pooling" and not modes:
            modes = _modes(reader, path)
        elif name == "Normalize" and modes:
            steps.append(lambda x: x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12))
        elif name == "Dense" and modes:
            steps.append(_dense(reader, path))
        elif name == "LayerNorm" and modes:
            steps.append(_layer_norm(reader, path))
        elif name != "Dropout":
            what = f"the sentence-transformers step {name} is not supported here"
            raise ModelError(
                what, where=folder / MODULES, fix="Use sentence-transformers, or a model without it"
            )
    if not modes:
        what, fix = "it has no pooling", "Add the step that makes a vector of a text's tokens"
        raise ModelError(what, where=folder / MODULES, fix=fix)
    prompts = reader.settings(_PROMPTS)
    if (size := prompts.get("truncate_dim")) is not None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ModelError(f"truncate_dim is {size!r}, not a number", where=folder / _PROMPTS)
        steps.append(lambda x: x[..., :size])
    named, known = prompts.get("default_prompt_name"), prompts.get("prompts") or {}
    if named is not None and (not isinstance(known, dict) or not isinstance(known.get(named, 0), str | None)):
        what = f"default_prompt_name is {named!r}, which is not among its prompts"
        raise ModelError(what, where=folder / _PROMPTS, fix="Name one of its prompts")
    prompt = "" if named is None else known.get(named) or ""
    pooled = reader.settings(f"{dict(modules).get('Pooling', '')}/{CONFIG}")
    if prompt and pooled.get("include_prompt") is False:
        what = "a pooling that leaves the prompt out (include_prompt) is not supported here"
        raise ModelError(what, where=folder / POOLING, fix="Use sentence-transformers")
    place = _transformer_path(modules)
    inside = f"{place}/" if place else ""
    file = next((inside + name for name in _SETTINGS if (folder / inside / name).is_file()), "")
    settings = reader.settings(file) if file else {}
    for option in ("processing_kwargs", "processor_kwargs", "tokenizer_args"):
        if settings.get(option):
            raise ModelError(f"{option} are not supported here", where=folder / file)
    length = settings.get("max_seq_length")
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 3):
        raise ModelError(f"max_seq_length is {length!r}, not a number of tokens", where=folder / file)
    words, shape = (_Reader(folder / place).settings(name) for name in (TOKENIZER_CONFIG, CONFIG))
    if length is None:  # newer versions leave it to the tokenizer and to the positions
        sizes = (words.get("model_max_length"), shape.get("max_position_embeddings"))
        known = [int(n) for n in sizes if isinstance(n, int | float) and 3 <= n < 1e9]
        # folders without such a file, as ours, are read in windows beyond their positions
        if known and (file or known[0] < known[-1]):
            length = min(known)
            reader.files[file or _SETTINGS[0]] = durable.to_json({**settings, "max_seq_length": length})
    lowercase, keep_end = settings.get("do_lower_case") is True, words.get("truncation_side") == "left"
    return TextVector(modes, tuple(steps), length, prompt, lowercase, keep_end, reader.files)


class _Reader:
    """Reads the files of a folder, and keeps what it read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, bytes] = {}
        if (folder / MODULES).is_file():
            self.files[MODULES] = (folder / MODULES).read_bytes()

    def settings(self, name: str) -> dict[str, Any]:
        """The object in a JSON file; {} where there is none."""
        path = self.folder / name
        if not path.is_file():
            return {}
        values = durable.read_json(path, ModelError)
        if not isinstance(values, dict):
            raise ModelError("not a JSON object", where=path)
        self.files[name] = path.read_bytes()
        return values

    def tensors(self, path: str, names: Sequence[str]) -> list[Array]:
        """The weights of a step, by their names in its file."""
        from electra.exchange.weights import (  # torch, which names do without
            read_safetensors,
            refuse_broken,
            refuse_other_types,
        )

        file = self.folder / path / WEIGHTS
        if not file.is_file():
            what = f"no {file.name}, which holds this step's weights"
            raise ModelError(what, where=file.parent, fix="Save it as safetensors with sentence-transformers")
        read = read_safetensors(file)
        refuse_other_types(read, file.parent)
        refuse_broken(read, file.parent)
        if missing := [name for name in names if name not in read]:
            raise ModelError(f"the weights lack the tensor {missing[0]}", where=file)
        self.files[f"{path}/{file.name}"] = file.read_bytes()
        return [read[name].double().numpy() for name in names]


def _modules(folder: Path) -> list[tuple[str, str]] | None:
    """(class, folder) of each step of modules.json; None where there is none."""
    path = folder / MODULES
    if not path.is_file():
        return None
    listed = durable.read_json(path, ModelError)
    try:
        kinds = [str(step["type"]) for step in listed]
        steps = [
            (kind.rpartition(".")[2], str(step["path"])) for kind, step in zip(kinds, listed, strict=True)
        ]
    except (TypeError, KeyError):
        raise ModelError("not a list of steps with a type and a path each", where=path) from None
    if other := [kind for kind in kinds if not kind.startswith("sentence_transformers.")]:
        fix = "Code of a folder is never run. Use sentence-transformers, or a model without it"
        raise ModelError(f"the step {other[0]} is not one of sentence-transformers", where=path, fix=fix)
    if outside := next((place for _, place in steps if durable.points_outside(place or ".")), None):
        raise ModelError(f"the step {outside!r} leads out of the folder", where=path)
    return steps


def _modes(reader: _Reader, path: str) -> tuple[str, ...]:
    name = f"{path}/{CONFIG}"
    given, where = reader.settings(name), reader.folder / name
    mode = given.get("pooling_mode")
    if mode is not None:
        listed = [mode] if isinstance(mode, str) else list(mode) if isinstance(mode, list | tuple) else [mode]
        chosen = [_OTHER_NAMES.get(str(one), str(one)) for one in listed]
    else:
        on = [name for name, value in given.items() if value is True and name.startswith("pooling_mode_")]
        by_switch = {switch: way for way, switch in SWITCHES.items()}
        chosen = sorted((by_switch.get(name, name) for name in on), key=[*SWITCHES, *on].index)
    if unknown := [way for way in chosen if way not in SWITCHES]:
        fix = f"Set some of {', '.join(SWITCHES.values())} to true"
        raise ModelError(f"unknown pooling: {', '.join(unknown)}", where=where, fix=fix)
    return tuple(chosen) or ("mean",)


def _dense(reader: _Reader, path: str) -> Callable[[Array], Array]:
    settings = reader.settings(f"{path}/{CONFIG}")
    where = reader.folder / path / CONFIG
    usual = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
    for key, value in {**usual, "use_residual": False}.items():
        if settings.get(key) not in (None, value):
            raise ModelError(f"{key} {settings[key]!r} is not supported here", where=where)
    name = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if name not in _ACTIVATIONS:
        fix = f"Supported are {', '.join(_ACTIVATIONS)}"
        raise ModelError(f"the activation {name} is not supported here", where=where, fix=fix)
    names = ["linear.weight", *(["linear.bias"] if settings.get("bias", True) else [])]
    weight, *bias = reader.tensors(path, names)
    return lambda x: _ACTIVATIONS[name](x @ weight.T + (bias[0] if bias else 0))


def _layer_norm(reader: _Reader, path: str) -> Callable[[Array], Array]:
    reader.settings(f"{path}/{CONFIG}")
    weight, bias = reader.tensors(path, ["norm.weight", "norm.bias"])
    return lambda x: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias
    )
