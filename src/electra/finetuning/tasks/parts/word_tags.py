"""Tagging: the words of a sentence -> a tag for each.

A word's tag is read at its first piece, found by character offsets, so any tokenizer will do; the other
pieces have none. A sentence longer than the model's input is read in overlapping windows, and each word is
learned and judged in one of them, where it has most context on its poorer side. A word that the tokenizer
drops (a control character, say) is counted, predicted as the commonest tag ("O" for entities, where it
occurs), and scored. Departure from the published code, which truncates long sentences and leaves what is cut
out of the score.
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

from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.tagged_sentences import (
    CORRECT,
    FORMATS,
    INCORRECT,
    TagColumns,
    is_number,
    read_sentences,
)
from electra.finetuning.labelled.words import SPLITTINGS, Splitting, splitting_of
from electra.finetuning.metrics.entities import (
    OUTSIDE,
    broken,
    completed,
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
    counted_labels,
    counted_notes,
    file_of,
    label_numbers,
    softmax,
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
    head: ClassVar[HeadKind] = "tagger"

    # words: each label by itself; entities: BIO or BIOES; errors: c and i; auto: found in training data
    scheme: Scheme = "auto"
    labels: tuple[str, ...] = ()  # in the order of the classes; () = found in training data
    default: str = ""  # of words that have no piece
    metrics: tuple[str, ...] = ("accuracy",)
    splitting: Splitting = "punctuation"  # of texts into words
    threshold: float | None = None  # probability from which a word of two classes is marked; None: one half
    every_score: bool = False  # the table has the probability of each label
    texts: tuple[tuple[str, ...], ...] = WORDS
    label: tuple[str, ...] = ("tag", "tags", "labels")
    formats: tuple[str, ...] = FORMATS

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.labels

    def with_options(self, options: TaskOptions) -> Self:
        if len(options.text_column) > 1:
            fix = "Name that of the tags with `label_column`"
            raise ConfigError("the words are in one column", key="text_column", fix=fix)
        return super().with_options(options)

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

    def fit(self, examples: Sequence[Example]) -> WordTagging:
        counts = Counter(tag for example in examples for tag in example.gold or ())
        scheme = self.scheme
        if scheme == "auto":
            scheme = (
                "entities" if all(map(is_entity_tag, counts)) and any(map(is_outside, counts)) else "words"
            )
        if scheme == "entities":
            _refuse_other_tags(examples)
        found = completed(counts) if scheme == "entities" else tuple(sorted(counts))
        labels, default = self.labels or found, _default(scheme, counts)
        fitted = replace(
            self,
            scheme=scheme,
            labels=labels,
            metrics=SCORES[scheme],
            default=default,
            splitting=splitting_of(word for example in examples for word in example.texts),
        )
        classes = [number for example in examples for number in fitted.gold_classes(example)]
        if len(set(classes)) < 2:
            what = f"every word has the label {next(iter(counts))!r}: nothing to learn"
            raise DataError(what, where=file_of(examples), fix="Check `label_column`")
        return replace(fitted, weights=balanced_weights(classes, len(labels)) if self.balanced else ())

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> WordTagging:
        default, known = config.get(DEFAULT, OUTSIDE), config.get(SPLITTING)
        splitting = next((how for how in SPLITTINGS if how == known), self.splitting)
        default = default if default in labels else labels[0]
        return replace(self, labels=labels, default=default, splitting=splitting)

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        own = {} if self.splitting == "punctuation" else {SPLITTING: self.splitting}
        return {DEFAULT: self.default, **own}

    @property
    def marked(self) -> str | None:
        """Of two labels the one that a threshold is for: not the default; None where there are more."""
        others = [label for label in self.labels if label != self.default]
        return others[0] if len(self.labels) == 2 and len(others) == 1 else None

    @property
    def rule(self) -> str:
        if self.threshold is None:
            return ""
        return f"a word is {self.marked!r} where the probability of that is {self.threshold:g} or more"

    def at_threshold(self, threshold: float) -> Self:
        if self.marked is None:
            what = f"this model has {len(self.labels)} labels, and a threshold is for two"
            raise ConfigError(what, key="threshold", fix="Leave it out")
        if not 0 <= threshold <= 1:
            raise ConfigError(f"must be a probability from 0 to 1, not {threshold:g}", key="threshold")
        return replace(self, threshold=threshold)

    def with_every_score(self) -> Self:
        return replace(self, every_score=True)

    def knows(self, example: Example) -> bool:
        return all(tag in self.labels for tag in example.gold)

    def unlearned(self, example: Example) -> tuple[str, ...]:
        return () if self.scheme == "errors" else tuple(tag for tag in example.gold if tag not in self.labels)

    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return counted_labels(self.labels, (tag for example in examples for tag in example.gold))

    def gold_class(self, example: Example, place: int) -> int:
        tag = example.gold[place]
        if tag not in self.labels and self.scheme == "errors":
            what = f"unknown label {tag!r} of the word {example.texts[place]!r}"
            raise DataError(what, where=example.where, fix=nearest(tag, list(self.labels)))
        return self.labels.index(tag) if tag in self.labels else NO_TARGET

    def gold_classes(self, example: Example) -> list[int]:
        return [self.gold_class(example, place) for place in range(len(example.texts))]

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        labelled = all(example.gold is not None for example in examples)
        windows: list[WordWindow] = []
        targets: list[Ids] = []
        owners: list[int] = []
        silent = long = 0
        for number, example in enumerate(examples):
            pieces = Pieces.of(example.texts, tokens)
            made = list(pieces.windows(max_length, self.stride))
            gold = np.array(self.gold_classes(example) if labelled else [0] * len(example.texts), np.int64)
            for window in made:
                row = np.full(len(window.ids), NO_TARGET, np.int64)
                row[window.places] = gold[window.words]
                targets.append(row)
            windows += made
            owners += [number] * len(made)
            silent += len(example.texts) - len(pieces.words)
            long += len(made) > 1
        if train and not windows:
            raise DataError("the tokenizer drops every word", where=examples[0].where)
        entities = labelled and self.scheme == "entities"
        odd = sum(broken(example.gold) for example in examples) if entities else 0
        notes = {
            f"sentences are longer than {max_length} tokens and are read in several windows": long,
            f"words have no piece; they are predicted as {self.default!r}": silent,
            "tags do not follow from the one before them; they are read as conlleval reads them": odd,
        }
        return Windows(
            input_ids=[window.ids for window in windows],
            token_type_ids=[np.zeros(len(window.ids), np.int64) for window in windows],
            example=np.array(owners, np.int64),
            targets=targets if labelled else None,
            token_targets=True,
            context=windows,
            notes=counted_notes(notes),
        )

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return cross_entropy(logits.flatten(0, 1), targets.flatten(), self.weights)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Probabilities [words, labels]."""
        certain = np.eye(len(self.labels), dtype=np.float32)[self.labels.index(self.default)]
        found = [np.tile(certain, (len(example.texts), 1)) for example in examples]
        for logits, owner, window in zip(outputs, windows.example, windows.context, strict=True):
            found[owner][window.words] = softmax(logits[window.places])
        return found

    def tags(self, prediction: npt.NDArray[np.float32]) -> list[str]:
        return [self.labels[i] for i in self._classes(prediction)]

    def _classes(self, prediction: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        if self.threshold is None or self.marked is None:
            return np.asarray(prediction.argmax(-1), np.int64)
        marked = self.labels.index(self.marked)
        return np.where(prediction[:, marked] >= self.threshold, marked, 1 - marked).astype(np.int64)

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted = [self.tags(prediction) for prediction in predictions]
        gold = [list(example.gold) for example in examples]
        index = label_numbers(self.labels, (tag for tags in gold for tag in tags))
        ours, theirs = (np.array([index[tag] for tags in rows for tag in tags]) for rows in (predicted, gold))
        if self.scheme == "errors":
            marked, wrong = ours == index[INCORRECT], theirs == index[INCORRECT]
            counts = int((marked & wrong).sum()), int(marked.sum()), int(wrong.sum())
            betas = {"f0_5": 0.5, "precision": 0.0, "recall": float("inf")}
            return {name: f_score(*counts, beta, "incorrect word") for name, beta in betas.items()}
        scores = entity_scores(predicted, gold) if self.scheme == "entities" else {}
        return {name: scores.get(name) or METRICS[name](ours, theirs) for name in self.metrics}

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """One row a word, with the probability of its label; of words that were split from a text, where they
        stand in it.
        """
        spans = any(example.spans for example in examples)
        names = [f"p({label})" for label in self.labels] if self.every_score else []
        rows = [("id", "word", *(("start", "end") if spans else ()), "label", "p", *names)]
        for example, prediction in zip(examples, predictions, strict=True):
            for place, (word, number) in enumerate(
                zip(example.texts, self._classes(prediction), strict=True)
            ):
                scores = prediction[place]
                at = example.spans[place] if spans else ()
                every = map(float, scores) if names else ()
                rows.append((example.id, word, *at, self.labels[number], float(scores[number]), *every))
        return rows


class WordWindow(NamedTuple):
    """One input of the encoder."""

    ids: Ids
    words: Ids  # the words judged here
    places: Ids  # of each, its first piece


@dataclass(frozen=True)
class Pieces:
    """A sentence in pieces, and where its words begin."""

    before: Ids  # special tokens
    ids: Ids
    after: Ids
    words: Ids  # the words that have a piece
    first: Ids  # of each, the first of its pieces

    @classmethod
    def of(cls, words: Sequence[str], tokens: Tokens) -> Pieces:
        encoding = tokens.tokenizer.encode(" ".join(words))
        inner = np.flatnonzero(~np.array(encoding.special))
        start, end = (int(inner[0]), int(inner[-1]) + 1) if len(inner) else (1, 1)
        ids = np.array(encoding.ids, np.int64)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)[start:end]
        # A space belongs to the word after it, also where it is a piece of its own (of no characters then).
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        word_of = np.searchsorted(ends, offsets[:, 0], side="right") if len(words) else np.empty(0, np.int64)
        real = np.flatnonzero(word_of < len(words))
        found, place = np.unique(word_of[real], return_index=True)
        return cls(ids[:start], ids[start:end], ids[end:], found, real[place])

    def windows(self, max_length: int, stride: int | None) -> Iterator[WordWindow]:
        before, room = len(self.before), max_length - len(self.before) - len(self.after)
        if room < 1:
            raise ConfigError(f"{max_length} tokens leave no room for text", key="max_length")
        overlap = max(0, room - stride) if stride else room // 2
        for start, stop, keep_from, keep_to in overlapping_windows(len(self.ids), room, overlap):
            here = np.flatnonzero((self.first >= keep_from) & (self.first < keep_to))
            if len(here):
                ids = np.concatenate([self.before, self.ids[start:stop], self.after])
                yield WordWindow(ids, self.words[here], self.first[here] - start + before)


def _refuse_other_tags(examples: Sequence[Example]) -> None:
    """Tags of another scheme (numbers, types alone) would make entities that nobody meant."""
    for example in examples:
        for tag in example.gold:
            if is_entity_tag(tag):
                continue
            what, fix = (
                f"the tag {tag!r} is neither BIO nor BIOES",
                "Write B-TYPE, I-TYPE and O (also E-, S-)",
            )
            if is_number(tag):
                what = f"the tags are numbers such as {tag}, and the file has no names for them"
                fix = "Write their names (B-TYPE, I-TYPE, O; parquet of the datasets library has them)"
            fix += ", or use `task` tagging to score single tags"
            raise DataError(what, where=example.where, fix=fix)


def _default(scheme: Scheme, counts: Counter[str]) -> str:
    if scheme == "errors":
        return CORRECT
    outside = next((tag for tag in counts if is_outside(tag)), None) if scheme == "entities" else None
    return outside or counts.most_common(1)[0][0]
