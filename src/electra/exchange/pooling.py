"""Pooling of a text's token states into one vector, as sentence-transformers stores it in a folder.

`modules.json` lists the steps: the transformer, a pooling, and further steps (dense layers, normalisation).
A step that is not supported raises an error that names it. The pooling file that we write sets the modes by
switches, which every version of that library can read.
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
SWITCHES = {  # mode (our name, or the library's) -> switch in POOLING
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "last": "pooling_mode_lasttoken",
}  # in the order in which sentence-transformers concatenates several modes
_OTHER_NAMES = {"lasttoken": "last"}  # names in `pooling_mode`, which version 5.2 and later write
_PROMPTS = "config_sentence_transformers.json"
_SETTINGS = tuple(
    f"sentence_{kind}_config.json" for kind in ("bert", "roberta", "xlm-roberta", "camembert")
)  # the library reads the first one that exists
SENTENCE_FILES = (*_SETTINGS, _PROMPTS)  # further settings of sentence-transformers
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
    """The steps from token states [T, D] to a text's vector [D'], as a model folder describes them."""

    modes: tuple[str, ...] = ("mean",)  # pooling modes, whose results are concatenated
    steps: tuple[Callable[[Array], Array], ...] = ()  # steps after the pooling, each [N, D] -> [N, D']
    max_length: int | None = None  # maximum tokens, including special ones (None: the model's positions)
    prompt: str = ""  # prefix of every text
    lowercase: bool = False  # lower-case the text before the tokenizer
    keep_end: bool = False  # truncate the start of the text instead of the end
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # the files that were read

    @property
    def pooling(self) -> Pooling | None:
        """The pooling mode; None if there are several or fine-tuning does not support it."""
        [mode, *others] = self.modes
        return None if others or mode not in ("cls", "mean", "max", "last") else mode  # type: ignore[return-value]

    def with_pooling(self, pooling: Pooling) -> TextVector:
        """Returns a copy with another pooling and no further steps."""
        return replace(self, modes=(pooling,), steps=(), files={})

    def check(self, hidden_size: int, folder: Path) -> None:
        """Raises ModelError if the sizes of the steps do not match each other or `hidden_size`."""
        try:
            self.apply(np.zeros((1, hidden_size * len(self.modes))))
        except ValueError:
            problem = (
                f"the steps after the pooling do not fit its output (hidden size {hidden_size}, number of"
                f" pooling modes {len(self.modes)})"
            )
            raise ModelError(problem, where=folder / MODULES) from None

    def apply(self, pooled: Array) -> Array:
        """Applies the steps after the pooling to pooled states [N, D]. Returns [N, D']."""
        for step in self.steps:
            pooled = step(pooled)
        return pooled


class PooledText:
    """The pooled states of one window of a text; `add_window` adds those of the next.

    Args:
        modes: the pooling modes.
        states_TD: the token states of the window, at least one.
        tokens_before: the number of the text's tokens before the window.
    """

    def __init__(self, modes: Sequence[str], states_TD: Array, tokens_before: int = 0) -> None:
        self.modes, self.count = modes, tokens_before + len(states_TD)
        weights = np.arange(tokens_before + 1, self.count + 1)[:, None]
        self.sums: dict[str, Array] = {}
        for mode in modes:
            if mode in ("cls", "last"):
                self.sums[mode] = states_TD[0 if mode == "cls" else -1]
            elif mode == "max":
                self.sums[mode] = states_TD.max(0)
            else:
                self.sums[mode] = (states_TD * weights if mode == "weightedmean" else states_TD).sum(0)

    def add_window(self, later: PooledText) -> None:
        """Adds the next window of the text, made with the number of tokens before it."""
        for mode, value in later.sums.items():
            if mode == "last":
                self.sums[mode] = value
            elif mode != "cls":
                self.sums[mode] = (np.maximum if mode == "max" else np.add)(self.sums[mode], value)
        self.count = later.count

    def vector(self) -> Array:
        """Returns the concatenated results of all modes [D * modes]."""
        num_tokens = self.count
        divisors = {
            "mean": num_tokens,
            "mean_sqrt_len_tokens": math.sqrt(num_tokens),
            "weightedmean": num_tokens * (num_tokens + 1) / 2,
        }
        return np.concatenate([self.sums[mode] / divisors.get(mode, 1) for mode in self.modes])


def pooling_files(pooling: Pooling, hidden_size: int) -> dict[str, durable.Content]:
    """Returns the files that make `SentenceTransformer(folder)` return the same vectors as we do."""
    steps = [("", "Transformer"), (POOLING.partition("/")[0], "Pooling")]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(steps)
    ]
    # In older versions of the library, a missing switch is false, except that of the mean.
    switches = {SWITCHES[mode]: mode == pooling for mode in ("mean", "cls", pooling)}
    settings = {"word_embedding_dimension": hidden_size, **switches}
    return {MODULES: durable.to_json(modules), POOLING: durable.to_json(settings)}


