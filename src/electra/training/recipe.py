"""What a run is made of: the sections of a recipe. Torch-free, so that `--help` is quick.

A recipe is defaults, overridden by a TOML file, overridden by command-line flags of the same dotted names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from electra.data.settings import CorpusConfig, TokenizerConfig
from electra.foundation.config import (
    build,
    check_at_least,
    check_at_most,
    check_not_negative,
    check_positive,
    check_shares,
    merge,
    read_toml,
)
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import resolve_beside
from electra.foundation.machine import MOST_THREADS, OnDevice
from electra.training.algorithms import OptimizerSection
from electra.training.budget import parse as parse_budget

DEFAULT_OBJECTIVE = "rtd"


@dataclass(frozen=True)
class ModelSection:
    size: str = "tiny"
    """tiny, mini (CPUs), small, small++, base, large (the paper's)."""
    layers: int | None = None
    """Layers of the discriminator (default: the size's)."""
    hidden_size: int | None = None
    """Width of the discriminator (default: the size's). A head is 64 wide; other widths get as many heads as
    fit, at least one.
    """
    encoder: Literal["electra", "modern", "deberta"] = "electra"
    """electra: the paper's (post-norm, learned positions); modern: pre-norm, rotary, gated, exported as
    ModernBERT; deberta: attention that scores distances between tokens, exported as DeBERTa-v2.
    """
    mask_decoder: bool = False
    """The generator runs its last layer twice, with absolute positions (DeBERTa's enhanced mask decoder;
    encoder deberta only).
    """
    generator_width: float | None = None
    """Generator's hidden size as a fraction of the discriminator's (default: the size's own)."""
    generator_depth: float = 1.0
    """Generator's number of layers as a fraction of the discriminator's."""
    sharing: Literal["none", "token", "embeddings", "all", "disentangled"] = "embeddings"
    """Weights that generator and discriminator share. disentangled: the token table, which the generator
    alone trains (GDES).
    """
    dropout: float = 0.1
    """Dropout of embeddings and layers."""
    attention_dropout: float = 0.1
    """Dropout of attention weights."""
    initialisation: Literal["paper", "reference", "fan_in"] = "paper"
    """How fresh weights are drawn: as in the paper, as in the published code, or scaled by fan-in."""
    start: Literal["auto", "fresh", "counts"] = "fresh"
    """counts: token table and output bias start from counts in the training text instead of random values.
    auto: where there is enough text to count, 50 tokens for each entry of the vocabulary.
    """


@dataclass(frozen=True)
class RowsSection:
    """What an update reads."""

    HEADING: ClassVar[str] = "What an update reads"

    seed: int = 1
    """Seed of every random draw."""
    length: int = 128
    """Tokens in a row, [CLS] and [SEP] included."""
    batch_size: int = 32
    """Rows in one update, over all processes and accumulated micro-batches."""
    micro_batch: int | None = None
    """Rows in one forward pass (default: the batch, divided over the processes)."""


@dataclass(frozen=True)
class ScheduleSection:
    """How long the training is, and how its learning rate moves."""

    HEADING: ClassVar[str] = "How long the training is, and how its learning rate moves"

    steps: int | None = None
    """Number of updates, instead of a budget."""
    budget: str | None = None
    """30m, 2h, 2e16flops, 50Mtokens or 5000steps; sets `steps` when the run starts."""
    warmup: float = 0.01
    """Warm-up: fraction of the steps in which the learning rate rises."""
    warmup_steps: int | None = None
    """Updates over which the learning rate rises (default: the share `warmup`)."""
    schedule: Literal["linear", "reference", "wsd"] = "linear"
    """linear: up, then down to zero. reference: as in the published code, warm-up times a decay that starts
    at step 0. wsd: up, level, and down at the end; electra extend can make such a run longer.
    """
    decay: float = 0.2
    """Share of the steps over which the learning rate falls (schedule wsd)."""


@dataclass(frozen=True)
class MachineSection(OnDevice):
    """Where it runs."""

    HEADING: ClassVar[str] = "Where it runs"

    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """auto: bf16 matrix products where the hardware has them, fp32 elsewhere. Losses, softmax and sampling
    are always fp32.
    """
    summation: Literal["fast", "fixed"] = "fast"
    """The order in which an update's gradients are summed. fixed: one that depends on the rows alone, so that
    1, 2, 4, ... processes with the same micro-batch and threads each train the same weights to the bit.
    """
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the encoders' layers with torch.compile. auto: in runs of ten minutes or more where a compiler
    is installed (on a CPU, only without dropout).
    """
    threads: int | None = None
    """CPU threads of each process (default: OMP_NUM_THREADS, or else one or all cores, as measured)."""


@dataclass(frozen=True)
class UpkeepSection:
    """What is saved, measured and reported meanwhile."""

    HEADING: ClassVar[str] = "What is saved, measured and reported meanwhile"

    checkpoint_every: int | None = None
    """Steps between checkpoints (default: a twentieth of the run)."""
    keep: int = 2
    """Checkpoints to keep, the newest first; at least 1."""
    evaluate_every: int | None = None
    """Steps between held-out evaluations (default: a tenth of the run)."""
    log_every: int = 10
    """Steps between rows of metrics.jsonl."""
    on_collapse: Literal["warn", "stop"] = "warn"
    """What to do when the discriminator still answers "all original" halfway through the run."""
    on_spike: Literal["warn", "skip", "stop"] = "warn"
    """What to do when a loss is far above the ones before it. warn: record the batch; skip: also leave out
    its update; stop: end the run before it.
    """


@dataclass(frozen=True)
class TrainingSection(UpkeepSection, MachineSection, OptimizerSection, ScheduleSection, RowsSection):
    """One section for the user; each function takes the part that it needs."""


@dataclass(frozen=True)
class EvaluationSection:
    rows: int = 256
    """Held-out rows to score."""
    mask_fraction: float = 0.15
    """Mask rate of held-out evaluation, whatever the training rate, so that runs can be compared."""


@dataclass(frozen=True, kw_only=True)
class TokenizerSection(TokenizerConfig):
    source: str | None = None
    """An existing tokenizer: a folder, vocab.txt, tokenizer.json or hub name (default: train one on the
    corpus).
    """
    cut_to: int | None = None
    """Entries to keep of an existing WordPiece tokenizer: those that the corpus needs most (default: all)."""


@dataclass(frozen=True)
class Recipe:
    model: ModelSection = field(default_factory=ModelSection)
    objective: dict[str, Any] = field(default_factory=lambda: {"name": DEFAULT_OBJECTIVE})
    training: TrainingSection = field(default_factory=TrainingSection)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    data: CorpusConfig = field(default_factory=CorpusConfig)

    def to_sections(self) -> dict[str, dict[str, Any]]:
        return {key: dict(value) if isinstance(value, dict) else value for key, value in asdict(self).items()}


def read_recipe(path: Path, objective: str | None = None) -> dict[str, Any]:
    """The sections of a recipe's file. With another `objective` than its own, without its own's options."""
    sections = read_toml(path)
    paths_from(sections, path)
    if objective is not None and objective != sections.get("objective", {}).get("name", DEFAULT_OBJECTIVE):
        sections["objective"] = {"name": objective}
    return sections


def paths_from(sections: Any, file: Path) -> None:
    """The path of an objective counts from the folder of the file that names it."""
    objective = sections.get("objective") if isinstance(sections, dict) else None
    if isinstance(objective, dict) and isinstance(objective.get("name"), str):
        objective["name"] = resolve_beside(objective["name"], file)


def make_recipe(sections: Mapping[str, Any], where: str = "") -> Recipe:
    recipe = build(Recipe, sections, where)
    recipe = replace(recipe, objective={"name": DEFAULT_OBJECTIVE, **recipe.objective})
    model, training = recipe.model, recipe.training
    counts = ("length", "batch_size", "micro_batch", "steps", "keep", "threads")
    intervals = ("log_every", "checkpoint_every", "evaluate_every")
    check_at_least(training, {**dict.fromkeys((*counts, *intervals), 1), "warmup_steps": 0}, "training.")
    check_at_least(recipe.evaluation, {"rows": 1}, "evaluation.")
    check_at_most(training, {"threads": MOST_THREADS}, "training.")
    if training.length < 4:
        raise ConfigError("must be at least 4: [CLS], two tokens, [SEP]", key="training.length")
    check_positive(model, ("generator_width", "generator_depth"), "model.")
    check_at_most(model, dict.fromkeys(("generator_width", "generator_depth"), 64), "model.")
    check_shares(model, ("dropout", "attention_dropout"), "model.")
    check_positive(training, ("epsilon", "clip"), "training.")
    rates = ("learning_rate", "generator_learning_rate", "weight_decay")
    check_not_negative(training, rates, "training.")
    if not all(0 <= beta < 1 for beta in training.betas):
        what = f"must be shares from 0 to below 1, not {' '.join(map(str, training.betas))}"
        raise ConfigError(what, key="training.betas")
    if training.budget is not None:
        parse_budget(training.budget)
    if not 0 < training.decay < 1:
        raise ConfigError(f"must lie between 0 and 1, not {training.decay}", key="training.decay")
    check_shares(training, ("warmup",), "training.")
    if not 0 < (share := recipe.evaluation.mask_fraction) < 1:
        raise ConfigError(f"must lie between 0 and 1, not {share}", key="evaluation.mask_fraction")
    return recipe


def recorded_recipe(record: Mapping[str, Any]) -> Recipe:
    """The recipe in a run's record."""
    return make_recipe({name: record[name] for name in Recipe.__dataclass_fields__ if name in record})


def with_budget(sections: Mapping[str, Any], budget: str | None, steps: bool) -> dict[str, Any]:
    """The sections with the user's budget in place of the recipe's; so does a number of `steps`."""
    if budget is None and not steps:
        return dict(sections)
    return merge(sections, {"training": {"budget": budget}})
