"""Tagging: a tag for each word of a sentence.

A word's tag is predicted at its first piece, found by character offsets, so any tokenizer will do; the other
pieces have no target. A sentence longer than the model's input is read in overlapping windows, and each word
is trained and scored in the one in which its shorter side of context is longest. A word that the tokenizer
drops (such as a control character) is reported, predicted as the most frequent tag ("O" for entities, if it
occurs), and scored. Departure from the published code, which truncates long sentences and does not score the
words removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.tagged_sentences import (
    CORRECT,
    FORMATS,
    INCORRECT,
    TagColumns,
    is_number,
    read_sentences,
)
from electra.finetuning.labelled.words import SPLITTINGS, Splitting, infer_splitting
from electra.finetuning.metrics.entities import (
    OUTSIDE,
    complete_tags,
    count_invalid,
    entity_scores,
    is_entity_tag,
    is_outside,
)
from electra.finetuning.metrics.scores import METRICS, Score, f_score
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks.parts.losses import balanced_weights, cross_entropy
from electra.finetuning.tasks.parts.task import (
    Cell,
    HeadKind,
    Outputs,
    Task,
    file_of,
    nonzero_notes,
    number_labels,
    softmax,
    tally_labels,
)
from electra.finetuning.windows.features import NO_TARGET, Ids, Tokens, Windows
from electra.foundation.errors import ConfigError, DataError, nearest
from electra.inference.detection import overlapping_windows

DEFAULT, SPLITTING = "default_label", "word_splitting"  # in config.json of a saved model
WORDS = (("word",), ("token",), ("tokens",), ("words",))
Scheme = Literal["words", "entities", "errors", "auto"]
SCORES: dict[Scheme, tuple[str, ...]] = {
    "words": ("accuracy", "f1_macro"),
    "entities": ("f1", "precision", "recall", "accuracy"),
    "errors": ("f0_5", "precision", "recall"),
    "auto": ("accuracy",),
}


@dataclass(frozen=True, kw_only=True)
class WordTagging(Task):
    """Assigns a tag to each word of a sentence; predictions are probabilities [words, labels]."""

    outputs_are_logits: ClassVar[bool] = True
    head: ClassVar[HeadKind] = "tagger"

    # words: independent labels; entities: BIO or BIOES; errors: c and i; auto: words or entities, by the
    # training data
    scheme: Scheme = "auto"
    labels: tuple[str, ...] = ()  # in the order of the outputs; (): those of the training data
    default: str = ""  # predicted for words without a piece
    metrics: tuple[str, ...] = ("accuracy",)
    splitting: Splitting = "punctuation"  # of texts into words
    threshold: float | None = (
        None  # with two labels, the probability from which a word is marked; None: one half
    )
    every_score: bool = False  # whether the table has the probability of each label
    texts: tuple[tuple[str, ...], ...] = WORDS
    label: tuple[str, ...] = ("tag", "tags", "labels")
    formats: tuple[str, ...] = FORMATS

    @property
    @override
    def label_names(self) -> tuple[str, ...]:
        return self.labels

    @override
    def with_options(self, options: TaskOptions) -> Self:
        if len(options.text_column) > 1:
            fix = "Name the column of the tags with `label_column`"
            raise ConfigError("only one column has the words", key="text_column", fix=fix)
        return super().with_options(options)

    @override
    def read(self, path: Path, labelled: bool = True) -> Split:
        absent = CORRECT if self.scheme == "errors" else OUTSIDE
        columns = TagColumns(
            word=tuple(names[0] for names in self.texts),
            tag=self.label,
            header=self.header,
            absent=absent,
            is_entity=lambda tag: is_entity_tag(tag) or tag in self.labels,
            entities=self.scheme == "entities",
            split=self.splitting,
            split_in=tuple(names[0] for names in (*WORDS, *(self.texts if self.usual_texts else ()))),
            skip_unlabelled=self.skip_unlabelled,
        )
        return read_sentences(path, columns, labelled)

    @override
    def fit(self, examples: Sequence[Example]) -> WordTagging:
        counts = Counter(tag for example in examples for tag in example.gold or ())
        scheme = self.scheme
        if scheme == "auto":
            entities = all(map(is_entity_tag, counts)) and any(map(is_outside, counts))
            scheme = "entities" if entities else "words"
        if scheme == "entities":
            _refuse_other_tags(examples)
        tags = complete_tags(counts) if scheme == "entities" else tuple(sorted(counts))
        labels, default = self.labels or tags, _default(scheme, counts)
        fitted = replace(
            self,
            scheme=scheme,
            labels=labels,
            metrics=SCORES[scheme],
            default=default,
            splitting=infer_splitting(word for example in examples for word in example.texts),
        )
        classes = [number for example in examples for number in fitted.gold_classes(example)]
        if len(set(classes)) < 2:
            problem = f"every word has the label {next(iter(counts))!r}: nothing to learn"
            raise DataError(problem, where=file_of(examples), fix="Check `label_column`")
        return replace(fitted, weights=balanced_weights(classes, len(labels)) if self.balanced else ())

    @override
    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> WordTagging:
        default, saved = config.get(DEFAULT, OUTSIDE), config.get(SPLITTING)
        splitting = next((splitting for splitting in SPLITTINGS if splitting == saved), self.splitting)
        default = default if default in labels else labels[0]
        return replace(self, labels=labels, default=default, splitting=splitting)

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        splitting = {} if self.splitting == "punctuation" else {SPLITTING: self.splitting}
        return {DEFAULT: self.default, **splitting}

    @property
    def marked(self) -> str | None:
        """The label to which a threshold applies: the one of two that is not the default; else None."""
        others = [label for label in self.labels if label != self.default]
        return others[0] if len(self.labels) == 2 and len(others) == 1 else None

    @property
    @override
    def rule(self) -> str:
        if self.threshold is None:
            return ""
        return f"a word is {self.marked!r} if its probability is at least {self.threshold:g}"

    @override
    def at_threshold(self, threshold: float) -> Self:
        if self.marked is None:
            problem = f"a threshold needs a model with two labels; this one has {len(self.labels)}"
            raise ConfigError(problem, key="threshold", fix="Leave it out")
        if not 0 <= threshold <= 1:
            raise ConfigError(f"must be a probability from 0 to 1, not {threshold:g}", key="threshold")
        return replace(self, threshold=threshold)

    @override
    def with_every_score(self) -> Self:
        return replace(self, every_score=True)

    @override
    def can_score(self, example: Example) -> bool:
        return all(tag in self.labels for tag in example.gold)

    @override
    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        return () if self.scheme == "errors" else tuple(tag for tag in example.gold if tag not in self.labels)

    @override
    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return tally_labels(self.labels, (tag for example in examples for tag in example.gold))

    def gold_class(self, example: Example, position: int) -> int:
        """Returns the number of a word's gold tag, or NO_TARGET if it is unseen.

        Raises:
            DataError: the tag is neither c nor i, in error detection.
        """
        tag = example.gold[position]
        if tag not in self.labels and self.scheme == "errors":
            problem = f"unknown label {tag!r} of the word {example.texts[position]!r}"
            raise DataError(problem, where=example.where, fix=nearest(tag, list(self.labels)))
        return self.labels.index(tag) if tag in self.labels else NO_TARGET

    def gold_classes(self, example: Example) -> list[int]:
        """Returns the numbers of the gold tags of all words."""
        return [self.gold_class(example, position) for position in range(len(example.texts))]

    @override
    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        labelled = all(example.gold is not None for example in examples)
        windows: list[WordWindow] = []
        targets: list[Ids] = []
        owners: list[int] = []
        num_dropped = num_long = 0
        for number, example in enumerate(examples):
            pieces = Pieces.of(example.texts, tokens)
            cuts = list(pieces.windows(max_length, self.stride))
            gold = np.array(self.gold_classes(example) if labelled else [0] * len(example.texts), np.int64)
            for window in cuts:
                row = np.full(len(window.ids), NO_TARGET, np.int64)
                row[window.positions] = gold[window.words]
                targets.append(row)
            windows += cuts
            owners += [number] * len(cuts)
            num_dropped += len(example.texts) - len(pieces.words)
            num_long += len(cuts) > 1
        if train and not windows:
            raise DataError("the tokenizer drops every word", where=examples[0].where)
        entities = labelled and self.scheme == "entities"
        num_invalid = sum(count_invalid(example.gold) for example in examples) if entities else 0
        notes = {
            f"sentences longer than {max_length} tokens, read in several windows": num_long,
            f"words that the tokenizer drops, predicted as {self.default!r}": num_dropped,
            "invalid tags, read as conlleval reads them": num_invalid,
        }
        return Windows(
            input_ids=[window.ids for window in windows],
            token_type_ids=[np.zeros(len(window.ids), np.int64) for window in windows],
            example=np.array(owners, np.int64),
            targets=targets if labelled else None,
            token_targets=True,
            context=windows,
            notes=nonzero_notes(notes),
        )

    @override
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return cross_entropy(logits.flatten(0, 1), targets.flatten(), self.weights)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns probabilities [words, labels]."""
        default = np.eye(len(self.labels), dtype=np.float32)[self.labels.index(self.default)]
        predictions = [np.tile(default, (len(example.texts), 1)) for example in examples]
        for logits, owner, window in zip(outputs, windows.example, windows.context, strict=True):
            predictions[owner][window.words] = softmax(logits[window.positions])
        return predictions

    def tags(self, prediction: npt.NDArray[np.float32]) -> list[str]:
        """Returns the predicted tag of each word."""
        return [self.labels[i] for i in self._classes(prediction)]

    def _classes(self, prediction: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        if self.threshold is None or self.marked is None:
            return np.asarray(prediction.argmax(-1), np.int64)
        marked = self.labels.index(self.marked)
        return np.where(prediction[:, marked] >= self.threshold, marked, 1 - marked).astype(np.int64)

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted = [self.tags(prediction) for prediction in predictions]
        gold = [list(example.gold) for example in examples]
        index = number_labels(self.labels, (tag for tags in gold for tag in tags))
        predicted_N, gold_N = (
            np.array([index[tag] for tags in rows for tag in tags]) for rows in (predicted, gold)
        )
        if self.scheme == "errors":
            marked, wrong = predicted_N == index[INCORRECT], gold_N == index[INCORRECT]
            counts = int((marked & wrong).sum()), int(marked.sum()), int(wrong.sum())
            betas = {"f0_5": 0.5, "precision": 0.0, "recall": float("inf")}
            return {name: f_score(*counts, beta, "incorrect word") for name, beta in betas.items()}
        scores = entity_scores(predicted, gold) if self.scheme == "entities" else {}
        return {name: scores.get(name) or METRICS[name](predicted_N, gold_N) for name in self.metrics}

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """Returns one row per word, with its label's probability and, if split from a text, its offsets."""
        spans = any(example.spans for example in examples)
        names = [f"p({label})" for label in self.labels] if self.every_score else []
        rows = [("id", "word", *(("start", "end") if spans else ()), "label", "p", *names)]
        for example, prediction in zip(examples, predictions, strict=True):
            words = zip(example.texts, self._classes(prediction), strict=True)
            for position, (word, number) in enumerate(words):
                scores = prediction[position]
                span = example.spans[position] if spans else ()
                all_scores = map(float, scores) if names else ()
                rows.append(
                    (example.id, word, *span, self.labels[number], float(scores[number]), *all_scores)
                )
        return rows


class WordWindow(NamedTuple):
    """One input of the encoder."""

    ids: Ids
    words: Ids  # the numbers of the words that are scored in this window
    positions: Ids  # of each, the position of its first piece


@dataclass(frozen=True)
class Pieces:
    """The pieces of a sentence, and the first piece of each word."""

    before: Ids  # special tokens
    ids: Ids
    after: Ids
    words: Ids  # the numbers of the words that have a piece
    first: Ids  # of each, the number of its first piece

    @classmethod
    def of(cls, words: Sequence[str], tokens: Tokens) -> Pieces:
        """Tokenises the words of a sentence, joined by spaces."""
        encoding = tokens.tokenizer.encode(" ".join(words))
        inner = np.flatnonzero(~np.array(encoding.special))
        start, end = (int(inner[0]), int(inner[-1]) + 1) if len(inner) else (1, 1)
        ids = np.array(encoding.ids, np.int64)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)[start:end]
        # A space belongs to the word after it, even if it is a separate piece (which then has no characters).
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        word_of = np.searchsorted(ends, offsets[:, 0], side="right") if len(words) else np.empty(0, np.int64)
        real = np.flatnonzero(word_of < len(words))
        numbers, first = np.unique(word_of[real], return_index=True)
        return cls(ids[:start], ids[start:end], ids[end:], numbers, real[first])

    def windows(self, max_length: int, stride: int | None) -> Iterator[WordWindow]:
        """Yields windows of at most `max_length` tokens that start `stride` apart (None: half a window).

        Raises:
            ConfigError: `max_length` leaves no room for text.
        """
        before, room = len(self.before), max_length - len(self.before) - len(self.after)
        if room < 1:
            raise ConfigError(f"{max_length} tokens leave no room for text", key="max_length")
        overlap = max(0, room - stride) if stride else room // 2
        for start, stop, keep_from, keep_to in overlapping_windows(len(self.ids), room, overlap):
            kept = np.flatnonzero((self.first >= keep_from) & (self.first < keep_to))
            if len(kept):
                ids = np.concatenate([self.before, self.ids[start:stop], self.after])
                yield WordWindow(ids, self.words[kept], self.first[kept] - start + before)


def _refuse_other_tags(examples: Sequence[Example]) -> None:
    """Raises DataError for tags of another scheme (numbers, types alone), which would be read as entities."""
    for example in examples:
        for tag in example.gold:
            if is_entity_tag(tag):
                continue
            problem, fix = f"{tag!r} is not a BIO or BIOES tag", "Write B-TYPE, I-TYPE and O (also E-, S-)"
            if is_number(tag):
                problem = f"the tags are numbers such as {tag}, and the file has no names for them"
                fix = "Write their names (B-TYPE, I-TYPE, O); parquet files of the datasets library have them"
            fix += ", or use `task` tagging to score each tag by itself"
            raise DataError(problem, where=example.where, fix=fix)


def _default(scheme: Scheme, counts: Counter[str]) -> str:
    if scheme == "errors":
        return CORRECT
    outside = next((tag for tag in counts if is_outside(tag)), None) if scheme == "entities" else None
    return outside or counts.most_common(1)[0][0]
