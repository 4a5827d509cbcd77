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
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from electra.errors import ConfigError, DataError, nearest
from electra.finetuning.entities import OUTSIDE, broken, entity_scores, is_entity_tag
from electra.finetuning.features import NO_TARGET, Ids, Tokens, Windows
from electra.finetuning.losses import balanced_weights, cross_entropy
from electra.finetuning.metrics import METRICS, Score, f_score
from electra.finetuning.task import HeadKind, Outputs, Task
from electra.interop.detection import cut
from electra.labelled.examples import Example, Split
from electra.labelled.tagged_sentences import CORRECT, FORMATS, INCORRECT, TagColumns, read_sentences

DEFAULT = "default_label"  # in config.json of a saved model
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
    texts: tuple[tuple[str, ...], ...] = (("word",), ("token",), ("tokens",), ("words",))
    label: tuple[str, ...] = ("tag", "tags", "labels")
    formats: tuple[str, ...] = FORMATS

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.labels

    def with_options(self, options: Mapping[str, Any]) -> Self:
        if len(options.get("text_column") or ()) > 1:
            fix = "Name that of the tags with `label_column`"
            raise ConfigError("the words are in one column", key="text_column", fix=fix)
        return super().with_options(options)

    def read(self, path: Path, labelled: bool = True) -> Split:
        absent = CORRECT if self.scheme == "errors" else OUTSIDE
        words = tuple(names[0] for names in self.texts)
        return read_sentences(path, TagColumns(words, self.label, self.header, absent), labelled)

    def fit(self, examples: Sequence[Example]) -> WordTagging:
        counts = Counter(tag for example in examples for tag in example.gold or ())
        scheme = self.scheme
        if scheme == "auto":
            scheme = "entities" if all(map(is_entity_tag, counts)) and OUTSIDE in counts else "words"
        if scheme == "entities":
            _refuse_other_tags(examples)
        labels = self.labels or (
            _whole_scheme(set(counts)) if scheme == "entities" else tuple(sorted(counts))
        )
        fitted = replace(
            self, scheme=scheme, labels=labels, metrics=SCORES[scheme], default=_default(scheme, counts)
        )
        classes = [fitted.gold_class(example, i) for example in examples for i in range(len(example.texts))]
        if len(set(classes)) < 2:
            where = examples[0].where.rpartition(":")[0]
            raise DataError(
                f"every word has the label {next(iter(counts))!r}: nothing to learn",
                where=where,
                fix="Check `label_column`",
            )
        return replace(fitted, weights=balanced_weights(classes, len(labels)) if self.balanced else ())

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> WordTagging:
        default = config.get(DEFAULT, OUTSIDE)
        return replace(self, labels=labels, default=default if default in labels else labels[0])

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {DEFAULT: self.default}

    def knows(self, example: Example) -> bool:
        return all(tag in self.labels for tag in example.gold)

    def gold_class(self, example: Example, place: int) -> int:
        tag = example.gold[place]
        if tag not in self.labels:
            what = f"unknown label {tag!r} of the word {example.texts[place]!r}"
            what += "" if self.scheme == "errors" else ": it is not in the training data"
            raise DataError(what, where=example.where, fix=nearest(tag, list(self.labels)))
        return self.labels.index(tag)

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        labelled = all(example.gold is not None for example in examples)
        inputs: list[Ids] = []
        types: list[Ids] = []
        targets: list[npt.NDArray[Any]] = []
        context: list[tuple[Ids, Ids]] = []
        owners: list[int] = []
        silent = long = 0
        for number, example in enumerate(examples):
            pieces = Pieces.of(example.texts, tokens)
            silent += len(example.texts) - len(pieces.words)
            gold = (
                np.array([self.gold_class(example, i) for i in range(len(example.texts))], np.int64)
                if labelled
                else None
            )
            windows = list(pieces.windows(max_length, self.stride))
            long += len(windows) > 1
            for ids, kinds, words, places in windows:
                row = np.full(len(ids), NO_TARGET, np.int64)
                if gold is not None:
                    row[places] = gold[words]
                inputs.append(ids)
                types.append(kinds)
                targets.append(row)
                context.append((words, places))
                owners.append(number)
        if train and not inputs:
            raise DataError("the tokenizer makes nothing of any word", where=examples[0].where)
        notes = (
            [f"{long} sentences are longer than {max_length} tokens and are read in several windows"]
            if long
            else []
        )
        notes += [f"{silent} words have no piece; they are predicted as {self.default!r}"] if silent else []
        notes += self._broken_tags(examples) if labelled and self.scheme == "entities" else []
        owner = np.array(owners, np.int64)
        return Windows(
            inputs,
            types,
            owner,
            targets if labelled else None,
            token_targets=True,
            context=context,
            notes=tuple(notes),
        )

    def _broken_tags(self, examples: Sequence[Example]) -> list[str]:
        count = sum(broken(example.gold) for example in examples)
        return (
            [f"{count} tags do not follow from the one before them; they are read as conlleval reads them"]
            if count
            else []
        )

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return cross_entropy(logits.flatten(0, 1), targets.flatten(), self.weights)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Probabilities [words, labels]."""
        certain = np.eye(len(self.labels), dtype=np.float32)[self.labels.index(self.default)]
        found = [np.tile(certain, (len(example.texts), 1)) for example in examples]
        for logits, owner, (words, places) in zip(outputs, windows.example, windows.context, strict=True):
            chosen = logits[places].astype(np.float64)
            exponentials = np.exp(chosen - chosen.max(-1, keepdims=True))
            found[owner][words] = exponentials / exponentials.sum(-1, keepdims=True)
        return found

    def tags(self, prediction: npt.NDArray[np.float32]) -> list[str]:
        return [self.labels[i] for i in prediction.argmax(-1)]

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted = [self.tags(prediction) for prediction in predictions]
        gold = [list(example.gold) for example in examples]
        ours, theirs = (
            np.array([self.labels.index(tag) for tags in rows for tag in tags]) for rows in (predicted, gold)
        )
        if self.scheme == "errors":
            marked, wrong = ours == self.labels.index(INCORRECT), theirs == self.labels.index(INCORRECT)
            counts = int((marked & wrong).sum()), int(marked.sum()), int(wrong.sum())
            betas = {"f0_5": 0.5, "precision": 0.0, "recall": float("inf")}
            return {name: f_score(*counts, beta, "incorrect word") for name, beta in betas.items()}
        scores = entity_scores(predicted, gold) if self.scheme == "entities" else {}
        return {
            name: scores[name] if name in scores else METRICS[name](ours, theirs) for name in self.metrics
        }

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[str, ...]]:
        """One row a word, with the probability of its label."""
        rows = [
            (example.id, word, tag, format(p, ".6g"))
            for example, prediction in zip(examples, predictions, strict=True)
            for word, tag, p in zip(example.texts, self.tags(prediction), prediction.max(-1), strict=True)
        ]
        return [("id", "word", "label", "p"), *rows]


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
        special = np.array(encoding.special)
        inner = np.flatnonzero(~special)
        start, end = (int(inner[0]), int(inner[-1]) + 1) if len(inner) else (1, 1)
        ids = np.array(encoding.ids, np.int64)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)[start:end]
        # a space belongs to the word after it: tokenizers that keep spaces put them at the beginning of a
        # piece
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        word_of = np.searchsorted(ends, offsets[:, 0], side="right") if len(words) else np.empty(0, np.int64)
        real = np.flatnonzero((offsets[:, 1] > offsets[:, 0]) & (word_of < len(words)))
        found, place = np.unique(word_of[real], return_index=True)
        return cls(ids[:start], ids[start:end], ids[end:], found, real[place])

    def windows(self, max_length: int, stride: int | None) -> Iterator[tuple[Ids, Ids, Ids, Ids]]:
        """(ids, token types, words judged here, the place of each) of each window."""
        room = max_length - len(self.before) - len(self.after)
        if room < 1:
            raise ConfigError(f"{max_length} tokens leave no room for text", key="max_length")
        overlap = max(0, room - stride) if stride else room // 2
        for start, stop, keep_from, keep_to in cut(len(self.ids), room, overlap):
            here = np.flatnonzero((self.first >= keep_from) & (self.first < keep_to))
            if len(here):
                ids = np.concatenate([self.before, self.ids[start:stop], self.after])
                yield (
                    ids,
                    np.zeros(len(ids), np.int64),
                    self.words[here],
                    self.first[here] - start + len(self.before),
                )


def _whole_scheme(found: set[str]) -> tuple[str, ...]:
    """The labels of the data, completed: each type with each prefix that occurs, so that a rare tag of the
    dev set is no surprise.
    """
    kinds = {tag[2:] for tag in found if "-" in tag}
    prefixes = {tag[0] for tag in found if "-" in tag}
    made = {f"{prefix}-{kind}" for prefix in prefixes for kind in kinds}
    return tuple(sorted(made | found, key=lambda tag: (tag != OUTSIDE, tag[2:], tag)))


def _refuse_other_tags(examples: Sequence[Example]) -> None:
    """Tags of another scheme (numbers, BILOU) would make entities that nobody meant."""
    other = next(
        ((tag, example) for example in examples for tag in example.gold if not is_entity_tag(tag)), None
    )
    if other:
        fix = "Write B-TYPE, I-TYPE and O (also E-, S-); or score each tag by itself with `task` tagging"
        raise DataError(f"the tag {other[0]!r} is neither BIO nor BIOES", where=other[1].where, fix=fix)


def _default(scheme: Scheme, counts: Counter[str]) -> str:
    if scheme == "errors":
        return CORRECT
    return OUTSIDE if scheme == "entities" and OUTSIDE in counts else counts.most_common(1)[0][0]
