"""Tagging: predicts a tag for each word of a sentence.

A word's tag is predicted at its first token, found by character offsets, so any tokenizer works; its other
tokens have no target. A sentence longer than the model's input is read in overlapping windows, and each word
is trained and scored only in the window where it has the most context on its shorter side. A word that the
tokenizer drops (such as a control character) is reported and scored; its predicted tag is "O" for entities,
"c" in error detection, and otherwise the most frequent tag. Departure: the published code truncates long
sentences and does not score the words that it removes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from torch import Tensor
from typing_extensions import override

from electra.artifacts.model_files import CONFIG
from electra.data.tables.table_files import Data
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.tagged_sentences import FORMATS, WORD_COLUMNS, SentenceReader
from electra.finetuning.labelled.word_splitting import (
    SPLITTINGS,
    Spans,
    Splitting,
    are_words,
    infer_splitting,
)
from electra.finetuning.score.entities import OUTSIDE, complete_tags, entity_scores, is_entity_tag, is_outside
from electra.finetuning.score.metrics import METRICS, Score, f_score
from electra.finetuning.score.transitions import Transitions, best_sequence, count_transitions
from electra.finetuning.task import (
    Cell,
    HeadKind,
    Outputs,
    Task,
    balanced_weights,
    cross_entropy,
    file_of,
    index_labels,
    nonzero_notes,
    nothing_to_learn,
    probability,
)
from electra.finetuning.windows.features import NO_TARGET, Ids, Tokens, Windows
from electra.foundation.errors import ConfigError, DataError, ModelError, nearest
from electra.inference.detection import overlapping_windows

CORRECT, INCORRECT = "c", "i"  # labels of words in error detection
# keys in a saved model's config.json
DEFAULT_KEY, SPLITTING_KEY, TRANSITIONS_KEY = "default_label", "word_splitting", "tag_transitions"
Scheme = Literal["words", "entities", "errors", "auto"]
METRICS_OF_SCHEME: dict[Scheme, tuple[str, ...]] = {
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

    # "words": independent labels; "entities": BIO or BIOES; "errors": c and i; "auto": entities if the
    # training data has BIO or BIOES tags, else words
    scheme: Scheme = "auto"
    default: str = ""  # the prediction for words that the tokenizer drops
    metrics: tuple[str, ...] = ("accuracy",)
    splitting: Splitting = "punctuation"  # how texts are split into words
    threshold: float | None = None  # with two labels, the minimum probability of `marked`; None: one half
    as_written: bool = False  # whether words of a text are read with its spaces, not with one each
    transitions: Transitions = ()  # of entity tags; (): each word gets its most probable tag
    every_score: bool = False  # whether `table` has the probability of each label
    texts: tuple[tuple[str, ...], ...] = tuple((name,) for name in WORD_COLUMNS)
    label: tuple[str, ...] = ("tag", "tags", "labels")
    formats: tuple[str, ...] = FORMATS

    @override
    def read(self, path: Data, labelled: bool = True) -> Split:
        return self._reader(path, labelled).read()

    @override
    def in_file(self, source: Data, predictions: Sequence[Any], examples: Sequence[Example]) -> bytes:
        tags = [tag for prediction in predictions for tag in self.tags(prediction)]
        are_entities = all(map(is_entity_tag, self.labels))
        label = tuple(name for name in self.label if name != "UPOS" or not are_entities)
        return replace(self, label=label)._reader(source, labelled=False).with_tags(tags)

    def _reader(self, path: Data, labelled: bool) -> SentenceReader:
        return SentenceReader(
            path,
            labelled,
            word=tuple(names[0] for names in self.texts),
            tag=self.label,
            header=self.header,
            split=self.splitting,
            skip_unlabelled=self.skip_unlabelled,
            entities={"entities": True, "words": False}.get(self.scheme),
            makes_up=labelled and self.scheme == "errors",
        )

    @override
    def fit(self, examples: Sequence[Example]) -> WordTagging:
        counts = Counter(tag for example in examples for tag in example.gold or ())
        scheme, default = self.scheme, CORRECT
        if scheme == "auto":
            has_entities = all(map(is_entity_tag, counts)) and any(map(is_outside, counts))
            scheme = "entities" if has_entities else "words"
        if piece := next((tag for tag in counts if re.match(r"\[['\"]|['\"].*['\"],$", tag)), None):
            problem, fix = f"{piece!r} is a piece of a printed list", "Write lists as JSON lines (.jsonl)"
            raise DataError(problem, where=file_of(examples), fix=fix)
        if is_entities := scheme == "entities":
            _require_entity_tags(examples)
        pairs = (pair for example in examples for pair in zip(example.texts, example.gold, strict=True))
        if scheme == "words" and are_words(pairs):
            problem, fix = f"the {len(counts):,} tags are words, such as lemmas", "Check `label_column`"
            raise DataError(problem, where=file_of(examples), fix=fix)
        if scheme != "errors":
            outside_tag = next(filter(is_outside, counts), None) if is_entities else None
            default = outside_tag or counts.most_common(1)[0][0]
        fitted = replace(
            self,
            scheme=scheme,
            labels=self.labels or (complete_tags(counts) if is_entities else tuple(sorted(counts))),
            metrics=METRICS_OF_SCHEME[scheme],
            default=default,
            splitting=infer_splitting(word for example in examples for word in example.texts),
        )
        rows = [fitted.gold_classes(example) for example in examples]
        if is_entities:
            fitted = replace(fitted, transitions=count_transitions(rows, len(fitted.labels)))
        classes = [*chain(*rows)]
        if len(set(classes)) < 2:
            raise nothing_to_learn(f"every word has the label {next(iter(counts))!r}", examples)
        return replace(fitted, weights=balanced_weights(classes, len(fitted.labels)) if self.balanced else ())

    @override
    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> WordTagging:
        default = config.get(DEFAULT_KEY, OUTSIDE)
        splittings = [name for name in SPLITTINGS if name == config.get(SPLITTING_KEY)]
        return replace(
            self,
            labels=labels,
            default=default if default in labels else labels[0],
            transitions=_read_transitions(config.get(TRANSITIONS_KEY, []), len(labels)),
            splitting=splittings[0] if splittings else self.splitting,
        )

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        splitting = {} if self.splitting == "punctuation" else {SPLITTING_KEY: self.splitting}
        transitions = {TRANSITIONS_KEY: self.transitions} if self.transitions else {}
        return {DEFAULT_KEY: self.default, **splitting, **transitions}

    @property
    def marked(self) -> str | None:
        """The label that a threshold applies to: the one of two labels that is not the default; else None."""
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
            raise ConfigError(problem, key="threshold", fix="Omit it")
        return replace(self, threshold=probability(threshold))

    @override
    def with_every_score(self) -> Self:
        return replace(self, every_score=True)

    @override
    def can_score(self, example: Example) -> bool:
        return all(tag in self.labels for tag in example.gold)

    @override
    def gold_names(self, example: Example) -> tuple[str, ...]:
        return tuple(example.gold)

    @override
    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        return () if self.scheme == "errors" else super().unseen_labels(example)

    def gold_classes(self, example: Example) -> list[int]:
        """Returns the index of each word's gold tag, or NO_TARGET; DataError in GED for another tag."""
        index_of = {tag: index for index, tag in enumerate(self.labels)}
        for word, tag in zip(example.texts, example.gold, strict=True):
            if tag not in index_of and self.scheme == "errors":
                problem = f"unknown label {tag!r} of the word {word!r}"
                raise DataError(problem, where=example.where, fix=nearest(tag, list(self.labels)))
        return [index_of.get(tag, NO_TARGET) for tag in example.gold]

    @property
    def num_tags(self) -> int:
        """The number of tags, of which a word has one; its index is in `gold_tags`."""
        return len(self.labels)

    def gold_tags(self, example: Example) -> list[int]:
        """Returns the index of each word's gold tag."""
        return self.gold_classes(example)

    @override
    def featurize(self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False) -> Windows:
        labelled = all(example.gold is not None for example in examples)
        windows: list[WordWindow] = []
        targets: list[Ids] = []
        example_indices: list[int] = []
        num_dropped = num_long = 0
        for index, example in enumerate(examples):
            spans = example.spans if self.as_written else ()
            own_windows = word_windows(example.texts, tokens, max_length, self.stride, spans)
            gold = np.array(self.gold_classes(example) if labelled else [0] * len(example.texts), np.int64)
            for window in own_windows:
                row_targets = np.full((len(window.ids), *gold.shape[1:]), NO_TARGET, np.int64)
                row_targets[window.positions] = gold[window.words]
                targets.append(row_targets)
            windows += own_windows
            example_indices += [index] * len(own_windows)
            num_dropped += len(example.texts) - sum(len(window.words) for window in own_windows)
            num_long += len(own_windows) > 1
        if train and not windows:
            raise DataError("the tokenizer drops every word", where=examples[0].where)
        notes = {
            f"sentences longer than {max_length} tokens, read in several windows": num_long,
            f"words that the tokenizer drops, predicted as {self.default!r}": num_dropped,
        }
        return Windows(
            input_ids=[window.ids for window in windows],
            token_type_ids=[np.zeros(len(window.ids), np.int64) for window in windows],
            example=np.array(example_indices, np.int64),
            targets=targets if labelled else None,
            token_targets=True,
            texts=[examples[index].texts for index in example_indices],
            context=windows,
            notes=nonzero_notes(notes),
        )

    @override
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        return cross_entropy(logits.flatten(0, 1), targets.flatten(), self.weights)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns probabilities [words, labels] for each sentence; a dropped word has the default label."""
        default = self.default_prediction()
        predictions = [np.tile(default, (len(example.texts), 1)) for example in examples]
        for logits, example_index, window in zip(outputs, windows.example, windows.context, strict=True):
            scores = logits[window.positions].astype(np.float64)
            words = [examples[example_index].texts[i] for i in window.words]
            predictions[example_index][window.words] = self.from_logits(scores, words)
        return predictions

    def from_logits(self, logits: npt.NDArray[Any], words: Sequence[str]) -> npt.NDArray[Any]:
        """Returns the prediction for words [W, ...] from a head's outputs [W, O]."""
        return np.asarray(softmax(logits, axis=-1))

    def from_shares(self, shares: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the prediction for words [W, ...] from probabilities of tags [W, `num_tags`]."""
        return shares

    def default_prediction(self) -> npt.NDArray[Any]:
        """Returns the prediction for a word that the tokenizer drops."""
        return np.asarray(np.eye(len(self.labels), dtype=np.float32)[self.labels.index(self.default)])

    def tags(self, prediction: npt.NDArray[np.float32]) -> list[str]:
        """Returns the predicted tag of each word."""
        return [self.labels[index] for index in self._classes(prediction)]

    def _classes(self, prediction: npt.NDArray[np.float32]) -> list[int]:
        if self.threshold is None and self.transitions:
            return best_sequence(prediction, self.transitions)
        if self.threshold is None or self.marked is None:
            return [int(index) for index in prediction.argmax(-1)]
        marked = self.labels.index(self.marked)
        return [marked if p >= self.threshold else 1 - marked for p in prediction[:, marked]]

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        predicted, gold = [*map(self.tags, predictions)], [list(example.gold) for example in examples]
        if self.scheme == "errors":
            said = np.array([tag == INCORRECT for tag in chain(*predicted)], bool)
            wrong = np.array([tag == INCORRECT for tag in chain(*gold)], bool)
            counts = int((said & wrong).sum()), int(said.sum()), int(wrong.sum())
            betas = {"f0_5": 0.5, "precision": 0.0, "recall": float("inf")}
            return {name: f_score(*counts, beta, "incorrect word") for name, beta in betas.items()}
        index_of = index_labels(self.labels, chain(*gold))
        predicted_N = np.array([index_of[tag] for tag in chain(*predicted)])
        gold_N = np.array([index_of[tag] for tag in chain(*gold)])
        scores = entity_scores(predicted, gold) if self.scheme == "entities" else {}
        return {name: scores.get(name) or METRICS[name](predicted_N, gold_N) for name in self.metrics}

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """Returns a row per word, with its label's probability and, for words split from texts, offsets."""
        has_spans = any(example.spans for example in examples)
        every = [f"p({label})" for label in self.labels] if self.every_score else []
        rows = [("id", "word", *(("start", "end") if has_spans else ()), "label", "p", *every)]
        for example, prediction in zip(examples, predictions, strict=True):
            spans = example.spans if has_spans else [()] * len(example.texts)
            columns = example.texts, spans, self._classes(prediction), prediction
            for word, span, index, probabilities in zip(*columns, strict=True):
                scores = map(float, probabilities) if every else ()
                p = float(probabilities[index])
                rows.append((example.id, word, *span, self.labels[index], p, *scores))
        return rows


class WordWindow(NamedTuple):
    """One input of the encoder, and the words that are scored in it."""

    ids: Ids
    words: Ids  # the indices of the words that are scored in this window
    positions: Ids  # the position in `ids` of the first token of each of these words
    ends: Ids  # the position behind its last token, or behind the text in this window


def word_windows(
    words: Sequence[str], tokens: Tokens, max_length: int, stride: int | None = None, spans: Spans = ()
) -> list[WordWindow]:
    """Returns windows of a sentence, of at most `max_length` tokens, without those that score no word.

    The words are joined by spaces, or lie at the places `spans` of a text. Windows are `stride` tokens apart
    (None: half a window). Raises ConfigError if the length leaves no room for text.
    """
    ends = np.array([end for _, end in spans] if spans else np.cumsum([len(word) + 1 for word in words]) - 1)
    lengths = np.diff(ends, prepend=0 if spans else -1)
    text = "".join(word.rjust(length) for word, length in zip(words, lengths, strict=True))
    encoding = tokens.tokenizer.encode(text if spans else text[1:])
    text_positions = np.flatnonzero(~np.array(encoding.special))
    start, end = (int(text_positions[0]), int(text_positions[-1]) + 1) if len(text_positions) else (1, 1)
    before, ids, after = np.split(np.array(encoding.ids, np.int64), [start, end])
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)[start:end]
    # A space belongs to the word after it, even if it is a token of its own.
    word_of = np.searchsorted(ends, offsets[:, 0], side="right") if len(words) else np.empty(0, np.int64)
    positions_in_words = np.flatnonzero(word_of < len(words))
    word_indices, first = np.unique(word_of[positions_in_words], return_index=True)
    first = positions_in_words[first]
    last = np.append(first[1:], len(positions_in_words) and positions_in_words[-1] + 1)[: len(first)]
    room = max_length - len(before) - len(after)
    if room < 1:
        raise ConfigError(f"{max_length} tokens leave no room for text", key="max_length")
    overlap = max(0, room - stride) if stride else room // 2
    windows = []
    for start, stop, keep_from, keep_to in overlapping_windows(len(ids), room, overlap):
        scored = np.flatnonzero((first >= keep_from) & (first < keep_to))
        if len(scored):
            window = np.concatenate([before, ids[start:stop], after])
            places = [ends[scored] - start + len(before) for ends in (first, np.minimum(last, stop))]
            windows.append(WordWindow(window, word_indices[scored], *places))
    return windows


