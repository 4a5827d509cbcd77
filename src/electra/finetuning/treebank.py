"""The annotation of a treebank: UPOS, XPOS, FEATS and LEMMA of each word, from one encoder.

The head has a softmax for UPOS, one for each position of XPOS and one for each attribute of FEATS, whose
losses are added. A word gets one of the analyses (UPOS, XPOS, FEATS) that the training data has: the one with
the highest weighted sum of their log probabilities and of those of the analysis among all words and among
words of that form. Its lemma follows from its form and that analysis (lemmas.py). On parts of train all of
this, and the weights below, was better than whole strings as classes, independent columns, and lemma rules as
outputs of the head.

Scores are those of the CoNLL 2018 shared task (Zeman et al. 2018) on gold words: UFeats and AllTags compare
universal features alone, and a word without a gold lemma counts as right.

Shapes: W words, O outputs, G softmaxes, A analyses.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_softmax
from torch import Tensor
from typing_extensions import override

from electra.artifacts.model_files import CONFIG
from electra.data.tables.table_files import Data, extension_of
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.tagged_sentences import CONLLU_FORMATS, FULL_STOPS
from electra.finetuning.labelled.treebank_files import EMPTY, fill, sentences_of, write
from electra.finetuning.labelled.word_splitting import infer_splitting, is_punctuation
from electra.finetuning.lemmas import Lemmas
from electra.finetuning.score.metrics import Score
from electra.finetuning.settings import TaskOptions
from electra.finetuning.task import Cell, cross_entropy, nothing_to_learn, tally_labels
from electra.finetuning.windows.features import NO_TARGET, Tokens, Windows
from electra.finetuning.word_tags import SPLITTING_KEY, WordTagging
from electra.foundation.arrays import Floats, Vectors
from electra.foundation.errors import ConfigError, DataError, ModelError
from electra.foundation.terminal_text import plural

COLUMNS = ("UPOS", "XPOS", "FEATS", "LEMMA")
KEY = "treebank"  # in a saved model's config.json: what was learned beside the weights
MOST_POSITIONS = 16  # of XPOS; the last has the rest
PIECE_WEIGHT = 0.3  # of log probabilities of XPOS and FEATS; that of UPOS is 1
WORD_WEIGHT, SMOOTHING = 0.35, 2.0  # of those of the word's known analyses, and words added to them
SHARE_WEIGHT = 0.2  # of those of analyses among all words
MIN_END = 0.5  # the share of its occurrences that a mark must end a sentence in
MIN_SCRIPT = 0.01  # the share of the letters
MIXED = 5  # sentences
TAGS = {*str.split("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X")}
UNIVERSAL = {
    *str.split("PronType NumType Poss Reflex Foreign Abbr Gender Animacy Number Case Definite Degree"),
    *str.split("VerbForm Mood Tense Aspect Voice Evident Polarity Person Polite"),
}  # the features that the shared task compares


class Tags(NamedTuple):
    """The analysis of a word, as its columns are written."""

    upos: str
    xpos: str
    feats: str

    @property
    def pieces(self) -> dict[str, str]:
        """The value of each softmax that has one other than EMPTY, by name."""
        pieces = {} if self.upos == EMPTY else {"UPOS": self.upos}
        if self.xpos != EMPTY:
            xpos = re.split("[:|]", self.xpos) if re.search(".[:|]", self.xpos) else [*self.xpos]
            last = MOST_POSITIONS - 1
            xpos = [*xpos[:last], *(["".join(xpos[last:])] if xpos[last:] else [])]
            pieces |= {f"XPOS {i}": part for i, part in enumerate(xpos, 1)}
        if self.feats != EMPTY:
            parts = (part.partition("=") for part in self.feats.split("|"))
            pieces |= {f"FEATS {name}": value for name, _, value in parts}
        return pieces

    @property
    def scored(self) -> Tags:
        """The tags as the shared task compares them."""
        feats = sorted(part for part in self.feats.split("|") if part.partition("=")[0] in UNIVERSAL)
        return self._replace(feats="|".join(feats))


Word = tuple[Tags, str]
"""The tags and the lemma of a word."""


@dataclass(frozen=True, kw_only=True)
class Treebank(WordTagging):
    """Annotates the words of sentences; a prediction is an analysis and the probability of its UPOS [W, 2].

    `labels` name the outputs, such as "FEATS Case=Nom".
    """

    has_classes: ClassVar[bool] = False
    outputs_are_logits: ClassVar[bool] = True
    writes: ClassVar[tuple[str, ...]] = CONLLU_FORMATS

    metrics: tuple[str, ...] = ("all_tags", "upos", "xpos", "ufeats", "lemmas")
    label: tuple[str, ...] = ()
    formats: tuple[str, ...] = CONLLU_FORMATS
    analyses: tuple[Tags, ...] = ()  # of the training data, the most frequent first
    words: tuple[tuple[str, int, str, int], ...] = ()  # form, analysis, lemma and frequency, likewise
    ends: tuple[str, ...] = ()  # the marks that end sentences
    scripts: tuple[str, ...] = ()  # Unicode's names of those that the letters have

    @override
    def with_options(self, options: TaskOptions) -> Treebank:
        if options.label_column or options.skip_unlabelled:
            key = "label_column" if options.label_column else "skip_unlabelled"
            raise ConfigError(f"{self.name} reads {', '.join(COLUMNS)}", key=key, fix="Omit it")
        task = super().with_options(options)
        assert isinstance(task, Treebank)
        return task

    @override
    def read(self, path: Data, labelled: bool = True) -> Split:
        if labelled and extension_of(path) not in CONLLU_FORMATS:
            problem = f"{self.name} is trained on CoNLL-U"
            raise DataError(problem, where=path, fix="Pass a .conllu file, or use `task` tagging")
        reader = self._reader(path, labelled=False)
        if extension_of(path) == ".txt" and (lines := reader.text_lines(".txt")):
            examples, note = sentences_of(lines, self.splitting, self.ends)
            return Split(examples, notes=(note,))
        split = reader.read()
        examples = tuple(replace(example, gold=_gold(example)) for example in split.examples)
        notes = [*split.notes, *(_notes_on_columns(examples) if labelled else ())]
        if all(tags.upos == EMPTY for example in examples for tags, _ in example.gold or ()):
            if labelled:
                raise DataError("UPOS is empty (_) in every word", where=path, fix="Pass a tagged file")
            examples = tuple(replace(example, gold=None) for example in examples)
        return replace(split, examples=examples, notes=tuple(notes))

    @override
    def in_file(self, source: Data, predictions: Sequence[Any], examples: Sequence[Example]) -> bytes:
        rows = [
            {"LEMMA": lemma, "UPOS": tags.upos, "XPOS": tags.xpos, "FEATS": tags.feats}
            for prediction, example in zip(predictions, examples, strict=True)
            for tags, lemma in self.annotation(prediction, example)
        ]
        return fill(source, rows) if extension_of(source) in CONLLU_FORMATS else write(examples, rows)

    @override
    def fit(self, examples: Sequence[Example]) -> Treebank:
        rows = [(word, *gold) for each in examples for word, gold in zip(each.texts, each.gold, strict=True)]
        counts = Counter(tags for _, tags, _ in rows if tags.upos != EMPTY)
        if len(counts) < 2:
            raise nothing_to_learn("all words have the same tags", examples)
        analyses = [tags for tags, _ in counts.most_common()]
        values: dict[str, set[str]] = {}
        pieces = [tags.pieces for tags in analyses]
        for name in sorted({name for each in pieces for name in each}, key=_order):
            values[name] = {each.get(name, EMPTY) for each in pieces}
        place = {tags: index for index, tags in enumerate(analyses)}
        words = Counter((form, place[tags], lemma) for form, tags, lemma in rows if tags in place)
        letters = Counter(map(script, filter(str.isalpha, chain(*(form for form, _, _ in rows)))))
        columns = {name.partition(" ")[0] for name in values} | {"UPOS"}
        has_lemmas = any(lemma != EMPTY for _, _, lemma in rows)
        metric_of = {"xpos": "XPOS" in columns, "ufeats": "FEATS" in columns, "lemmas": has_lemmas}
        return replace(
            self,
            labels=tuple(f"{name}={value}" for name in values for value in sorted(values[name])),
            metrics=tuple(name for name in self.metrics if metric_of.get(name, True)),
            default=analyses[0].upos,
            splitting=infer_splitting(form for form, _, _ in rows),
            analyses=tuple(analyses),
            words=tuple((*key, count) for key, count in words.most_common()),
            ends=_ends(examples),
            scripts=tuple(sorted(each for each in letters if letters[each] > MIN_SCRIPT * letters.total())),
        )

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        learned = {"analyses": self.analyses, "words": self.words, "ends": self.ends, "scripts": self.scripts}
        return {SPLITTING_KEY: self.splitting, KEY: learned}

    @override
    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Treebank:
        task = super().rebuilt(labels, config)
        try:
            learned = config[KEY]
            analyses = tuple(Tags(*map(str, each)) for each in learned["analyses"])
            words = tuple((str(a), int(b), str(c), int(d)) for a, b, c, d in learned["words"])
            ends, scripts = (tuple(map(str, learned[name])) for name in ("ends", "scripts"))
            are_known = all(0 <= word[1] < len(analyses) for word in words)
            if not (analyses and are_known and {f"UPOS={tags.upos}" for tags in analyses} <= {*labels}):
                raise ValueError("no such analysis, or no output for it")
        except (KeyError, TypeError, ValueError):
            fix = "Copy or fine-tune the model again"
            raise ModelError("not what a treebank teaches", where=CONFIG, key=KEY, fix=fix) from None
        known = {"analyses": analyses, "words": words, "ends": ends, "scripts": scripts}
        return replace(task, **known, default=analyses[0].upos)  # type: ignore[arg-type, return-value]

    # What the head's outputs mean

    @cached_property
    def groups(self) -> list[tuple[int, int]]:
        """The outputs of each softmax, from and to; that of UPOS is the first."""
        sizes = [len([*same]) for _, same in groupby(self.labels, lambda label: label.partition("=")[0])]
        ends = np.cumsum(sizes).tolist()
        return [(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    def targets_of(self, tags: Tags) -> list[int]:
        """Returns the output of each softmax that tags have, or NO_TARGET [G]."""
        pieces, targets = tags.pieces, list[int]()
        for start, _ in self.groups:
            name = self.labels[start].partition("=")[0]
            value = pieces.get(name, "" if name == "UPOS" else EMPTY)
            targets.append(self._output_of.get(f"{name}={value}", NO_TARGET))
        return targets

    @cached_property
    def _output_of(self) -> dict[str, int]:
        return {label: index for index, label in enumerate(self.labels)}

    @cached_property
    def _outputs(self) -> Vectors:
        """The weight of each output in each analysis [O, A]."""
        outputs = np.zeros((len(self.labels), len(self.analyses)), np.float32)
        for index, tags in enumerate(self.analyses):
            outputs[[place for place in self.targets_of(tags) if place >= 0], index] = PIECE_WEIGHT
        outputs[slice(*self.groups[0])] /= PIECE_WEIGHT
        return outputs

    @cached_property
    def _shares(self) -> Floats:
        """The share of each analysis in the words of the training data [A]; equal if they are not known."""
        counts = np.full(len(self.analyses), 1e-9)
        for _, analysis, _, count in self.words:
            counts[analysis] += count
        return np.asarray(counts / counts.sum())

    @cached_property
    def _of_words(self) -> dict[str, tuple[list[int], Floats]]:
        """The known analyses of each form, and how much higher than others their log probabilities are."""
        found: dict[str, Counter[int]] = defaultdict(Counter)
        for form, analysis, _, count in self.words:
            found[form.lower()][analysis] += count
        return {
            form: ([*of], np.log1p(np.array([*of.values()]) / (SMOOTHING * self._shares[[*of]])))
            for form, of in found.items()
        }

    @cached_property
    def lemmas(self) -> Lemmas:
        """The lemmas of known words, and rules for others."""
        known = (word for word in self.words if word[2] != EMPTY or word[0] == EMPTY)
        return Lemmas((form, place, self.analyses[place].upos, lemma) for form, place, lemma, _ in known)

    @property
    @override
    def penalty_task(self) -> Treebank:
        start, end = self.groups[0]
        return replace(self, labels=self.labels[start:end])

    @property
    @override
    def trial_task(self) -> Treebank:
        return replace(self, words=())

    @override
    def with_every_score(self) -> Treebank:
        raise ConfigError(f"{self.name} writes the probability of UPOS alone", key="scores", fix="Omit it")

    @override
    def gold_classes(self, example: Example) -> Any:
        """Returns the outputs of each word [W, G]; NO_TARGET where train lacks the value."""
        return np.array([self.targets_of(tags) for tags, _ in example.gold], np.int64)

    @property
    @override
    def num_tags(self) -> int:
        return len(self.analyses)

    @override
    def gold_tags(self, example: Example) -> list[int]:
        place = {tags: index for index, tags in enumerate(self.analyses)}
        return [place.get(tags, 0) for tags, _ in example.gold]

    @override
    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """Returns the sum over all softmaxes, and the number of words with a UPOS."""
        total = logits.new_zeros((), dtype=torch.float64 if logits.dtype == torch.float64 else torch.float32)
        for (start, end), of_group in zip(self.groups, targets.unbind(-1), strict=False):
            shifted = torch.where(of_group == NO_TARGET, NO_TARGET, of_group - start)
            total = total + cross_entropy(logits[..., start:end].flatten(0, -2), shifted.flatten())[0]
        return total, int((targets[..., 0] != NO_TARGET).sum())

    @override
    def from_logits(self, logits: npt.NDArray[Any], words: Sequence[str]) -> npt.NDArray[Any]:
        logits = np.concatenate([log_softmax(logits[:, a:b], axis=-1) for a, b in self.groups], axis=-1)
        scores = logits @ self._outputs + SHARE_WEIGHT * np.log(self._shares)
        for word, row in zip(words, scores, strict=True):
            if known := self._of_words.get(word.lower()):
                row[known[0]] += WORD_WEIGHT * known[1]
        chosen = scores.argmax(-1)
        upos = np.array([self._output_of[f"UPOS={self.analyses[index].upos}"] for index in chosen], np.int64)
        return np.stack([chosen, np.exp(logits[np.arange(len(chosen)), upos])], -1)

    @override
    def from_shares(self, shares: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.stack([shares.argmax(-1), shares.max(-1)], -1)

    @override
    def default_prediction(self) -> npt.NDArray[Any]:
        return np.zeros(2, np.float32)

    def annotation(self, prediction: npt.NDArray[Any] | None, example: Example) -> list[Word]:
        """Returns the tags and lemma of each word, EMPTY in a sentence that was not read."""
        if prediction is None:
            return [(Tags(EMPTY, EMPTY, EMPTY), EMPTY)] * len(example.texts)
        found = []
        for word, index in zip(example.texts, prediction[:, 0].astype(int).tolist(), strict=True):
            tags = self.analyses[index]
            found.append((tags, self.lemmas(word, index, tags.upos) if self.lemmas.known else EMPTY))
        return found

    # Scores and files

    @override
    def can_score(self, example: Example) -> bool:
        return True

    @override
    def gold_names(self, example: Example) -> tuple[str, ...]:
        return tuple(tags.upos for tags, _ in example.gold)

    @override
    def shown_gold(self, example: Example) -> tuple[str, ...]:
        return self.gold_names(example)

    @override
    def unseen_labels(self, example: Example) -> tuple[str, ...]:
        known = {tags.upos for tags in self.analyses} | {EMPTY}
        return tuple(name for name in self.gold_names(example) if name not in known)

    @override
    def label_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        known = sorted({tags.upos for tags in self.analyses})
        return tally_labels(known, chain(*map(self.gold_names, examples)))

    @override
    def featurize(self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False) -> Windows:
        windows = super().featurize(examples, tokens, max_length, train)
        words = chain(*(example.texts for example in examples[:1000]))
        letters = Counter(map(script, filter(str.isalpha, chain(*words))))
        usual = next((name for name, _ in letters.most_common(1)), "")
        if not self.scripts or not usual or usual in self.scripts:
            return windows
        known = " and ".join(self.scripts)
        note = f"most letters are {usual}, those of the treebank {known}: tags are guesses"
        return replace(windows, notes=(*windows.notes, note))

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        pairs = [
            (found, gold)
            for prediction, example in zip(predictions, examples, strict=True)
            for found, gold in zip(self.annotation(prediction, example), example.gold, strict=True)
        ]
        tags = [(found.scored, gold.scored) for (found, _), (gold, _) in pairs]
        right = {
            "all_tags": [found == gold for found, gold in tags],
            "upos": [found.upos == gold.upos for found, gold in tags],
            "xpos": [found.xpos == gold.xpos for found, gold in tags],
            "ufeats": [found.feats == gold.feats for found, gold in tags],
            "lemmas": [gold in (EMPTY, found) for (_, found), (_, gold) in pairs],
        }
        return {name: Score(float(np.mean(right[name]))) for name in self.metrics}

    @override
    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        """Returns a row per word: its UPOS as label, with its probability, and all columns."""
        has_spans = any(example.spans for example in examples)
        names = ("label", "p", "upos", "xpos", "feats", "lemma")
        rows: list[tuple[Cell, ...]] = [("id", "word", *(("start", "end") if has_spans else ()), *names)]
        for example, prediction in zip(examples, predictions, strict=True):
            spans = example.spans if has_spans else [()] * len(example.texts)
            found = self.annotation(prediction, example)
            columns = example.texts, spans, found, prediction[:, 1].tolist()
            for word, span, (tags, lemma), p in zip(*columns, strict=True):
                rows.append((example.id, word, *span, tags.upos, p, *tags, lemma))
        return rows


def script(letter: str) -> str:
    """Returns the name of a letter's script, such as LATIN or CYRILLIC."""
    return unicodedata.name(letter, "UNKNOWN").partition(" ")[0]


