"""Bias: the words on which a discriminator raises false alarms, and the replacements that it misses.

The threshold calls as many tokens replaced as were replaced, so that models are compared at equal cost. See
docs/analysis.md.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit
from typing_extensions import override

from electra.finetuning.labelled.examples import Example
from electra.foundation.arrays import Bools, Floats, Ints
from electra.inference.detection import tokenize
from electra.laboratory.analysis import contract, texts
from electra.laboratory.analysis.contract import Cell, Data, Findings, Input, Progress, StudiedModel
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.scorers import word_ids
from electra.laboratory.analysis.texts import sample, tagged_sentences

MIN_TOKENS = 20  # a group with fewer tokens has no rates
KINDS = ("false alarms", "misses")
# Kind of error -> measure with the number of tokens on which it can occur.
COUNT_MEASURES = {"false alarms": "original", "misses": "replaced"}


@dataclass(frozen=True)
class Config(texts.CorruptedOptions):
    """Options of the probe."""

    sentences: int = texts.at_least_0(1000)
    """Sentences sampled from the file (0: all)."""
    draws: int = texts.at_least_1(2)
    """How many times each sentence is corrupted."""


@dataclass(frozen=True)
class ScoredTokens:
    """The scored tokens of all draws, as arrays [N]."""

    log_odds: Floats
    replaced: Bools
    sentence: Ints  # index of the token's sentence
    word: Ints  # index of the token's word in the lists that `factors` returns


class Probe(contract.Probe):
    """Measures false alarms and misses by properties of the words."""

    title = "Bias"
    question = "Which words raise false alarms, and which replacements are missed?"
    source = "No published results for discriminators."
    version = 2
    needs = ("discriminator", "generator")
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {"false alarms": (1.0, 0.0), "misses": (0.0, 0.0)}
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        tagged = ("ud*/test.conllu*", "*test*.conllu*", "*dev*.conllu*", "*.conllu*")
        training = ("ud*/train.conllu*", "*train*.conllu*")
        return (
            Input("tagged", "sentences with gold parts of speech (CoNLL-U)", tagged),
            Input("frequency", "text to count words in (CoNLL-U)", training, required=False),
        )

    @override
    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        config, findings = self.config, Findings()
        sentences = sample(tagged_sentences(data["tagged"][0]), config.sentences, config.seed)
        counted = tagged_sentences(data["frequency"][0]) if "frequency" in data else sentences
        frequency = Counter(word.lower() for sentence in counted for word in sentence.texts)
        groups: dict[str, list[str]] = {}
        for i, model in enumerate(models):
            progress(f"{model.name}: corrupting and scoring", (i + 0.1) / len(models))
            usable, rows, words = fit_rows(sentences, model)
            scored = self.score(model, rows, words)
            by_word = factors(usable, words, frequency)
            groups_of_model, threshold = add_rates(findings, model.name, scored, by_word, config)
            groups = groups or groups_of_model
            findings.notes.append(
                f"{model.name}: {len(scored.replaced):,} tokens of {len(usable):,} sentences,"
                f" {100 * scored.replaced.mean():.1f} % of them replaced; threshold P ="
                f" {expit(threshold):.3f}."
            )
            if left_out := len(sentences) - len(usable):
                why = "left out: one token, or too long for the model."
                findings.notes.append(f"{model.name}: {left_out} sentences were {why}")
        if "frequency" not in data:
            note = "No training file to count words in: frequencies are those of the sentences themselves."
            findings.notes.append(note)
        overall = findings.select(model=models[0].name)
        findings.headline.update({name: overall[name] for name in KINDS})
        add_tables_and_figures(findings, models[0].name, groups)
        return findings

    def score(self, model: StudiedModel, rows: Sequence[Ints], words: Sequence[Ints]) -> ScoredTokens:
        """Corrupts the rows as often as the option `draws` says, and scores every token."""
        config = self.config
        draws = [
            token_rows.by_generator(model.generator, rows, fraction=config.fraction, seed=config.seed + draw)
            for draw in range(config.draws)
        ]
        odds = [values for draw in draws for values in token_rows.log_odds(model.discriminator, draw.rows)]
        return ScoredTokens(
            np.concatenate(odds),
            np.concatenate([mask for draw in draws for mask in draw.replaced]),
            np.tile(draws[0].row_of_token, config.draws),
            np.tile(np.concatenate(words), config.draws),
        )


def fit_rows(sentences: Sequence[Example], model: StudiedModel) -> tuple[list[Example], list[Ints], list[Ints]]:
    """Returns the sentences of two or more tokens that fit the model, their token ids and their words.

    A token's word is its index among the words of all returned sentences. ProbeDataError if there are none.
    """
    tokenizer, num_words = model.discriminator.tokenizer, 0
    max_length = token_rows.max_row_length(model.discriminator, model.generator)
    usable, rows, words = list[Example](), list[Ints](), list[Ints]()
    for sentence in sentences:
        ids = tokenize(tokenizer, " ".join(sentence.texts)).ids
        if 1 < len(ids) <= max_length:
            usable.append(sentence)
            rows.append(ids)
            words.append(num_words + word_ids(tokenizer, sentence.texts))
            num_words += len(sentence.texts)
    if not rows:
        problem = "every sentence has one token, or is too long for the model"
        raise contract.ProbeDataError(problem, where="bias", fix="Use other sentences")
    return usable, rows, words


def factors(sentences: Sequence[Example], words: Sequence[Ints], frequency: Mapping[str, int]) -> dict[str, list[str]]:
    """Returns, for each factor, the group of every word of the sentences."""
    words_of = [(word, tag) for s in sentences for word, tag in zip(s.texts, s.gold, strict=True)]
    counts = np.bincount(np.concatenate(words), minlength=len(words_of)).tolist()
    times = [frequency.get(word.lower(), 0) for word, _ in words_of]
    return {
        "part of speech": [tag for _, tag in words_of],
        "frequency": [f"{bin_of(count, (0, 1, 10, 100, 1000))} times" for count in times],
        "tokens in the word": [bin_of(count, (0, 1, 2, 3)) for count in counts],
    }


def bin_of(value: int, starts: Sequence[int]) -> str:
    """Returns the name of a value's bin, such as "10-99" or "3 and more".

    `starts` holds the lowest value of each bin, in ascending order; `value` is at least the first.
    """
    low = max(start for start in starts if value >= start)
    high = next((start - 1 for start in starts if start > low), None)
    return f"{low} and more" if high is None else f"{low}" if low == high else f"{low}-{high}"


def add_rates(
    findings: Findings, model: str, scored: ScoredTokens, by_word: Mapping[str, list[str]], config: Config
) -> tuple[dict[str, list[str]], float]:
    """Adds a model's rates of false alarms and misses, overall and by factor (`by_word`: each word's group).

    Returns each factor's groups in order, and the log-odds from which on a token is called replaced.
    """
    threshold = Ranking(scored.log_odds, scored.replaced).matched_threshold()
    called = scored.log_odds >= threshold
    cases = {"false alarms": (~scored.replaced, called), "misses": (scored.replaced, ~called)}
    groups = {factor: sorted(set(values), key=_bin_order) for factor, values in by_word.items()}
    index = {
        factor: np.array([groups[factor].index(value) for value in values], np.int64)[scored.word]
        for factor, values in by_word.items()
    }

    def measure(w: Floats) -> dict[tuple[str, ...], float]:
        rates: dict[tuple[str, ...], float] = {}
        for kind, (mask, is_error) in cases.items():
            events, weights = is_error[mask].astype(np.float64), w[mask]
            rates[(kind,)] = bootstrap.share(weights, events)
            for factor, names in groups.items():
                total = np.bincount(index[factor][mask], weights, len(names))
                wrong = np.bincount(index[factor][mask], weights * events, len(names))
                for name, count, events_of in zip(names, total.tolist(), wrong.tolist(), strict=True):
                    rates[kind, factor, name] = events_of / count if count > 0 else np.nan
        return rates

    rates = bootstrap.estimates(measure, scored.sentence, resamples=config.resamples, seed=config.seed)
    for kind, (mask, _) in cases.items():
        findings.add(rates[(kind,)], measure=kind, model=model)
        for factor, names in groups.items():
            for i, name in enumerate(names):
                count = int(((index[factor] == i) & mask).sum())
                rate: Cell = rates[kind, factor, name] if count >= MIN_TOKENS else None
                cells = {COUNT_MEASURES[kind]: count, kind: rate}
                findings.add_all(cells, model=model, **{factor: name})
    return groups, threshold


def add_tables_and_figures(findings: Findings, first: str, groups: Mapping[str, list[str]]) -> None:
    """Adds tables and figures to the findings. `groups` maps each factor to the first model's groups."""
    for factor, names in groups.items():
        note = f"Rates of groups with at least {MIN_TOKENS} tokens."
        findings.table(f"By {factor}", "model", factor, note=note)
        for kind in KINDS:
            rates = findings.select(factor, model=first, measure=kind)
            shown = [group for group in names if rates[group] is not None]
            if shown:
                name, title = f"{kind}-by-{factor}".replace(" ", "-"), f"{kind.capitalize()} by {factor}"
                keep = {"measure": kind, factor: shown}
                how = {"note": "Rates with 95 % intervals.", "unit": "rate", "kind": "categories"}
                overall = {"all tokens": findings.select(model=first)[kind].value}
                findings.figure(name, title, factor, "model", keep, references=overall, **how)


def _bin_order(name: str) -> tuple[int, str]:
    digits = re.search(r"\d+", name)
    return (int(digits[0]) if digits else -1, name)
