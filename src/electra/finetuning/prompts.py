"""Prompts: a template that makes a sentence of an example and a candidate word, and the words that stand for
the labels.

In a template {text} and {text2} are the example's texts and {label} is where the candidates go, one after the
other. Where the template puts a mark right after a text, the text's own last marks go.
The templates and words are those of Gao et al. 2021 (Making pre-trained language models better few-shot
learners, Table 1), which Xia et al. 2022 use as well. Torch-free, so that `--help` is quick.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electra.errors import ConfigError, nearest

_FIELD = re.compile(r"\{(\w*)\}")
_TEXTS = ("text", "text2")
_MARKS = ".,;:!?"


@dataclass(frozen=True)
class Filled:
    """A sentence made of a template, and where its parts stand, in characters."""

    sentence: str
    label: tuple[int, int]
    texts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Prompt:
    template: str
    words: Mapping[str, str]  # label -> what stands for it; one word or several

    def fill(self, texts: Sequence[str], words: str) -> Filled:
        parts = _FIELD.split(self.template)  # literal, field, literal, ...
        values = {**dict(zip(_TEXTS, texts, strict=False)), "label": words}
        sentence = parts[0]
        spans: dict[str, tuple[int, int]] = {}
        for field, literal in zip(parts[1::2], parts[2::2], strict=True):
            value = values[field].strip()
            if field != "label" and literal[:1] in tuple(_MARKS):
                value = value.rstrip(_MARKS + " ")
            spans[field] = (len(sentence), len(sentence) + len(value))
            sentence += value + literal
        return Filled(sentence, spans.pop("label"), tuple(spans.values()))


PROMPTS: dict[str, Prompt] = {
    "sst-2": Prompt("{text} It was {label}.", {"negative": "terrible", "positive": "great"}),
    "mnli": Prompt(
        "{text}? {label}, {text2}", {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}
    ),
    "rte": Prompt("{text}? {label}, {text2}", {"entailment": "Yes", "not_entailment": "No"}),
    "qnli": Prompt("{text}? {label}, {text2}", {"entailment": "Yes", "not_entailment": "No"}),
    "mrpc": Prompt("{text} {label}, {text2}", {"not_equivalent": "No", "equivalent": "Yes"}),
    "qqp": Prompt("{text} {label}, {text2}", {"not_duplicate": "No", "duplicate": "Yes"}),
    "cola": Prompt("{text} This is {label}.", {"unacceptable": "incorrect", "acceptable": "correct"}),
}


def choose_prompt(
    task: str, labels: Sequence[str], num_texts: int, template: str | None, words: Sequence[str]
) -> Prompt:
    """The task's prompt with what the user wants otherwise. `words`: LABEL=WORDS for each label."""
    known = PROMPTS.get(task)
    if known is None and (template is None or not words):
        fix = 'Give --template "{text} It was {label}." and --words LABEL=WORD for each label'
        raise ConfigError(f"no prompt is known for the task {task}", where="electra prompt", fix=fix)
    chosen = dict(known.words) if known is not None else {}
    for entry in words:
        label, equals, meaning = entry.partition("=")
        if not equals or not meaning.strip():
            raise ConfigError(f"{entry!r} is not LABEL=WORDS", where="--words", fix="Such as positive=great")
        if label not in labels:
            raise ConfigError(
                f"the task has no label {label!r}", where="--words", fix=nearest(label, list(labels))
            )
        chosen[label] = meaning
    if missing := [label for label in labels if label not in chosen]:
        raise ConfigError(
            f"nothing stands for the label {missing[0]!r}", where="--words", fix=f"Add {missing[0]}=WORD"
        )
    if len(set(chosen.values())) < len(chosen):
        raise ConfigError(
            "two labels have the same words", where="--words", fix="Give each label words of its own"
        )
    template = template if template is not None else known.template if known is not None else ""
    fields = [*_TEXTS[:num_texts], "label"]
    if sorted(_FIELD.findall(template)) != sorted(fields):
        wanted = ", ".join(f"{{{field}}}" for field in fields)
        raise ConfigError(
            f"a template of this task has {wanted}, each once",
            where=f"--template {template!r}",
            fix="Mend the template",
        )
    return Prompt(template, {label: chosen[label] for label in labels})


@dataclass(frozen=True, kw_only=True)
class PromptSettings:
    task: str
    """sst2, mnli, rte, qnli, mrpc, qqp, cola; or your own: classification or pair, with --template and
    --words.
    """
    data: Path
    """A folder with a dev file, and a training file to draw the shots from; or the dev file itself."""
    out: Path
    """Where results go."""
    template: str | None = None
    """The sentence to make, with {text}, {text2} of pairs, and {label} (none: the task's)."""
    words: tuple[str, ...] = ()
    """What stands for the labels: LABEL=WORDS, for each that shall differ from the task's."""
    shots: int = 0
    """Training examples of each label. 0: the model as it is."""
    seeds: int = 5
    """How many draws of training examples."""
    seed: int = 0
    """The first of them."""
    steps: int = 200
    """Updates in few-shot training. There is no choosing of the best: that would need labelled examples
    beyond the shots.
    """
    batch_size: int = 8
    """Examples in an update, each with all its candidates."""
    learning_rate: float | None = None
    """At its peak (none: a fifth of that for fine-tuning a model of this size; 2e-5 for base)."""
    dropout: float = 0.1
    """In the encoder, in few-shot training."""
    max_length: int = 256
    """Tokens of a prompt, within the model's positions. What is too much is cut off the longer text."""
    limit: int | None = None
    """Evaluate on this many dev examples, chosen by hash."""
    text_column: tuple[str, ...] = ()
    """The column of the text, or the two columns of a pair (none: the usual names)."""
    label_column: str | None = None
    """The column of the label (none: the usual names)."""
    columns: tuple[str, ...] = ()
    """The columns' names, for files without a header line."""
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def __post_init__(self) -> None:
        for name, least in (
            ("shots", 0),
            ("seeds", 1),
            ("steps", 1),
            ("batch_size", 1),
            ("max_length", 8),
            ("limit", 1),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(
                    f"must be at least {least}, not {value}", where="--" + name.replace("_", "-")
                )
        if self.learning_rate is not None and not 0 < self.learning_rate < float("inf"):
            raise ConfigError(f"must be above 0, not {self.learning_rate}", where="--learning-rate")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"must be a share from 0 to below 1, not {self.dropout}", where="--dropout")
