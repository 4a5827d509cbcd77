"""The settings of a fine-tuning, and the paper's values for those that are not set.

The paper (appendix) uses batches of 32, 10 % warm-up, weight decay 0, learning rates of 3e-4 / 1e-4 / 5e-5
and layer-wise decays of 0.8 / 0.8 / 0.9 for small / base / large models, 10 epochs on RTE and STS-B and 3 on
the other tasks. Widths up to 128, which the paper does not have, use 1e-3 and 0.9. There are two deliberate
departures from the published code: its weight decay defaults to 0.01, and its layer-wise decay skips an
exponent (decay^0 for the head, decay^2 for the top layer); here the exponent is 0 for the head, 1 for the top
layer, ..., layers + 1 for the embeddings. This module does not import torch, so that `--help` is fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, Self

from electra.artifacts.model_files import Pooling
from electra.data.tables.table_files import Given
from electra.data.text_settings import AllowUnknown
from electra.foundation.config import (
    build,
    check_at_least,
    check_at_most,
    check_below_one,
    check_not_negative,
    check_positive,
    convert,
)
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import HEADS
from electra.foundation.machine import MAX_THREADS, OnDevice
from electra.foundation.options import (
    Names,
    OnCommandLine,
    RepeatedNames,
    RepeatedSources,
    Source,
    as_path,
    as_tuple,
)

AUTO = "auto"  # the head that is chosen
MANY_LABELS = 20  # more need a higher rate to be learned in as many updates


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Options for reading the data."""

    HEADING: ClassVar[str] = "Reading the data"

    text_column: RepeatedNames = ()
    """Column of the text; for pairs, pass the option twice (default: common names, such as text)."""
    label_column: Annotated[str | Sequence[str] | None, OnCommandLine(tuple[str, ...], repeated=True)] = None
    """Column of the label (default: common names, such as label). With --multi-label, repeat the option for
    one column of 0s and 1s per label.
    """
    columns: Names = ()
    """Column names for files without a header line."""
    skip_unlabelled: bool = False
    """Leave out training and dev rows without a label (empty, NaN, -, ?) instead of stopping."""
    multi_label: bool = False
    """A text can have any number of labels, given as a list or as names separated by commas. Each label is
    predicted independently.
    """
    class_weights: Literal["none", "balanced"] = "none"
    """Weights of the labels in the training loss. balanced: every label has the same total weight."""
    stride: int | None = None
    """Tokens between the starts of successive windows, for tasks that split long texts (default: the task's).
    """

    def __post_init__(self) -> None:
        for name in ("text_column", "columns", "label_column"):
            value = convert(tuple[str, ...], as_tuple(getattr(self, name) or ()), name)
            if name == "label_column" and len(value) < 2:
                value = value[0] if value else None
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Returns the task options among recorded settings, maybe of an older version."""
        names = {field.name for field in fields(cls)}
        values = {name: each for name, each in settings.items() if name in names and each is not None}
        return build(cls, values, "settings")


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """Options for seeds, baselines and what is saved."""

    HEADING: ClassVar[str] = "Seeds, baselines and what is saved"

    seeds: int = 1
    """Number of fine-tuning runs with different seeds. Use five for small data sets."""
    seed: int = 0
    """The first seed."""
    keep_epoch: Literal["last", "best"] = "last"
    """The epoch whose weights are kept. best: dev is scored after each epoch, and the best one is kept; its
    score is then biased by model selection.
    """
    calibrate: bool | None = None
    """Divide the logits of a classifier or tagger by a temperature, so that its probabilities match its
    accuracy on dev (default: on). Predicted labels stay the same. Requires 100 texts or words in dev.
    """
    baselines: bool = True
    """Also score baselines: the majority answer (for tagging, also each word's most frequent tag), a linear
    model of counted features, and one on the states of the encoder before training.
    """
    checkpoint_every: int = 500
    """Steps between checkpoints within a seed."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options for the network."""

    HEADING: ClassVar[str] = "The network"

    init: Literal["pretrained", "random"] = "pretrained"
    """The model's initial weights. random: the same architecture with random initialization, as a baseline.
    """
    head: str = "auto"
    """The head, or the path of a .py file that defines one. auto: with at most 2,000 labelled
    texts or 25,000 labelled words, and no training option set, the cheapest of frozen, counts and
    transformers that no other beats by more than a standard error on held-out training examples; else
    transformers.
    transformers: the standard head, that of the model's transformers class. frozen: the encoder is not
    trained, and a linear model is fitted to its states in seconds. It encodes the texts of a pair separately
    and compares the vectors; for pairs it cannot be exported to ONNX. counts: frozen states and counted
    features of words and characters; not exported to ONNX. linear: the head of ELECTRA's published code.
    transformers can load the whole model if its head is transformers or, for tagging with ELECTRA
    encoders, frozen or linear; otherwise it loads the encoder, and the head's weights are in a separate file.
    """
    pooling: Pooling | None = None
    """The vector that represents a text: [CLS], the mean or maximum over all tokens, or the last token
    (default: as in the encoder's sentence-transformers settings; if there are none, mean for the modern
    architecture and the heads frozen and counts, else cls). A classifier whose pooling its
    transformers class lacks is saved as an encoder and a file with the head's weights.
    """
    dropout: float | None = None
    """Dropout in the encoder and the head (default: as in the model's configuration).
    """
    max_length: int | None = None
    """Maximum number of tokens of an input, including [CLS] and [SEP] (default: the task's, but at most the
    model's positions). Longer inputs are truncated, and their number is reported.
    """


@dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    """Options for training."""

    HEADING: ClassVar[str] = "Training"

    epochs: float | None = None
    """Passes over the training data (default: 1, 2, 3 or 10, depending on the task, and more with few
    examples; 0 with the heads frozen and counts). With 0, nothing is trained: the head is scored as it is.
    """
    batch_size: int = 32
    """Examples per update."""
    learning_rate: float | None = None
    """Learning rate of the head; the layers below it get less (see --layer-decay) (default: from 1e-3 to
    5e-5, by the model's width).
    """
    layer_decay: float | None = None
    """Learning rate of each layer relative to the one above it (default: 0.8; 0.9 for widths up to 128
    and above 768).
    """
    weight_decay: float = 0.0
    """Decoupled weight decay, except on biases and norms, as in the published code."""
    warmup: float = 0.1
    """Warm-up: fraction of the steps in which the learning rate rises."""
    clip: float = 1.0
    """Maximum global gradient norm."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Number format of matrix products. auto: bf16 if the hardware supports it, else fp32."""


@dataclass(frozen=True, kw_only=True)
class Settings(AllowUnknown, OnDevice, SeedOptions, UpdateOptions, ModelOptions, TaskOptions):
    """All settings of a fine-tuning."""

    task: str
    """Public tasks: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli; pos, chunking, ner, ged; squad,
    squad2. For your own data: classification, pair, regression, tagging or qa. Or the path of a .py
    file.
    """
    data: Source | Given
    """A folder with files of the splits, a folder saved by `datasets`, a training file, or rows."""
    out: Source
    """Directory for results. Rerun the command to resume."""
    dev: Source | Given | None = None
    """The file to evaluate on (default: the dev file in the folder, else a tenth of the training data)."""
    test: Source | Given | None = None
    """A file to predict after training (default: the test file in the folder)."""
    extra_eval: RepeatedSources = ()
    """Another file to predict, and to score if it has answers; may be repeated (default: MNLI's mismatched
    files in the folder).
    """
    limit_train: int | None = None
    """Train on this many examples, chosen by hash, so that the order of the file does not matter."""
    limit_eval: int | None = None
    """Predict and score this many examples of each of the other files, chosen in the same way."""

    def __post_init__(self) -> None:
        sizes = ("batch_size", "limit_train", "limit_eval", "max_length", "stride")
        counts = (*sizes, "seeds", "checkpoint_every", "threads")
        check_at_least(self, {**dict.fromkeys(counts, 1), "seed": 0})
        limits = {"threads": MAX_THREADS, "seeds": 10_000, "epochs": 100_000, "batch_size": 1 << 20}
        check_at_most(self, limits)
        check_positive(self, ("learning_rate", "layer_decay", "clip"))
        check_below_one(self, ("warmup", "dropout"))
        check_not_negative(self, ("weight_decay", "epochs"))
        super().__post_init__()
        for name in ("data", "out", "dev", "test"):
            if not isinstance(source := getattr(self, name), Given | None):
                object.__setattr__(self, name, as_path(source, name))
        extra_eval = tuple(as_path(source, "extra_eval") for source in as_tuple(self.extra_eval))
        object.__setattr__(self, "extra_eval", extra_eval)
        if len(self.text_column) > 2:
            problem = f"an example has at most two texts, not {len(self.text_column)}"
            raise ConfigError(problem, key="text_column")

    def recorded(self) -> dict[str, Any]:
        """Returns the settings on which a resumed run must agree.

        These are all that can change a score, except those that are recorded elsewhere.
        """
        record = asdict(self) | {"head": HEADS.canonical_name(self.head)}
        unset_names = {name for name in ADDED_LATER if not record.get(name)}
        return {name: record[name] for name in record if name not in NOT_RECORDED | unset_names}


@dataclass(frozen=True, kw_only=True)
class ResolvedSettings(Settings):
    """Settings with a value for every default that depends on the data or the model."""

    pooling: Pooling
    epochs: float
    learning_rate: float
    layer_decay: float
    dropout: float
    max_length: int
    calibrate: bool
    separate_texts: bool = False
    """Whether the two texts of a pair are encoded separately (heads frozen and counts)."""
    read_columns: tuple[str, ...] = ()
    """The columns of the training texts, if the user named none."""


# Settings that do not change the scores of a seed, so they may differ when a run is resumed, and those that
# are recorded elsewhere: the task, the precision and the digests of the data.
NOT_RECORDED = {
    *("task", "precision", "data", "out", "dev", "test", "extra_eval", "seeds", "seed", "checkpoint_every"),
    *("device", "threads", "baselines", "allow_unknown"),
}
# Recorded only if they are set, because older records lack them.
ADDED_LATER = {"skip_unlabelled", "calibrate", "separate_texts", "read_columns"}

# Settings of each task that `electra evaluate` chooses itself or has its own options for.
CHOSEN_BY_SUITE = frozenset(str.split("task data out dev test extra_eval seeds seed device baselines"))


def default_learning_rate(hidden_size: int, *, tagging: bool = False, labels: int = 2) -> float:
    """Returns the paper's learning rate for a width, or a rate of our own (from grids).

    Ours are 1e-3 for widths up to 128 and, from 257 to 384, 2e-4 for taggers and 3e-4 for many labels.
    """
    if hidden_size <= 128:
        return 1e-3
    if 256 < hidden_size <= 384 and (tagging or labels > MANY_LABELS):
        return 2e-4 if tagging else 3e-4
    return 3e-4 if hidden_size <= 256 else 1e-4 if hidden_size <= 768 else 5e-5


def default_layer_decay(hidden_size: int) -> float:
    """Returns the paper's layer decay for widths above 128, and 0.9 (from our own grid) up to 128."""
    return 0.8 if 128 < hidden_size <= 768 else 0.9