def transformer_folder(folder: Path) -> Path:
    """Returns the folder of the transformer, which sentence-transformers may put in a subfolder, 0_BERT/.

    Raises ModelError if modules.json is damaged, or names a step of another library or a path outside.
    """
    return folder / _transformer_path(_modules(folder) or ())


def _transformer_path(modules: Iterable[tuple[str, str]]) -> str:
    return next((path for name, path in modules if name in _TRANSFORMERS), "")


def read_text_vector(folder: Path) -> TextVector | None:
    """Reads a folder's pooling and further steps; returns None if the folder does not describe them.

    Raises:
        ModelError: a file is damaged, or a step or setting is not supported.
    """
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
            problem = f"the sentence-transformers step {name} is not supported"
            fix = "Use sentence-transformers, or a model without this step"
            raise ModelError(problem, where=folder / MODULES, fix=fix)
    if not modes:
        raise ModelError("no pooling step", where=folder / MODULES, fix="Add a step of type Pooling")
    prompt_settings = reader.settings(_PROMPTS)
    if (dimensions := prompt_settings.get("truncate_dim")) is not None:
        if isinstance(dimensions, bool) or not isinstance(dimensions, int) or dimensions < 1:
            raise ModelError(
                f"truncate_dim is {dimensions!r}, not a positive integer", where=folder / _PROMPTS
            )
        steps.append(lambda x: x[..., :dimensions])
    default_name, prompts = prompt_settings.get("default_prompt_name"), prompt_settings.get("prompts") or {}
    if default_name is not None and (
        not isinstance(prompts, dict) or not isinstance(prompts.get(default_name, 0), str | None)
    ):
        problem = f"default_prompt_name is {default_name!r}, which is not among the prompts"
        raise ModelError(problem, where=folder / _PROMPTS, fix="Use the name of a prompt")
    prompt = "" if default_name is None else prompts.get(default_name) or ""
    pooling_settings = reader.settings(f"{dict(modules).get('Pooling', '')}/{CONFIG}")
    if prompt and pooling_settings.get("include_prompt") is False:
        problem = "a pooling without the prompt (include_prompt: false) is not supported"
        raise ModelError(problem, where=folder / POOLING, fix="Use sentence-transformers")
    transformer = _transformer_path(modules)
    prefix = f"{transformer}/" if transformer else ""
    settings_file = next((prefix + name for name in _SETTINGS if (folder / prefix / name).is_file()), "")
    settings = reader.settings(settings_file) if settings_file else {}
    for option in ("processing_kwargs", "processor_kwargs", "tokenizer_args"):
        if settings.get(option):
            raise ModelError(f"{option} is not supported", where=folder / settings_file)
    max_length = settings.get("max_seq_length")
    if max_length is not None and (
        isinstance(max_length, bool) or not isinstance(max_length, int) or max_length < 3
    ):
        raise ModelError(
            f"max_seq_length must be a whole number of at least 3, not {max_length!r}",
            where=folder / settings_file,
        )
    tokenizer_settings, model_config = (
        _Reader(folder / transformer).settings(name) for name in (TOKENIZER_CONFIG, CONFIG)
    )
    if max_length is None:  # newer versions of the library use the limits of the tokenizer and the model
        sizes = (tokenizer_settings.get("model_max_length"), model_config.get("max_position_embeddings"))
        limits = [int(n) for n in sizes if isinstance(n, int | float) and 3 <= n < 1e9]
        # In folders without a settings file, such as ours, texts beyond the positions are read in windows.
        if limits and (settings_file or limits[0] < limits[-1]):
            max_length = min(limits)
            reader.files[settings_file or _SETTINGS[0]] = durable.to_json(
                {**settings, "max_seq_length": max_length}
            )
    lowercase, keep_end = (
        settings.get("do_lower_case") is True,
        tokenizer_settings.get("truncation_side") == "left",
    )
    return TextVector(modes, tuple(steps), max_length, prompt, lowercase, keep_end, reader.files)


