"""The steps from a text's token states to its vector, as sentence-transformers stores them in a folder.

`modules.json` lists the steps: the transformer, a pooling, and further steps. Pooling and normalisation are
done here, in double precision and over windows of long texts; dense layers and norms are run by the library.
A step that is not supported raises an error that names it. Whatever is made of a model (a copy, a graph, a
further trained encoder, a student) gets `TextVector.files`, and so keeps them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from electra.artifacts.model_files import CONFIG, MODULES, POOLING, TOKENIZER_CONFIG, WEIGHTS, Pooling
from electra.foundation import durable
from electra.foundation.errors import ModelError, translated
from electra.foundation.machine import library

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.float64]
Step = Callable[["Tensor"], "Tensor"]
SWITCHES: dict[str, Pooling] = {  # in POOLING, which every version of the library reads
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}
LAST = "lasttoken"  # the library's name, in `pooling_mode`, for "last"
PROMPTS = "config_sentence_transformers.json"
SETTINGS = tuple(f"sentence_{kind}_config.json" for kind in ("bert", "roberta", "xlm-roberta", "camembert"))
SENTENCE_FILES = (*SETTINGS, PROMPTS)  # further settings; of the former, the library reads the first
TRANSFORMERS = {"Transformer", "BERT", "RoBERTa", "XLMRoBERTa", "CamemBERT"}
WEIGHTED = {"Dense", "LayerNorm"}  # steps with weights, which fit one width
VECTOR = "sentence_embedding"  # the library's name for the vector that a step gets and gives
WIDTHS = ("embedding_dimension", "word_embedding_dimension")  # in a pooling's settings, of any version
ELSEWHERE = "Use sentence-transformers, or a model without it"


@dataclass(frozen=True)
class TextVector:
    """The steps from token states [T, D] to a text's vector [D'], as a model folder describes them."""

    pooling: Pooling = "mean"
    # after the pooling, by the classes of sentence-transformers, each [N, D] -> [N, D']
    steps: tuple[tuple[str, Step], ...] = ()
    max_length: int | None = None  # maximum tokens, including special ones (None: the model's positions)
    prompt: str = ""  # prefix of every text
    lowercase: bool = False  # lower-case the text before the tokenizer
    keep_end: bool = False  # truncate the start of the text instead of the end
    # the files that say all this, for a folder whose transformer lies at its top ({}: no file says it)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def with_pooling(self, pooling: Pooling) -> "TextVector":
        """Returns a copy with another pooling and no further steps."""
        return replace(self, pooling=pooling, steps=(), files={})

    def fitted(self, width: int, positions: int) -> "TextVector":
        """Returns it for an encoder of another shape: steps whose weights have another width are left out."""
        dropped = set() if self._fits(width) else WEIGHTED
        steps = tuple(step for step in self.steps if step[0] not in dropped)
        files, modules = dict(self.files), list[Any]()
        for module in json.loads(files.get(MODULES, b"[]")):
            kind, file = _class_of(module), f"{module['path']}/{CONFIG}"
            if kind in dropped:
                files = {name: files[name] for name in files if not name.startswith(f"{module['path']}/")}
                continue
            if kind == "Pooling":
                settings = json.loads(files[file])
                files[file] = durable.to_json(settings | {key: width for key in WIDTHS if key in settings})
            modules.append(module)
            files[MODULES] = durable.to_json(modules)
        max_length = self.max_length
        if max_length is not None and max_length > positions:
            max_length, name = positions, next(name for name in SETTINGS if name in files)
            files[name] = durable.to_json(json.loads(files[name]) | {"max_seq_length": positions})
        return replace(self, steps=steps, max_length=max_length, files=files)

    def check(self, hidden_size: int, folder: Path) -> None:
        """Raises ModelError if the sizes of the steps do not match each other or `hidden_size`."""
        if not self._fits(hidden_size):
            problem = f"the steps after the pooling do not fit its output (hidden size {hidden_size})"
            raise ModelError(problem, where=folder / MODULES)

    def _fits(self, width: int) -> bool:
        try:
            self.apply(np.zeros((1, width)))
        except (ValueError, RuntimeError):
            return False
        return True

    def apply(self, pooled: Array) -> Array:
        """As `after_pooling`, for arrays."""
        import torch

        with torch.inference_mode():
            return np.asarray(self.after_pooling(torch.from_numpy(pooled)).double().numpy())

    def after_pooling(self, pooled: "Tensor") -> "Tensor":
        """Applies the steps after the pooling to pooled states [N, D], differentiably. Returns [N, D']."""
        for _, step in self.steps:
            pooled = step(pooled)
        return pooled


MEAN = TextVector()  # of models whose folders do not describe it


def reduced(pooling: Pooling, states_TD: Array) -> tuple[Array, int]:
    """Returns what the states [T, D] of one window of a text give to `pooled`, and their number T."""
    if pooling in ("cls", "last"):
        return states_TD[0 if pooling == "cls" else -1], len(states_TD)
    return states_TD.max(0) if pooling == "max" else states_TD.sum(0), len(states_TD)


def pooled(pooling: Pooling, windows: Sequence[tuple[Array, int]]) -> Array:
    """Returns the pooled states [D] of a text, from its windows in order, each `reduced`."""
    if pooling in ("cls", "last"):
        return windows[0 if pooling == "cls" else -1][0]
    values, counts = zip(*windows, strict=True)
    return np.asarray(np.max(values, 0) if pooling == "max" else np.sum(values, 0) / sum(counts))


def vector_files(vector: TextVector, hidden_size: int) -> dict[str, durable.Content]:
    """Returns the files that make `SentenceTransformer(folder)` return the same vectors as we do."""
    if MODULES in vector.files:
        return dict(vector.files)
    kinds = {"Transformer": "", "Pooling": POOLING.partition("/")[0]}
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(kinds.items())
    ]
    # In older versions of the library, a missing switch is false, except that of the mean.
    shown = {"mean", "cls", vector.pooling}
    switches = {name: mode == vector.pooling for name, mode in SWITCHES.items() if mode in shown}
    settings = {"word_embedding_dimension": hidden_size, **switches}
    return {MODULES: durable.to_json(modules), POOLING: durable.to_json(settings), **vector.files}


