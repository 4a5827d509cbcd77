"""The settings of a fine-tuning, and the paper's values for what is left open.

Appendix of the paper: batch 32, 10 % warm-up, weight decay 0, learning rate 3e-4 / 1e-4 / 5e-5 and layer-wise
decay 0.8 / 0.8 / 0.9 for small / base / large, 10 epochs on RTE and STS-B and 3 on the rest. Widths of 128
and less, which the paper does not have, learn at 1e-3. Two departures, on purpose, from the published code:
it decays weights by 0.01 unless told otherwise (the paper says 0), and its layer-wise decay skips an exponent
(the top layer gets decay^2 where the head gets decay^0); here the head has exponent 0, the top layer 1, ...,
the embeddings layers + 1. Torch-free, so that `--help` is quick.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, Self

from electra.artifacts.model import Pooling
from electra.foundation.config import (
    build,
    check_at_least,
    check_at_most,
    check_not_negative,
    check_positive,
    check_shares,
    convert,
)
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import HEADS
from electra.foundation.machine import MOST_THREADS, OnDevice
from electra.foundation.options import (
    Names,
    OnCommandLine,
    RepeatedNames,
    RepeatedSources,
    Source,
    as_path,
    as_tuple,
)
from electra.training import budget


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """How the data is read."""

    HEADING: ClassVar[str] = "How the data is read"

    text_column: RepeatedNames = ()
    """The column of the text; for a pair pass the option twice (default: the usual names)."""
    label_column: Annotated[str | Sequence[str] | None, OnCommandLine(tuple[str, ...], repeated=True)] = None
    """The column of the answer (default: the usual names). With --multi-label the option may be repeated: a
    column of 0 and 1 for each label.
    """
    columns: Names = ()
    """The columns' names, for files without a header line."""
    encoding: str | None = None
    """Encoding of csv and tsv files, such as cp1252 (default: UTF-8, or a guess where that fails)."""
    skip_unlabelled: bool = False
    """Leave out training and dev rows without an answer (empty, NaN, -, ?) instead of stopping."""
    multi_label: bool = False
    """Any number of labels can be right: a list, or names separated by commas. Each is decided on its own."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: rare labels weigh more in the training loss, so that every label weighs the same in total."""
    stride: int | None = None
    """Tokens from one window to the next, in tasks that read a long text in several windows (default: the
    task's).
    """
    both_orders: bool | None = None
    """Train on (a, b) and on (b, a) (default: only for MRPC and STS-B)."""

    def __post_init__(self) -> None:
        for name in ("text_column", "columns", "label_column"):
            given = convert(tuple[str, ...], as_tuple(getattr(self, name) or ()), name)
            if name == "label_column" and len(given) < 2:
                given = given[0] if given else None
            object.__setattr__(self, name, given)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Those among the settings of a record, which may be of an older version."""
        known = {
            field.name: settings[field.name] for field in fields(cls) if settings.get(field.name) is not None
        }
        return build(cls, known, "settings")


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """Repetitions, and what is kept of them."""

    HEADING: ClassVar[str] = "Repetitions, and what is kept of them"

    seeds: int = 1
    """How many times to fine-tune, each with its own random draws. Use five for small data."""
    seed: int = 0
    """The first seed."""
    search: Annotated[str | int | None, OnCommandLine(str)] = None
    """Choose the learning rate, epochs and layer decay left open here on a part of the training data, within
    this time (10m, 2h) or number of trainings (12), before fine-tuning with the best.
    """
    ensemble: bool = False
    """Also average the predictions of all seeds, and score the average."""
    keep_seed: Literal["best", "median"] = "best"
    """Which seed's model to save, by the primary metric on dev."""
    keep_epoch: Literal["last", "best"] = "last"
    """best: evaluate on dev after every epoch and keep the weights of the best one. The dev score is then
    biased by model selection.
    """
    evaluate_every_epoch: bool = False
    """Also score dev after each epoch."""
    checkpoint_every: int = 500
    """Steps between checkpoints within a seed."""


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """What the scores are compared with."""

    HEADING: ClassVar[str] = "What the scores are compared with"

    baselines: bool = True
    """Also score baselines that need no network: the majority answer, and counting words."""
    untrained_baseline: bool = False
    """Also fine-tune fresh weights in the shape of the (first) model: what can be learned from the labelled
    data alone.
    """


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The network."""

    HEADING: ClassVar[str] = "The network"

    init: Literal["pretrained", "random"] = "pretrained"
    """random: the same architecture with fresh weights, as a baseline."""
    head: str = "transformers"
    """transformers: the head of the class the model is saved as. compare and bag add a linear answer on what
    can be counted, which helps most where labels are few: for pairs of texts how far they agree (compare),
    for single texts which words are there (bag). frozen: the encoder is not trained, and a linear model is
    fitted to its states in seconds, often the best with few labels. linear: the original code's; joint: its
    reader of answers (SQuAD). transformers has no class for the last five: the saved model is then the
    encoder, with the head's weights in a file of ours beside it. joint, compare and bag cannot be exported to
    ONNX. Or the path of a .py file.
    """
    train_separately: bool = False
    """With the heads compare and bag: train the network by itself and add what was counted afterwards,
    instead of training it on what counting leaves. Better where labels are many and the texts much alike.
    """
    pooling: Pooling | None = None
    """What a classifier reads: [CLS], the mean or the largest values of all tokens, or the last token
    (default: what the encoder's 1_Pooling says; else mean for the modern encoder, and cls for the paper's,
    whose transformers class supports nothing else).
    """
    dropout: float | None = None
    """Dropout in the encoder and the head, whatever the model was pre-trained with (default: 0.1; 0 with the
    heads compare and bag, whose answers are fitted to an encoder without it).
    """
    max_length: int | None = None
    """Tokens of an input with [CLS] and [SEP] (default: the task's, within the model's positions). Longer
    inputs are truncated, and counted.
    """


@dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    """Training."""

    HEADING: ClassVar[str] = "Training"

    epochs: float | None = None
    """Passes over the training data (default: the task's, 1, 2, 3 or 10; 1 with the head compare). 0 measures
    a head before any training: one fitted by counting, or the model's own. 0 with the head frozen.
    """
    batch_size: int = 32
    """Examples in an update."""
    learning_rate: float | None = None
    """Learning rate of the head (default: 1e-3, 3e-4, 1e-4 or 5e-5, by the model's size)."""
    layer_decay: float | None = None
    """Factor between the learning rate of each layer and the one above it (default: 0.8, or 0.9 for large
    models).
    """
    weight_decay: float = 0.0
    """Decoupled weight decay; never on biases and norms, as in the published code."""
    warmup: float = 0.1
    """Share of the steps over which the learning rate rises."""
    clip: float = 1.0
    """Largest global gradient norm."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """For reproducing the published code."""

    HEADING: ClassVar[str] = "For reproducing the published code"

    reference_decay: bool = False
    """Apply the decay once more to every layer, as the published code does (a known off-by-one error)."""


@dataclass(frozen=True, kw_only=True)
class MachineOptions(OnDevice):
    """Where it runs."""

    HEADING: ClassVar[str] = "Where it runs"

    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """auto: bf16 matrix products where the hardware has them, fp32 elsewhere."""
    threads: int | None = None
    """CPU threads (default: OMP_NUM_THREADS, or else one or all cores, as measured)."""


@dataclass(frozen=True, kw_only=True)
class Settings(
    Reproduction, MachineOptions, Baselines, SeedOptions, UpdateOptions, ModelOptions, TaskOptions
):
    """What is recorded of a fine-tuning."""

    task: str
    """cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli; pos, chunking, ner, ged; squad, squad2; for your
    own data classification, pair, regression, tagging or qa, and for vectors similarity (scored pairs) or
    contrastive (texts alone, or pairs); or the path of a .py file.
    """
    data: Source
    """A folder with train, dev (val, valid, validation) and test files or saved by `datasets`, or one
    training file: csv, tsv, json, jsonl, parquet, arrow, feather, zip, or what the task reads (CoNLL-U,
    columns, M2; SQuAD's JSON), compressed or not.
    """
    out: Source
    """Directory for results. Rerun the command to resume."""
    dev: Source | None = None
    """The file to evaluate on (default: found in the folder, else a tenth of the training data)."""
    test: Source | None = None
    """A file to predict after training (default: found in the folder)."""
    extra_eval: RepeatedSources = ()
    """A further file to predict, and to score where it has answers; may be repeated (MNLI's mismatched files
    are found in the folder).
    """
    limit_train: int | None = None
    """Train on this many examples, chosen by hash: the same ones whatever their order in the file."""
    limit_eval: int | None = None
    """Predict and score this many examples of each other file, chosen the same way."""

    def __post_init__(self) -> None:
        counts = (
            "seeds",
            "batch_size",
            "checkpoint_every",
            "limit_train",
            "limit_eval",
            "max_length",
            "stride",
            "threads",
        )
        check_at_least(self, {**dict.fromkeys(counts, 1), "seed": 0})
        check_at_most(
            self, {"threads": MOST_THREADS, "seeds": 10_000, "epochs": 100_000, "batch_size": 1 << 20}
        )
        check_positive(self, ("learning_rate", "layer_decay", "clip"))
        check_shares(self, ("warmup", "dropout"))
        check_not_negative(self, ("weight_decay", "epochs"))
        super().__post_init__()
        for name in ("data", "out", "dev", "test"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, as_path(given, name))
        object.__setattr__(
            self, "extra_eval", tuple(as_path(each, "extra_eval") for each in as_tuple(self.extra_eval))
        )
        if self.search is not None:
            object.__setattr__(self, "search", str(self.search))
            search_budget(str(self.search))
        if self.untrained_baseline and self.init == "random":
            what, fix = (
                "the model itself starts from fresh weights",
                "Leave out `untrained_baseline` or `init`",
            )
            raise ConfigError(what, key="untrained_baseline", fix=fix)
        if len(self.text_column) > 2:
            raise ConfigError(f"one text or two, not {len(self.text_column)}", key="text_column")

    def options(self) -> TaskOptions:
        """Those that say what the task reads."""
        return TaskOptions.of(vars(self))

    def recorded(self) -> dict[str, Any]:
        """What must agree to resume: all that can change a number, unless it is recorded elsewhere."""
        kept = asdict(self) | {"head": HEADS.name_of(self.head), "apart": self.train_separately}
        absent = {name for name in SINCE if not kept[name]}
        if self.search:  # what was found is in the folder: more time may follow
            kept["search"] = True
        return {name: kept[name] for name in kept if name not in HARMLESS | RECORDED_APART | absent}


@dataclass(frozen=True, kw_only=True)
class ResolvedSettings(Settings):
    """Settings with nothing left open."""

    pooling: Pooling
    epochs: float
    learning_rate: float
    layer_decay: float
    dropout: float
    max_length: int


# Settings that change where files are read and written or what is kept, never a number of one seed: free to
# differ when a run is resumed (the contents of the files are not: the record has their digests).
HARMLESS = {
    *("data", "out", "dev", "test", "extra_eval", "seeds", "seed", "keep_seed", "checkpoint_every"),
    *("evaluate_every_epoch", "ensemble", "device", "threads", "baselines", "untrained_baseline"),
}
SINCE = {
    "encoding",
    "skip_unlabelled",
    "search",
    "apart",
}  # not in older records, and in none where they are left out
RECORDED_APART = {"task", "precision", "train_separately"}  # the last as "apart", its name in older records


SEARCHED = ("learning_rate", "epochs", "layer_decay")


def searched(settings: Settings) -> tuple[str, ...]:
    """The settings that a search chooses: those that are left open."""
    return tuple(name for name in SEARCHED if getattr(settings, name) is None)


MOST_TRAININGS = 10_000  # of a search


def search_budget(text: str) -> tuple[float, str]:
    """(amount, unit) of `search`, unit one of seconds and trainings."""
    if re.fullmatch(r"[0-9]{1,5}", text) and 1 < int(text) <= MOST_TRAININGS:
        return float(text), "trainings"
    try:
        amount, unit = budget.parse(text)
    except ConfigError:
        unit = ""
    if unit != "seconds":
        fix = f"Use a time such as 10m or 2h, or a number of trainings from 2 to {MOST_TRAININGS:,}"
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise ConfigError(f"invalid budget {shown!r}", key="search", fix=fix)
    return amount, unit


def default_learning_rate(hidden_size: int) -> float:
    """The paper's for widths of 256, 768 and 1024; below, where it has none, what our sweep found."""
    if hidden_size <= 128:
        return 1e-3
    return 3e-4 if hidden_size <= 256 else 1e-4 if hidden_size <= 768 else 5e-5


def default_layer_decay(hidden_size: int) -> float:
    return 0.8 if hidden_size <= 768 else 0.9