class _Reader:
    """Reads the files of a folder and remembers their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, bytes] = {}
        if (folder / MODULES).is_file():
            self.files[MODULES] = (folder / MODULES).read_bytes()

    def settings(self, name: str) -> dict[str, Any]:
        """Returns the object in a JSON file; {} if there is no such file. Raises ModelError if damaged."""
        path = self.folder / name
        if not path.is_file():
            return {}
        values = durable.read_json(path, ModelError)
        if not isinstance(values, dict):
            raise ModelError("not a JSON object", where=path)
        self.files[name] = path.read_bytes()
        return values

    def tensors(self, path: str, names: Sequence[str]) -> list[Array]:
        """Returns the tensors called `names` in a step's weights file, in that order. Raises ModelError."""
        from electra.exchange.weights import (  # imports torch, which most callers do not need
            read_safetensors,
            require_numbers,
        )

        file = self.folder / path / WEIGHTS
        if not file.is_file():
            problem = f"no {file.name} with this step's weights"
            raise ModelError(
                problem, where=file.parent, fix="Save it as safetensors with sentence-transformers"
            )
        tensors = read_safetensors(file)
        require_numbers(tensors, file.parent)
        if missing := [name for name in names if name not in tensors]:
            raise ModelError(f"the weights have no tensor {missing[0]}", where=file)
        self.files[f"{path}/{file.name}"] = file.read_bytes()
        return [tensors[name].double().numpy() for name in names]


def _modules(folder: Path) -> list[tuple[str, str]] | None:
    """Returns (class, folder) of each step of modules.json; None if there is no such file."""
    path = folder / MODULES
    if not path.is_file():
        return None
    content = durable.read_json(path, ModelError)
    try:
        kinds = [str(step["type"]) for step in content]
        steps = [
            (kind.rpartition(".")[2], str(step["path"])) for kind, step in zip(kinds, content, strict=True)
        ]
    except (TypeError, KeyError):
        raise ModelError("not a list of steps with type and path", where=path) from None
    if other := [kind for kind in kinds if not kind.startswith("sentence_transformers.")]:
        fix = "Code in model folders is never run. Use sentence-transformers, or a model without this step"
        raise ModelError(f"the step {other[0]} is not part of sentence-transformers", where=path, fix=fix)
    if outside := next((step for _, step in steps if durable.points_outside(step or ".")), None):
        raise ModelError(f"the path {outside!r} leads out of the folder", where=path)
    return steps


def _modes(reader: _Reader, path: str) -> tuple[str, ...]:
    """Returns the modes of the pooling in the subfolder `path`; the mean if its settings name none."""
    name = f"{path}/{CONFIG}"
    settings, where = reader.settings(name), reader.folder / name
    mode = settings.get("pooling_mode")
    if mode is not None:
        listed = list(mode) if isinstance(mode, list | tuple) else [mode]
        modes = [_OTHER_NAMES.get(str(each), str(each)) for each in listed]
    else:
        mode_of = {switch: mode for mode, switch in SWITCHES.items()}
        enabled = [
            key for key, value in settings.items() if value is True and key.startswith("pooling_mode_")
        ]
        modes = sorted((mode_of.get(key, key) for key in enabled), key=[*SWITCHES, *enabled].index)
    if unknown := [mode for mode in modes if mode not in SWITCHES]:
        fix = f"Set some of {', '.join(SWITCHES.values())} to true"
        raise ModelError(f"unknown pooling: {', '.join(unknown)}", where=where, fix=fix)
    return tuple(modes) or ("mean",)


def _dense(reader: _Reader, path: str) -> Callable[[Array], Array]:
    settings = reader.settings(f"{path}/{CONFIG}")
    where = reader.folder / path / CONFIG
    defaults = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
    for key, value in {**defaults, "use_residual": False}.items():
        if settings.get(key) not in (None, value):
            raise ModelError(f"{key} {settings[key]!r} is not supported", where=where)
    name = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if name not in _ACTIVATIONS:
        fix = f"Supported activations: {', '.join(_ACTIVATIONS)}"
        raise ModelError(f"the activation {name} is not supported", where=where, fix=fix)
    names = ["linear.weight", *(["linear.bias"] if settings.get("bias", True) else [])]
    weight, *bias = reader.tensors(path, names)
    return lambda x: _ACTIVATIONS[name](x @ weight.T + (bias[0] if bias else 0))


def _layer_norm(reader: _Reader, path: str) -> Callable[[Array], Array]:
    reader.settings(f"{path}/{CONFIG}")
    weight, bias = reader.tensors(path, ["norm.weight", "norm.bias"])
    return lambda x: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias
    )
