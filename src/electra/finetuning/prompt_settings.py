"""The settings of prompting. Torch-free, so that `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.foundation.config import check_least, check_positive, check_shares
from electra.foundation.machine import Device


@dataclass(frozen=True, kw_only=True)
class PromptSettings:
    task: str
    """sst2, mnli, rte, qnli, mrpc, qqp, cola; or your own: classification or pair, with --template and
    --words.
    """
    data: Path
    """A folder with a dev file, and a training file to draw the shots from; or the dev file itself."""
    out: Path
    """Directory for results. Rerun the command to resume."""
    template: str | None = None
    """The sentence to make, with {text}, {text2} for pairs, and {label} (default: the task's)."""
    words: tuple[str, ...] = ()
    """What stands for a label, LABEL=WORDS, where it is to differ from the task's."""
    shots: int = 0
    """Training examples of each label. 0: zero-shot, without training."""
    seeds: int = 5
    """How many draws of training examples."""
    seed: int = 0
    """The first seed."""
    steps: int = 200
    """Updates in few-shot training. All are done: choosing the best would need more labelled examples than
    the shots.
    """
    batch_size: int = 8
    """Examples in an update, each with all its candidates."""
    learning_rate: float | None = None
    """Peak learning rate (default: a fifth of that for fine-tuning a model of this size; 2e-5 for base)."""
    dropout: float = 0.1
    """Dropout in the encoder, in few-shot training."""
    max_length: int = 256
    """Tokens of a prompt, within the model's positions. The longer text is truncated."""
    limit_eval: int | None = None
    """Evaluate on this many dev examples, chosen by hash."""
    text_column: tuple[str, ...] = ()
    """The column of the text, or the two columns of a pair (default: the usual names)."""
    label_column: str | None = None
    """The column of the answer (default: the usual names)."""
    columns: tuple[str, ...] = ()
    """The columns' names, for files without a header line."""
    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""

    def __post_init__(self) -> None:
        least = {"shots": 0, "seeds": 1, "steps": 1, "batch_size": 1, "max_length": 8, "limit_eval": 1}
        check_least(self, least)
        check_positive(self, ("learning_rate",))
        check_shares(self, ("dropout",))
