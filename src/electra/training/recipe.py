"""Recipes: all settings of a run. Does not import torch, so that `--help` is fast.

A recipe consists of defaults, overridden by a TOML file, overridden in turn by command-line flags, which have
the settings' dotted names.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from electra.data.text_settings import CorpusConfig, TokenizerConfig
from electra.foundation.config import (
    build,
    check_at_least,
    check_at_most,
    check_below_one,
    check_not_negative,
    check_positive,
    is_gone,
    read_toml,
)
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import resolve_beside
from electra.foundation.machine import MAX_THREADS, OnDevice
from electra.training.budget import parse as parse_budget

DEFAULT_OBJECTIVE = "rtd"


@dataclass(frozen=True)
class ModelSection:
    """The recipe's [model]."""

    size: str = "tiny"
    """Model size: tiny, mini (for CPUs), small, small++, base or large (the paper's)."""
    layers: int | None = None
    """Layers of the discriminator (default: from `size`)."""
    hidden_size: int | None = None
    """Width of the discriminator (default: from `size`). It has one attention head per 64 of the width, at
    least one.
    """
    encoder: Literal["electra", "modern"] = "electra"
    """Architecture of the encoder. electra: the paper's (post-norm, learned positions); modern: pre-norm,
    rotary, gated, exported as ModernBERT.
    """
    generator_width: float | None = None
    """Generator's hidden size as a fraction of the discriminator's (default: from `size`)."""
    generator_depth: float = 1.0
    """Generator's number of layers as a fraction of the discriminator's."""
    sharing: Literal["none", "token", "embeddings", "all", "disentangled"] = "embeddings"
    """Weights shared by generator and discriminator. disentangled: the token embeddings, trained by the
    generator alone (GDES).
    """
    dropout: float = 0.1
    """Dropout of embeddings and layers."""
    attention_dropout: float = 0.1
    """Dropout of attention weights."""
    initialisation: Literal["paper", "reference", "fan_in"] = "paper"
    """Random initialization. paper: as in the paper; reference: as in the published code; fan_in:
    scaled by fan-in.
    """
    start: Literal["auto", "fresh"] = "fresh"
    """Initialisation of token embeddings and output bias. fresh: random; auto: from co-occurrence counts
    of the training text, if it has at least 50 tokens per vocabulary entry.
    """


@dataclass(frozen=True)
class RowsSection:
    """Batch settings of the recipe's [training]."""

    HEADING: ClassVar[str] = "Batches"

    seed: int = 1
    """Random seed."""
    length: int = 128
    """Tokens per row, including [CLS] and [SEP]."""
    batch_size: int = 32
    """Rows per update, over all processes and accumulated micro-batches."""
    micro_batch: int | None = None
    """Rows per forward pass (default: the batch, divided by the number of processes)."""


@dataclass(frozen=True)
class ScheduleSection:
    """Length and learning rate schedule of the recipe's [training]."""

    HEADING: ClassVar[str] = "Length and learning rate schedule"

    steps: int | None = None
    """Number of updates, instead of a budget."""
    budget: str | None = None
    """How much to spend: 30m, 2h, 2e16flops, 50Mtokens or 5000steps. Sets `steps` when the run starts."""
    warmup: float = 0.01
    """Warm-up: fraction of the steps in which the learning rate rises."""
    warmup_steps: int | None = None
    """Warm-up in updates (default: from `warmup`)."""
    schedule: Literal["auto", "linear", "reference", "wsd"] = "linear"
    """Learning rate schedule. linear: warm-up, then linear decay to 0. reference: as in the published code,
    warm-up times a decay that starts at step 0. wsd: warm-up, plateau, cooldown; electra extend can make such
    a run longer. auto: wsd, or linear for an objective that trains in phases.
    """
    decay: float = 0.2
    """Cooldown: fraction of the steps in which the learning rate falls (schedule wsd)."""


@dataclass(frozen=True)
class OptimizerSection:
    """Optimizer settings of the recipe's [training]."""

    HEADING: ClassVar[str] = "Optimizer"

    learning_rate: float = 5e-4
    """Peak learning rate."""
    generator_learning_rate: float | None = None
    """Peak learning rate of weights that only the generator has (default: `learning_rate`)."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates of the two moments."""
    epsilon: float = 1e-6
    """Adam's epsilon."""
    weight_decay: float = 0.01
    """Decoupled weight decay, except on biases and norms, as in the published code."""
    bias_correction: bool = True
    """Adam's bias correction; the published code has none."""
    clip: float = 1.0
    """Maximum global gradient norm, over both networks together."""


@dataclass(frozen=True)
class MachineSection(OnDevice):
    """Device settings of the recipe's [training]."""

    HEADING: ClassVar[str] = "Device"

    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Number format of matrix products. auto: bf16 if the hardware supports it, else fp32. Losses, softmax
    and sampling are always fp32.
    """
    summation: Literal["fast", "fixed"] = "fast"
    """The order in which an update's gradients are summed. fixed: an order that depends only on the rows, so
    that 1, 2, 4, ... processes with the same micro-batch and threads per process train bit-identical weights.
    """
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the encoders' layers with torch.compile. auto: in runs of ten minutes or more, if a compiler is
    installed (on a CPU, only without dropout).
    """
    graph: Literal["auto", "on", "off"] = "off"
    """Replay the whole update as one CUDA graph. auto: on a CUDA GPU, with one process, no micro-batches, and
    the objectives mlm, rtd, electra_15 and replace_mlm. Not tried on a card yet.
    """
    threads: int | None = None
    """CPU threads per process (default: OMP_NUM_THREADS, else the cores that no other program uses)."""