def transformer_folder(folder: Path) -> Path:
    """Returns the folder of the transformer, which sentence-transformers may put in a subfolder, 0_BERT/.

    Raises ModelError if modules.json is damaged, or names a step of another library or a path outside.
    """
    return folder / next((path for name, path in _modules(folder) or () if name in TRANSFORMERS), "")


def read_text_vector(folder: Path) -> TextVector | None:
    """Reads a folder's pooling and further steps; returns None if the folder does not describe them.

    Raises ModelError if a file is damaged, or a step or setting is not supported; and ConfigError if a step
    needs sentence-transformers, which is not installed.
    """
    modules = _modules(folder)
    if modules is None and (folder / POOLING).is_file():
        modules = [("Pooling", POOLING.partition("/")[0])]
    if modules is None or {name for name, _ in modules} <= TRANSFORMERS:  # as a cross-encoder's
        return None
    model, pooling, steps = transformer_folder(folder), None, list[tuple[str, Step]]()
    names = [PROMPTS]
    for name, path in modules:
        if name in TRANSFORMERS and pooling is None:
            continue
        names += [f"{path}/{CONFIG}", f"{path}/{WEIGHTS}"]
        if name == "Pooling" and pooling is None:
            pooling = _pooling(folder / path / CONFIG)
        elif name == "Normalize" and pooling is not None:
            steps.append((name, lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)))
        elif name in WEIGHTED and pooling is not None:
            steps.append((name, _library_step(folder, name, path)))
        elif name != "Dropout":
            problem = f"the sentence-transformers step {name} is not supported"
            raise ModelError(problem, where=folder / MODULES, fix=ELSEWHERE)
    if pooling is None and json_settings(folder / PROMPTS).get("model_type") == "CrossEncoder":
        return None
    if pooling is None:
        raise ModelError("no pooling step", where=folder / MODULES, fix="Add a step of type Pooling")
    prompt, dimensions = _prompt(folder / PROMPTS)
    if prompt and json_settings(folder / dict(modules)["Pooling"] / CONFIG).get("include_prompt") is False:
        problem = "a pooling without the prompt (include_prompt: false) is not supported"
        raise ModelError(problem, where=folder / POOLING, fix=ELSEWHERE)
    if dimensions is not None:
        steps.append(("truncate_dim", lambda x: x[..., :dimensions]))
    settings_file = next((model / name for name in SETTINGS if (model / name).is_file()), model / SETTINGS[0])
    settings = json_settings(settings_file)
    for option in ("processing_kwargs", "processor_kwargs", "tokenizer_args"):
        if settings.get(option):
            raise ModelError(f"{option} is not supported", where=settings_file)
    max_length = _positive(settings, "max_seq_length", settings_file, least=3)
    if max_length is None:
        max_length = _usual_length(model, bool(settings))
    listed = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
    if settings or max_length is not None:
        length = {} if max_length is None else {"max_seq_length": max_length}
        listed[settings_file.name] = durable.to_json(settings | length)
    if keep_end := json_settings(model / TOKENIZER_CONFIG).get("truncation_side") == "left":
        listed[TOKENIZER_CONFIG] = durable.to_json({"truncation_side": "left"})
    if (folder / MODULES).is_file():
        top = {"path": "", "type": "sentence_transformers.models.Transformer"}
        content = durable.read_json(folder / MODULES, ModelError)
        at_top = [step | top if _class_of(step) in TRANSFORMERS else step for step in content]
        listed[MODULES] = durable.to_json(at_top)
    lowercase = settings.get("do_lower_case") is True
    return TextVector(pooling, tuple(steps), max_length, prompt, lowercase, keep_end, listed)