def _read_transitions(rows: Any, num_labels: int) -> Transitions:
    """Returns the transitions of a saved model; ModelError if they are not of its labels."""
    for row in rows if isinstance(rows, list) else [rows]:
        is_row = isinstance(row, list) and len(row) == 3 and all(type(number) is int for number in row)
        if not is_row or min(row) < 0 or max(row[:2]) > num_labels:
            problem = f"{row!r} is not [label, next label, count] with numbers of labels"
            raise ModelError(problem, where=CONFIG, key=TRANSITIONS_KEY, fix="Fix or remove it")
    return tuple((before, after, count) for before, after, count in rows)


def _require_entity_tags(examples: Sequence[Example]) -> None:
    """Raises DataError for a tag that is not an entity tag, such as a number, a bare type or several tags."""
    seen = {tag: example for example in reversed(examples) for tag in reversed(example.gold)}
    for tag, example in reversed(seen.items()):
        if joined := re.match(r"[^|;,/+]+([|;,/+])(O\b|[BIESLUM][-_])", tag):
            problem = f"{tag!r} has several tags, as of nested entities; a word has one"
            fix = f"Keep the first: sed -E 's/(\\t[^\\t]*)[{joined[1]}].*/\\1/' FILE"
            raise DataError(problem, where=example.where, fix=fix)
        if not is_entity_tag(tag):
            fix = "Write B-TYPE, I-TYPE and O (also E-, S-), names instead of numbers"
            fix += "; or use `task` tagging to score each tag by itself"
            raise DataError(f"{tag!r} is not a BIO or BIOES tag", where=example.where, fix=fix)