@dataclass(frozen=True)
class UpkeepSection:
    """Checkpoints and evaluation of the recipe's [training]."""

    HEADING: ClassVar[str] = "Checkpoints and evaluation"

    checkpoint_every: int | None = None
    """Steps between checkpoints (default: a twentieth of the run)."""
    keep: int = 2
    """Number of newest checkpoints to keep; at least 1."""
    evaluate_every: int | None = None
    """Steps between held-out evaluations (default: a tenth of the run, or more in a short time budget)."""
    log_every: int = 10
    """Steps between rows of metrics.jsonl."""


@dataclass(frozen=True)
class TrainingSection(UpkeepSection, MachineSection, OptimizerSection, ScheduleSection, RowsSection):
    """The recipe's [training]: one section for the user, in parts for the functions that read them."""


@dataclass(frozen=True)
class EvaluationSection:
    """The recipe's [evaluation]."""

    rows: int = 256
    """Held-out rows to score."""
    mask_fraction: float = 0.15
    """Mask fraction of held-out evaluation, independent of training, so that runs can be compared."""


@dataclass(frozen=True, kw_only=True)
class TokenizerSection(TokenizerConfig):
    """The recipe's [tokenizer]."""

    source: str | None = None
    """Existing tokenizer: a folder, vocab.txt, tokenizer.json or hub name (default: train one on the corpus).
    """


@dataclass(frozen=True)
class Recipe:
    """All settings of a run."""

    model: ModelSection = field(default_factory=ModelSection)
    objective: dict[str, Any] = field(default_factory=lambda: {"name": DEFAULT_OBJECTIVE})
    training: TrainingSection = field(default_factory=TrainingSection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    data: CorpusConfig = field(default_factory=CorpusConfig)

    def to_sections(self) -> dict[str, dict[str, Any]]:
        """Returns the recipe as nested dicts."""
        return {key: dict(value) if isinstance(value, dict) else value for key, value in asdict(self).items()}


def read_recipe(path: Path, objective: str | None = None) -> dict[str, Any]:
    """Reads a recipe file's sections, without the options of another objective than `objective`."""
    sections = read_toml(path)
    paths_from(sections, path)
    if objective is not None and objective != sections.get("objective", {}).get("name", DEFAULT_OBJECTIVE):
        sections["objective"] = {"name": objective}
    return sections


def paths_from(sections: Any, file: Path) -> None:
    """Resolves the path of an objective's file, in place, against the folder of the recipe that names it."""
    objective = sections.get("objective") if isinstance(sections, dict) else None
    if isinstance(objective, dict) and isinstance(objective.get("name"), str):
        objective["name"] = resolve_beside(objective["name"], file)


def make_recipe(sections: Mapping[str, Any], where: str = "") -> Recipe:
    """Builds a recipe from its sections; settings that are missing get their defaults.

    Raises ConfigError for an unknown setting or an invalid value; `where` precedes its name.
    """
    recipe = build(Recipe, sections, where)
    recipe = replace(recipe, objective={"name": DEFAULT_OBJECTIVE, **recipe.objective})
    model, training = recipe.model, recipe.training
    counts = ("batch_size", "micro_batch", "steps", "keep", "threads")
    intervals = ("log_every", "checkpoint_every", "evaluate_every")
    minima = {"length": 4, "warmup_steps": 0}  # [CLS], two tokens, [SEP]
    check_at_least(training, dict.fromkeys((*counts, *intervals), 1) | minima, "training.")
    check_at_least(recipe.evaluation, {"rows": 1}, "evaluation.")
    check_at_most(training, {"threads": MAX_THREADS}, "training.")
    check_positive(model, ("generator_width", "generator_depth"), "model.")
    check_at_most(model, dict.fromkeys(("generator_width", "generator_depth"), 64), "model.")
    check_below_one(model, ("dropout", "attention_dropout"), "model.")
    check_positive(training, ("epsilon", "clip", "decay"), "training.")
    rates = ("learning_rate", "generator_learning_rate", "weight_decay")
    check_not_negative(training, rates, "training.")
    if not all(0 <= beta < 1 for beta in training.betas):
        problem = f"must be at least 0 and below 1, not {' '.join(map(str, training.betas))}"
        raise ConfigError(problem, key="training.betas")
    if training.budget is not None:
        parse_budget(training.budget)
    check_below_one(training, ("warmup", "decay"), "training.")
    check_positive(recipe.evaluation, ("mask_fraction",), "evaluation.")
    check_below_one(recipe.evaluation, ("mask_fraction",), "evaluation.")
    return recipe


def recorded_sections(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record's sections of the recipe, without settings that are gone and changed nothing.

    Of the settings that made the store, those that today's version does not have are left out. The start
    "counts" of earlier versions is what "auto" chooses.
    """
    made_store = {"tokenizer": TokenizerSection(), "data": CorpusConfig()}
    sections = {
        section: {
            key: value
            for key, value in record[section].items()
            if not is_gone(key, value) and (section not in made_store or hasattr(made_store[section], key))
        }
        for section in Recipe.__dataclass_fields__
        if section in record
    }
    if sections.get("model", {}).get("start") == "counts":
        sections["model"]["start"] = "auto"
    return sections


def recorded_recipe(record: Mapping[str, Any]) -> Recipe:
    """Returns the recipe in a run's record. Raises ConfigError if a setting is unknown or invalid."""
    return make_recipe(recorded_sections(record))