def _order(name: str) -> tuple[int, int, str]:
    column, _, rest = name.partition(" ")
    return COLUMNS.index(column), int(rest) if column == "XPOS" else 0, rest


def _gold(example: Example) -> tuple[Word, ...] | None:
    """Returns the annotation of a sentence, EMPTY in columns that are not there; None without UPOS."""
    if "UPOS" not in example.row:
        return None
    columns = (example.row.get(name, [EMPTY] * len(example.texts)) for name in COLUMNS)
    return tuple((Tags(*tags), lemma) for *tags, lemma in zip(*columns, strict=True))


def _ends(examples: Sequence[Example]) -> tuple[str, ...]:
    """Returns the marks that mostly end sentences, and usual ones that the treebank lacks."""
    last = Counter(example.texts[-1] for example in examples)
    total = Counter(word for example in examples for word in example.texts)
    marks = (word for word in {*last, *FULL_STOPS} if all(map(is_punctuation, word)))
    return tuple(sorted(word for word in marks if last[word] >= MIN_END * total[word]))


def _notes_on_columns(examples: Sequence[Example]) -> Iterator[str]:
    """Yields notes on columns that are empty, or seem to have two sets of tags."""
    rows = [(*tags, lemma) for example in examples for tags, lemma in example.gold or ()]
    forms = chain(*(example.texts for example in examples))
    for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        pairs = zip(values, forms, strict=True) if name == "LEMMA" else ((value, "") for value in values)
        if (empty := sum(value == EMPTY != form for value, form in pairs)) == len(rows):
            yield f"{name} is empty (_) in every word: left out"
        elif empty and name != "FEATS":
            yield f"{name} is empty (_) in {empty:,} of {plural(len(rows), 'word')}: not learned from these"
    strange = Counter(row[0] for row in rows if row[0] not in TAGS and row[0] != EMPTY)
    if strange:
        listed = ", ".join(f"{tag} {count:,}" for tag, count in strange.most_common(5))
        kept = "two sets of tags?" if strange.total() < len(rows) else "scored as they are"
        yield f"UPOS has tags that are not universal ({listed}): {kept}"
    if len(parts := _tag_sets(examples)) > 1:
        (first, _), (second, count) = parts[:2]
        found = f"such as {first} and {second} ({count:,})"
        yield f"XPOS has tags that share no sentence, {found}: two sets of tags?"


def _tag_sets(examples: Sequence[Example]) -> list[tuple[str, int]]:
    """Returns sets of XPOS tags that share no sentence: a tag of each, and its number of sentences."""
    parts: list[tuple[set[str], int]] = []
    for example in examples:
        pairs = zip(example.texts, example.gold or (), strict=False)
        tags = {gold[0].xpos for word, gold in pairs if any(map(str.isalpha, word))} - {EMPTY}
        joined = [part for part in parts if part[0] & tags]
        parts = [part for part in parts if not part[0] & tags]
        merged = tags.union(*(each for each, _ in joined)), 1 + sum(count for _, count in joined)
        parts += [merged] if tags else []
    large = sorted((part for part in parts if part[1] >= MIXED), key=lambda part: -part[1])
    return [(min(tags), count) for tags, count in large]