def _usual_length(model: Path, has_settings: bool) -> int | None:
    """Returns the limit that newer versions of the library read from the tokenizer and the model."""
    limits = [json_settings(model / TOKENIZER_CONFIG).get("model_max_length")]
    limits.append(json_settings(model / CONFIG).get("max_position_embeddings"))
    known = [int(n) for n in limits if isinstance(n, int | float) and 3 <= n < 1e9]
    # In folders without a settings file, such as ours, texts beyond the positions are read in windows.
    return min(known) if known and (has_settings or known[0] < known[-1]) else None


def json_settings(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; {} if there is no such file. Raises ModelError if damaged."""
    return durable.read_object(path, ModelError) if path.is_file() else {}


def _positive(values: Mapping[str, Any], key: str, where: Path, least: int = 1) -> int | None:
    value = values.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        problem = f"{key} must be a whole number of at least {least}, not {value!r}"
        raise ModelError(problem, where=where)
    return value


def _modules(folder: Path) -> list[tuple[str, str]] | None:
    """Returns (class, folder) of each step of modules.json; None if there is no such file."""
    path = folder / MODULES
    if not path.is_file():
        return None
    try:
        steps = [(str(step["type"]), str(step["path"])) for step in durable.read_json(path, ModelError)]
    except (TypeError, KeyError):
        raise ModelError("not a list of steps with type and path", where=path) from None
    for kind, step in steps:
        if not kind.startswith("sentence_transformers."):
            fix = f"Code in model folders is never run. {ELSEWHERE}"
            raise ModelError(f"the step {kind} is not part of sentence-transformers", where=path, fix=fix)
        if durable.points_outside(step or "."):
            raise ModelError(f"the path {step!r} leads out of the folder", where=path)
    return [(kind.rpartition(".")[2], step) for kind, step in steps]


def _class_of(step: Mapping[str, Any]) -> str:
    return str(step["type"]).rpartition(".")[2]


def _pooling(path: Path) -> Pooling:
    settings = json_settings(path)
    enabled = [name for name, on in settings.items() if on is True and name.startswith("pooling_mode_")]
    modes = settings.get("pooling_mode") or [SWITCHES.get(name, name) for name in enabled] or ["mean"]
    modes = ["last" if each == LAST else each for each in ([modes] if isinstance(modes, str) else modes)]
    if len(modes) != 1 or modes[0] not in get_args(Pooling):
        problem = f"pooling by {' and '.join(map(str, modes))} is not supported"
        fix = f"Supported: one of {', '.join(get_args(Pooling))}. {ELSEWHERE}"
        raise ModelError(problem, where=path, fix=fix)
    found: Pooling = modes[0]
    return found


def _prompt(path: Path) -> tuple[str, int | None]:
    settings = json_settings(path)
    name, prompts = settings.get("default_prompt_name"), settings.get("prompts") or {}
    prompt = "" if name is None else prompts.get(str(name)) if isinstance(prompts, dict) else None
    if not isinstance(prompt, str):
        problem = f"default_prompt_name is {name!r}, which is not among the prompts"
        raise ModelError(problem, where=path, fix="Use the name of a prompt")
    return prompt, _positive(settings, "truncate_dim", path)


def _library_step(folder: Path, name: str, path: str) -> Step:
    """Returns a step that sentence-transformers computes, from safetensors and without code of the folder."""
    from electra.exchange.weights import read_safetensors, require_numbers

    where, settings = folder / path / CONFIG, json_settings(folder / path / CONFIG)
    for key in ("module_input_name", "module_output_name"):
        if settings.get(key) not in (None, VECTOR):
            raise ModelError(f"{key} {settings[key]!r} is not supported", where=where, fix=ELSEWHERE)
    if not str(settings.get("activation_function", "torch.")).startswith("torch."):
        problem = f"the activation {settings['activation_function']} is not supported"
        raise ModelError(problem, where=where, fix=ELSEWHERE)
    if not (weights := folder / path / WEIGHTS).is_file():
        fix = "Save it as safetensors with sentence-transformers"
        raise ModelError(f"no {WEIGHTS} with this step's weights", where=weights.parent, fix=fix)
    require_numbers(read_safetensors(weights), weights.parent)
    library("sentence_transformers", "sentences")
    import torch
    from sentence_transformers.sentence_transformer import modules

    with translated(ModelError, "sentence-transformers cannot load this step", where=where):
        module = getattr(modules, name).load(str(folder / path), local_files_only=True)
    module.eval().requires_grad_(False)

    def apply(x: "Tensor") -> "Tensor":
        with torch.autocast(x.device.type, enabled=False):
            return torch.as_tensor(module.to(x.device)({VECTOR: x.float()})[VECTOR])

    return apply
