"""The scorers of `electra detect`, and the thresholds from which they mark words.

The discriminator and a masked language model see different errors. `both` is a logistic regression on what
they say of a word, on what the word looks like, and on how much the language model expects a word that looks
alike (a noisy channel), fitted to errors made up in clean text.
Which share of clean words a threshold marks is measured when a run ends and kept beside the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np

from electra.artifacts.included import MODELS, included_model
from electra.artifacts.model_files import DETECTION, ModelFolder, Scorer
from electra.data.corpus import unknown
from electra.data.tables.printed import without_ligatures
from electra.exchange.load import Loaded, load_language_model
from electra.foundation import durable
from electra.foundation.arrays import Floats
from electra.foundation.config import build
from electra.foundation.errors import AbsentNetwork, ConfigError, DataError, ElectraError, ModelError, Note
from electra.foundation.progress import advance, doing, expect
from electra.inference.detection import (
    MASKED_APART,
    TEXTS_PER_CHUNK,
    Detection,
    TokenizedText,
    build_detection,
    checked_threshold,
    detect,
    log_odds,
    probabilities,
    require_log_odds,
    surprisals,
    tokenize,
)
from electra.inference.filling import suggest
from electra.inference.spellings import Spellings

Single = Literal["discriminator", "language-model", "both", "tagger"]
# Of a word: its highest log-odds, log(1 + its highest -log p), whether it has several tokens, whether it has
# a capital within a sentence, the logarithm of its length, and how much a near spelling is expected in its
# place (`Spellings.expected`; older records do not weigh that). The weights are those of tiny-en.
FEATURES = ("bias", "discriminator", "language_model", "pieces", "capital", "length", "near")
WEIGHTS = (-14.86, 0.47, 5.24, 2.57, -1.12, 0.42, 0.63)
RATES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)  # of clean words
MIN_MARKED = 10  # clean words above a threshold that is measured
PIECES = {True: 1.5, False: 3.0}  # tokens a word in other languages: of included models (English), of others
MIN_WORDS = 20  # of which that is said
SUGGESTING = 2  # what the suggestions for a text take, in readings of it by a network
SUSPICIOUS = 3.0  # times as many words above the model's threshold as in its own clean text


@dataclass(frozen=True)
class Curve:
    """Thresholds on P(replaced), from the highest, and the shares of clean and of wrong words they mark."""

    thresholds: tuple[float, ...] = ()
    false_alarms: tuple[float, ...] = ()
    recall: tuple[float, ...] = ()  # () if there were no wrong words

    def at(self, x: str, value: float, y: str) -> float | None:
        """Interpolates column `y` at a value of `x`; None if it is empty."""
        rows = np.array(sorted(zip(getattr(self, x), getattr(self, y), strict=False)), np.float64)
        return float(np.interp(value, rows[:, 0], rows[:, 1])) if len(rows) else None


@dataclass(frozen=True)
class Calibration:
    """What detection.json says: the best scorer, its weights, and what its thresholds do."""

    scorer: Single | None = None  # the most precise one on made-up errors (None: not measured)
    language_model: str = ""  # the included model whose language model is used (empty: the model's own)
    weights: tuple[float, ...] = WEIGHTS  # of FEATURES
    text: str = ""  # what it was measured on
    words: int = 0  # clean words
    curves: Mapping[str, Curve] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: ModelFolder) -> Calibration:
        """Reads the record of a model folder; without one, nothing is known. Raises ModelError if broken."""
        path = folder.path / DETECTION
        if not path.is_file():
            return cls()
        values = durable.read_json(path, ModelError)
        try:
            curves = {name: build(Curve, each, name) for name, each in values.pop("curves").items()}
            found = replace(build(cls, values, ""), curves=curves)
            if len(found.weights) == len(FEATURES) - 1:
                found = replace(found, weights=(*found.weights, 0.0))
            if len(found.weights) != len(FEATURES):
                raise ModelError(f"needs {len(FEATURES)} weights")
        except (ElectraError, TypeError, KeyError, AttributeError) as problem:
            fix = "Delete it, or copy it from the original model"
            raise ModelError(f"not readable ({problem})", where=path, fix=fix) from None
        return found


@dataclass(frozen=True)
class Marking:
    """From which P(replaced) words are marked, and what is known of that."""

    threshold: float
    origin: str  # where the threshold is from
    false_alarms: float | None = None  # the share of clean words that are marked
    recall: float | None = None  # the share of errors made up in the model's clean text that are marked

    def precision(self, rate: float) -> float | None:
        """Returns the expected share of marked words that are wrong if `rate` of all words are."""
        if not self.false_alarms or self.recall is None:
            return None
        return 1 / (1 + (1 - rate) * self.false_alarms / max(rate * self.recall, 1e-9))

    def wrong(self, marked: int, words: int) -> tuple[float, float, float] | None:
        """Returns how many of `words` are wrong if so many are marked, and a 95 % interval (Wilson's).

        It rests on errors made up in clean text. None if it is not known how many of those are marked.
        """
        if not self.false_alarms or self.recall is None or self.recall <= self.false_alarms:
            return None
        n, share, z = max(words, 1), marked / max(words, 1), 1.96
        centre, reach = share + z * z / (2 * n), z * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
        shares = share, *((centre + side * reach) / (1 + z * z / n) for side in (-1, 1))
        rates = ((each - self.false_alarms) / (self.recall - self.false_alarms) for each in shares)
        first, low, high = (round(words * min(1.0, max(0.0, rate)), 1) for rate in rates)
        return first, low, high


@dataclass(frozen=True)
class Detector:
    """The networks that score words."""

    scorer: Single
    discriminator: Loaded | None
    language_model: Loaded | None
    calibration: Calibration = field(default_factory=Calibration)

    @property
    def main(self) -> Loaded:
        """The network whose tokenizer splits texts into words."""
        loaded = self.language_model if self.scorer == "language-model" else self.discriminator
        assert loaded is not None
        return loaded

    @cached_property
    def spellings(self) -> Spellings:
        """The words of the language model."""
        assert self.language_model is not None
        return Spellings(self.language_model.tokenizer)

    def __call__(
        self,
        texts: Iterable[str],
        threshold: float,
        suggestions: int = 0,
        near: bool = False,
        allow_unknown: bool | None = None,
    ) -> Iterator[Detection]:
        """Yields the detection of each text, read lazily; see `filling.suggest` for suggestions.

        Raises TokenizerError if too many tokens are unknown, unless that is allowed or not counted (None).
        """
        total = len(texts) if isinstance(texts, Sized) else 0
        if allow_unknown is not None:
            texts = unknown.read(self.main.tokenizer, texts, allow_unknown)
        found = self.scored(texts, threshold)
        num_tokens = num_words = 0
        reader = self.language_model if suggestions > 0 else None
        doing("detecting")
        readings = {"language-model": MASKED_APART, "both": 1 + MASKED_APART}.get(self.scorer, 1)
        expect(total * (readings + SUGGESTING * (reader is not None)))
        while chunk := list(islice(found, TEXTS_PER_CHUNK)):
            if reader is not None:
                chunk = suggest(reader, chunk, self.spellings, suggestions, near)
                advance(SUGGESTING * len(chunk))
            yield from chunk
            num_tokens += sum(len(each.tokens) for each in chunk)
            num_words += sum(len(each.words) for each in chunk)
        pieces = PIECES[Path(self.main.folder).is_relative_to(MODELS)]
        if num_words >= MIN_WORDS and num_tokens > pieces * num_words:
            problem = f"{num_tokens / num_words:.1f} tokens a word: is this a language that the model knows?"
            warnings.warn(Note(problem), stacklevel=2)

    def scored(self, texts: Iterable[str], threshold: float) -> Iterator[Detection]:
        """Yields the detection of each text, without suggestions."""
        if self.scorer != "both":
            return detect(self.main, texts, threshold=threshold)
        return (
            build_detection(text, tokens, np.nan_to_num(self.scores("both", rows)), threshold)
            for text, tokens, rows in self._features(texts)
        )

    def scores(self, scorer: Single, rows: Floats) -> Floats:
        """Returns the P(replaced) of a scorer [N] for rows of FEATURES [N, F]."""
        if scorer in ("discriminator", "tagger"):
            return probabilities(rows[:, 1])
        if scorer == "both":
            return probabilities(rows @ np.array(self.calibration.weights))
        assert self.language_model is not None
        return probabilities(np.expm1(rows[:, 2]) - np.log(self.language_model.tokenizer.vocab_size))

    def words(self, texts: Iterable[str]) -> Iterator[tuple[list[int], Floats]]:
        """Yields where the words of each text start, and their FEATURES; those with a letter or digit."""
        for _, tokens, rows in self._features(texts):
            firsts = [members[0] for members in tokens.word_tokens() if np.isfinite(rows[members[0], 0])]
            yield [tokens.offsets[i][0] for i in firsts], rows[firsts]

    def _features(self, texts: Iterable[str]) -> Iterator[tuple[str, TokenizedText, Floats]]:
        """Yields each text, its tokens, and FEATURES of each token's word [T, F]; NaN for punctuation."""
        source, reader = iter(texts), self.language_model
        while chunk := list(islice(source, TEXTS_PER_CHUNK)):
            tokenized = read = [tokenize(self.main.tokenizer, text) for text in chunk]
            odds = [np.zeros(len(tokens.ids)) for tokens in tokenized]
            said = [np.zeros((2, len(tokens.ids))) for tokens in tokenized]
            if self.discriminator is not None:
                odds = log_odds(self.discriminator, tokenized)
            if reader is not None:
                if reader.tokenizer.digest != self.main.tokenizer.digest:
                    read = [tokenize(reader.tokenizer, text) for text in chunk]
                is_weighed = self.discriminator is not None and self.calibration.weights[-1]
                said = surprisals(reader, read, self.spellings if is_weighed else None)
            for text, tokens, *rest in zip(chunk, tokenized, read, odds, said, strict=True):
                yield text, tokens, self._rows(text, tokens, *cast(Any, rest))

    def _rows(self, text: str, tokens: TokenizedText, read: TokenizedText, odds: Floats, said: Floats) -> Floats:
        """Returns FEATURES; of the language model's tokens, a word has those that it overlaps."""
        rows, is_initial = np.full((len(tokens.ids), len(FEATURES)), np.nan), True
        starts, ends = np.array(read.offsets, np.int64).reshape(-1, 2).T
        for members in tokens.word_tokens():
            start, end = tokens.offsets[members[0]][0], max(tokens.offsets[i][1] for i in members)
            word = without_ligatures(text[start:end])
            if not any(map(str.isalnum, word)):
                is_initial = word in ".!?:"
                continue
            over = said[:, np.searchsorted(ends, start, "right") : np.searchsorted(starts, end, "left")]
            is_name, near = word[0].isupper() and not is_initial, over[1].max() if over.size else 0
            of_word = len(members) > 1, is_name, np.log(len(word)), near
            rows[members] = 1, odds[members].max(), np.log1p(over[0].max(initial=0)), *of_word
            is_initial = False
        return rows

    def marking(
        self, threshold: float | None = None, false_alarms: float = 0.01, clean: Iterable[str] | None = None
    ) -> Marking:
        """Returns from which P(replaced) words are marked.

        `threshold` is the user's own; without it, the share `false_alarms` of the words of `clean` is marked,
        or of the text on which the model was measured. Raises ConfigError for a number out of range, and
        DataError if the clean text is too short.
        """
        curve = self.calibration.curves.get(self.scorer, Curve())
        if threshold is not None:
            return Marking(checked_threshold(self.main, threshold), "as passed")
        if not 0 < false_alarms < 1:
            raise ConfigError(f"must be above 0 and below 1, not {false_alarms}", key="false_alarms")
        if clean is not None:
            unused = {"discriminator": "language_model", "language-model": "discriminator"}.get(self.scorer)
            used = replace(self, **{unused: None}) if unused else self  # type: ignore[arg-type]
            rows = np.concatenate([np.zeros((0, len(FEATURES))), *(rows for _, rows in used.words(clean))])
            scores = self.scores(self.scorer, rows)
            if (needed := int(np.ceil(MIN_MARKED / false_alarms))) > len(scores):
                problem = f"{len(scores)} words are too few for {false_alarms:.2%} of false alarms"
                raise DataError(problem, where="clean", fix=f"Pass at least {needed:,} words of clean text")
            threshold, origin = _threshold(scores, false_alarms), f"from {len(scores):,} words of clean text"
            usual = curve.at("false_alarms", false_alarms, "thresholds")
            if usual is not None and (above := float((scores >= usual).mean())) > SUSPICIOUS * false_alarms:
                origin += f", {above:.0%} of which look wrong to the model: are they free of errors?"
            return Marking(threshold, origin, false_alarms, curve.at("thresholds", threshold, "recall"))
        if not curve.thresholds:
            origin = "one half" if self.scorer == "tagger" else "the best for its generator's samples"
            threshold, origin = self.main.threshold, f"{origin}; pass clean text to set the false alarms"
            return Marking(threshold, origin)
        false_alarms = min(max(false_alarms, curve.false_alarms[0]), curve.false_alarms[-1])
        value, recall = (curve.at("false_alarms", false_alarms, name) for name in ("thresholds", "recall"))
        return Marking(float(value or 0), f"from {self.calibration.text}", false_alarms, recall)


def choose(
    source: object,
    scorer: Scorer,
    discriminator: Loaded | None,
    language_model: Loaded | None,
    full_size: bool,
) -> Detector:
    """Returns the detector that `scorer` names, of a model `source` with these networks.

    auto: the scorer that the model's record names, else a language model of full size, else the
    discriminator, else the language model. Raises AbsentNetwork if the model lacks a network.
    """
    first = discriminator or language_model
    calibration = Calibration() if first is None else Calibration.of(ModelFolder(first.folder))
    if first is not None and (included := included_model(calibration.language_model)):
        found = load_language_model(included)
        language_model = None if found is None else found.to(first.device)
    has: dict[Any, bool] = {"discriminator": discriminator is not None}
    has["language-model"] = language_model is not None
    has["both"] = all(has.values())
    chosen: Any = calibration.scorer if scorer == "auto" else scorer
    if scorer == "auto" and not has.get(chosen):
        chosen = "language-model" if full_size or discriminator is None else "discriminator"
    if not has[chosen]:
        what = "discriminator and a language model" if chosen == "both" else chosen.replace("-", " ")
        raise AbsentNetwork(f"the model has no {what}", where=source, fix="Choose another scorer")
    if discriminator is not None and chosen != "language-model":
        require_log_odds(discriminator)
    return Detector(chosen, discriminator, language_model, calibration)


def measure(detector: Detector, texts: Iterable[str], text: str) -> Calibration | None:
    """Returns which thresholds mark which shares of the words of clean texts; None if they are too short.

    `text` says what the texts are.
    """
    rows = np.concatenate([np.zeros((0, len(FEATURES))), *(rows for _, rows in detector.words(texts))])
    networks = (detector.discriminator, detector.language_model)
    pairs = zip(get_args(Single), networks, strict=False)
    names: list[Any] = [name for name, network in pairs if network is not None]
    names += ["both"] if len(names) == 2 else []
    curves = {name: curve_of(detector.scores(name, rows)) for name in names}
    if not curves[names[0]].thresholds:
        return None
    return replace(detector.calibration, text=text, words=len(rows), curves=curves)


def curve_of(clean: Floats, wrong: Floats | tuple[()] = ()) -> Curve:
    """Returns which shares of clean and of wrong words thresholds mark; an empty curve for few words."""
    rates = tuple(rate for rate in RATES if rate * len(clean) >= MIN_MARKED)
    thresholds = tuple(_threshold(clean, rate) for rate in rates)
    recall = (float(np.mean(np.asarray(wrong) >= each)) for each in thresholds if len(wrong))
    return Curve(thresholds, rates, tuple(recall))


def _threshold(scores: Floats, share: float) -> float:
    return float(np.sort(scores)[-max(1, int(share * len(scores)))])
