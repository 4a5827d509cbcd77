"""Bias: the words on which a discriminator raises false alarms, and the replacements that it misses.

Sentences with gold parts of speech (Universal Dependencies) are corrupted by the model's own generator, as in
training. A false alarm is an original token called replaced; a miss is a replaced token called original.
Rates are given by part of speech, frequency, position, tokens in the word, sentence length and capitals,
always of the original word. Some words are harder for any model, so each part of speech's rate is also
adjusted for the generator's uncertainty by logistic regression (`adjusted`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.tagged_sentences import Sentence, universal_dependencies
from electra.foundation.arrays import Bools, Floats, Ints
from electra.inference.detection import tokenize
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import (
    Cell,
    Data,
    Estimate,
    Figure,
    Findings,
    Input,
    Model,
    ProbeDataError,
    Progress,
    Table,
)
from electra.laboratory.analysis.measures import adjusted, bootstrap
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.measures.reliability import sigmoid
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.words import owners
from electra.laboratory.analysis.texts import corruption
from electra.laboratory.analysis.texts.sampling import sample

FEWEST = 20  # a group with fewer tokens has no rates
KINDS = ("false alarms", "misses")
SPEECH = "part of speech"


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    sentences: int = 1000
    """Sentences sampled from the file (0: all)."""
    draws: int = 2
    """How many times each sentence is corrupted."""
    fraction: float = corruption.FRACTION
    """Share of the tokens that the generator resamples."""
    threshold: float = 0.0
    """P(replaced) from which a token is called replaced (0: call as many as were replaced)."""
    resamples: int = 200
    """Bootstrap samples for the intervals; half of them for the adjusted rates."""
    seed: int = 0
    """Seed of samples, masks and bootstrap."""


@dataclass(frozen=True)
class ScoredTokens:
    """The scored tokens of all draws, as arrays [N]. `word` indexes the lists returned by `factors`."""

    log_odds: Floats
    replaced: Bools
    sentence: Ints
    word: Ints
    uncertainty: Floats
    """[N, 2] the generator's log p of the original token, and its entropy."""
    advantage: Floats
    """Log p(sample) - log p(original) where a token was resampled, else NaN."""


class Probe(contract.Probe):
    """Measures false alarms and misses by properties of the words."""

    title = "Bias"
    question = (
        "Which words raise false alarms, and which replacements are missed, beyond what the generator's"
        " uncertainty explains?"
    )
    source = "Adjustment: Lane and Nelder 1982. No published results for discriminators."
    version = 2
    needs = ("discriminator", "generator")
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {"false alarms": (1.0, 0.0), "misses": (0.0, 0.0)}
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        tagged = ("ud*/test.conllu*", "*test*.conllu*", "*dev*.conllu*", "*.conllu*")
        return (
            Input("tagged", "sentences with gold parts of speech (CoNLL-U)", tagged),
            Input(
                "frequency",
                "text to count words in (CoNLL-U)",
                ("ud*/train.conllu*", "*train*.conllu*"),
                required=False,
            ),
        )

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        sentences = sample(universal_dependencies(data["tagged"][0]), self.config.sentences, self.config.seed)
        counted = universal_dependencies(data["frequency"][0]) if "frequency" in data else sentences
        frequency = Counter(word.lower() for sentence in counted for word in sentence.words)
        findings, groups = Findings(), dict[str, list[str]]()
        findings.notes.append(
            "Left beside uncertainty: a share of the deviance. 1: uncertainty explains none of it; above 1:"
            " uncertainty had masked some of it."
        )
        for number, model in enumerate(models):
            progress(f"{model.name}: corrupting and scoring", (number + 0.1) / len(models))
            kept, rows = tokenise(sentences, model)
            scored = self.score(model, rows)
            progress(f"{model.name}: adjusting", (number + 0.6) / len(models))
            by_word = factors(kept, rows, frequency, model)
            factor_groups, threshold = analyse(findings, model.name, scored, by_word, self.config)
            groups = groups or factor_groups
            findings.notes += self.notes(model, scored, threshold, len(kept), len(sentences))
        if "frequency" not in data:
            findings.notes.append(
                "No training file to count words in: frequencies are those of the sentences themselves."
            )
        overall = findings.of(model=models[0].name)
        findings.headline.update({kind: overall[kind] for kind in KINDS})
        findings.headline.update(
            {name: share for name, share in overall.items() if name.startswith("of what")}
        )
        show(findings, [model.name for model in models], groups)
        return findings

    def notes(self, model: Model, scored: ScoredTokens, threshold: float, kept: int, total: int) -> list[str]:
        """Returns notes on a model's sentences, threshold and tokenizer."""
        lines = [
            f"{model.name}: {len(scored.replaced):,} tokens of {kept:,} sentences,"
            f" {100 * scored.replaced.mean():.1f} % of them replaced; threshold P = {threshold:.3f}."
        ]
        if kept < total:
            lines.append(f"{model.name}: {total - kept} sentences left out, too long for the model.")
        if model.tokenizer.encode("A").ids == model.tokenizer.encode("a").ids:
            lines.append(
                f"{model.name} does not see capitals: its tokenizer lower-cases. Differences by capitals come"
                " from the words themselves."
            )
        return lines

    def score(self, model: Model, rows: Sequence[TokenRow]) -> ScoredTokens:
        """Corrupts the rows `draws` times and scores every token."""
        config, ids = self.config, [row.ids for row in rows]
        log_p, entropy = token_rows.uncertainty(
            model.generator, ids, fraction=config.fraction, seed=config.seed
        )
        drawn = []
        for draw in range(config.draws):
            seed = config.seed + draw
            corrupted = corruption.by_generator(model.generator, ids, fraction=config.fraction, seed=seed)
            drawn.append(
                (
                    token_rows.log_odds(model.discriminator, corrupted.rows),
                    corrupted.replaced,
                    corrupted.advantage,
                )
            )
        odds, replaced, advantage = (
            np.concatenate([np.concatenate(arrays) for arrays in draws]) for draws in zip(*drawn, strict=True)
        )
        sentence = np.repeat(np.arange(len(rows)), [len(row.ids) for row in rows])
        owner = np.concatenate([row.words for row in rows])
        uncertainty = np.tile(
            np.stack([np.concatenate(log_p), np.concatenate(entropy)], axis=1), (config.draws, 1)
        )
        sentence, owner = np.tile(sentence, config.draws), np.tile(owner, config.draws)
        return ScoredTokens(odds, replaced, sentence, owner, uncertainty, advantage)


@dataclass(frozen=True)
class TokenRow:
    """A sentence as the model reads it."""

    ids: Ints
    words: Ints
    """Index of each token's word, counted over all kept sentences."""


def tokenise(sentences: Sequence[Sentence], model: Model) -> tuple[list[Sentence], list[TokenRow]]:
    """Returns the sentences that fit the model, and their rows. Raises ProbeDataError if there are none."""
    tokenizer = model.discriminator.tokenizer
    max_length = token_rows.max_row_length(model.discriminator, model.generator)
    kept, rows, count = [], [], 0
    for sentence in sentences:
        ids = tokenize(tokenizer, " ".join(sentence.words)).ids
        if 1 < len(ids) <= max_length:
            kept.append(sentence)
            rows.append(TokenRow(ids, count + owners(tokenizer, sentence.words)))
            count += len(sentence)
    if not rows:
        raise ProbeDataError(
            "every sentence has one token, or is too long for the model",
            where="bias",
            fix="Use other sentences",
        )
    return kept, rows


def factors(
    sentences: Sequence[Sentence], rows: Sequence[TokenRow], frequency: Mapping[str, int], model: Model
) -> dict[str, list[str]]:
    """Returns, for each factor, the group of every word of the sentences."""
    token_counts = np.bincount(
        np.concatenate([row.words for row in rows]), minlength=sum(map(len, sentences))
    )
    per_word: dict[str, Callable[[int, str, Sentence], str]] = {
        SPEECH: lambda i, _, s: s.columns[0][i],
        "frequency": lambda _, word, __: bin_of(
            frequency.get(word.lower(), 0), (0, 1, 10, 100, 1000), "times"
        ),
        "position": lambda i, _, __: bin_of(i + 1, (1, 2, 4, 11, 21), "word", ordinal=True),
        "sentence length": lambda _, __, s: bin_of(len(s), (1, 6, 16, 31), "words"),
        "capitals": lambda _, word, __: capitalisation(word),
    }
    groups = {
        name: [group(i, word, s) for s in sentences for i, word in enumerate(s.words)]
        for name, group in per_word.items()
    }
    return groups | {"tokens in the word": [bin_of(int(count), (0, 1, 2, 3), "") for count in token_counts]}


def bin_of(value: int, starts: Sequence[int], unit: str, ordinal: bool = False) -> str:
    """Returns the name of a count's bin, such as "6-15 words" or, if ordinal, "word 4-10"."""
    index = max(i for i, start in enumerate(starts) if value >= start)
    last = index + 1 == len(starts)
    first, end = starts[index], None if last else starts[index + 1] - 1
    span = f"{first} and more" if last else f"{first}" if first == end else f"{first}-{end}"
    return f"{unit} {span}" if ordinal else f"{span} {unit}".strip()


def capitalisation(word: str) -> str:
    """Returns the group of a word: "lower case", "Capitalised", "ALL CAPITALS" or "no letters"."""
    if not any(letter.isalpha() for letter in word):
        return "no letters"
    if word.isupper() and len(word) > 1:
        return "ALL CAPITALS"
    return "Capitalised" if word[0].isupper() else "lower case"


def analyse(
    findings: Findings, name: str, scored: ScoredTokens, by_word: Mapping[str, list[str]], config: Config
) -> tuple[dict[str, list[str]], float]:
    """Adds the rates of a model to the findings, overall and by factor.

    Returns:
        Each factor's groups in order, and the P(replaced) from which a token is called replaced.
    """
    ranking = Ranking(scored.log_odds, scored.replaced)
    threshold = ranking.matched_threshold()
    if config.threshold:
        threshold = float(np.log(config.threshold / (1 - config.threshold)))
    called = scored.log_odds >= threshold
    names = {factor: list(dict.fromkeys(sorted(values, key=_natural))) for factor, values in by_word.items()}
    index = {
        factor: np.array([names[factor].index(value) for value in values], np.int64)[scored.word]
        for factor, values in by_word.items()
    }
    members = {KINDS[0]: (~scored.replaced, called), KINDS[1]: (scored.replaced, ~called)}

    def measure(w: Floats) -> dict[str, float]:
        estimates: dict[str, float] = {}
        for kind, (mask, is_error) in members.items():
            events, weights = is_error[mask].astype(np.float64), w[mask]
            estimates[kind] = (
                float(np.average(events, weights=weights)) if weights.sum() > 0 else float("nan")
            )
            for factor, groups in names.items():
                values = adjusted.rates(events, index[factor][mask], len(groups), weights).tolist()
                estimates |= {f"{kind}\t{factor}\t{g}": v for g, v in zip(groups, values, strict=True)}
        return estimates

    estimates = bootstrap.estimates(measure, scored.sentence, resamples=config.resamples, seed=config.seed)
    findings.add_all({kind: estimates[kind] for kind in KINDS}, model=name)
    adjusted_rates = adjust(
        findings, name, scored, members=members, group=index[SPEECH], names=names[SPEECH], config=config
    )
    for factor, groups in names.items():
        for number, group in enumerate(groups):
            for kind, population in zip(KINDS, ("original", "replaced"), strict=True):
                count = int(((index[factor] == number) & members[kind][0]).sum())
                rates: dict[str, Cell] = {population: count, kind: estimates[f"{kind}\t{factor}\t{group}"]}
                if factor == SPEECH and (kind, group) in adjusted_rates:
                    rates[f"{kind}, adjusted"] = adjusted_rates[kind, group]
                too_few = count < FEWEST
                shown = {
                    measured: None if too_few and measured != population else rate
                    for measured, rate in rates.items()
                }
                findings.add_all(shown, model=name, **{factor: group})
    return names, float(sigmoid(np.asarray(threshold)))


def adjust(
    findings: Findings,
    name: str,
    scored: ScoredTokens,
    *,
    members: Mapping[str, tuple[Bools, Bools]],
    group: Ints,
    names: Sequence[str],
    config: Config,
) -> dict[tuple[str, str], Estimate]:
    """Returns the adjusted rates, by kind and part of speech.

    Adds to the findings the share of the part-of-speech effect that uncertainty does not explain.
    """
    adjusted_rates: dict[tuple[str, str], Estimate] = {}
    for kind, (mask, is_error) in members.items():
        if not mask.any():
            continue
        columns = scored.uncertainty[mask]
        if kind == "misses":  # a replacement more plausible than the original is harder to notice
            columns = np.concatenate([columns, scored.advantage[mask, None]], axis=1)
        events = is_error[mask].astype(np.float64)
        model = adjusted.RateModel(events, group[mask], len(names), adjusted.standardise(columns))

        def measure(w: Floats, model: adjusted.RateModel = model) -> dict[str, float]:
            rates = dict(zip(names, model.adjusted(w).tolist(), strict=True))
            return {**rates, "\tremaining": model.remaining_share(w)}

        resampled = {"resamples": config.resamples // 2, "seed": config.seed}
        estimates = bootstrap.estimates(measure, scored.sentence[mask], **resampled)
        remaining = f"of what parts of speech explain of {kind}, left beside uncertainty"
        findings.add(estimates.pop("\tremaining"), model=name, measure=remaining)
        adjusted_rates |= {(kind, group): rate for group, rate in estimates.items()}
    return adjusted_rates


def show(findings: Findings, models: Sequence[str], groups: Mapping[str, list[str]]) -> None:
    """Adds tables and figures to the findings. `groups` maps each factor to the first model's groups."""
    for factor, names in groups.items():
        note = f"Rates of groups with at least {FEWEST} tokens."
        if factor == SPEECH:
            note += " Adjusted: as if the generator were equally uncertain of every part of speech."
        findings.tables.append(Table(f"By {factor}", ("model", factor), note=note))
        for kind in KINDS:
            rates = findings.of(factor, model=models[0], measure=kind)
            kept = [group for group in names if rates[group] is not None]
            if not kept:
                continue
            selection: dict[str, Any] = {"measure": kind, factor: kept}
            series = "model"
            if factor == SPEECH and len(models) == 1:
                selection, series = (
                    {"model": models[0], "measure": [kind, f"{kind}, adjusted"], factor: kept},
                    "measure",
                )
            findings.figures.append(
                Figure(
                    f"{kind}-by-{factor}".replace(" ", "-"),
                    f"{kind.capitalize()} by {factor}",
                    factor,
                    series,
                    selection,
                    "Rates with 95 % intervals.",
                    "rate",
                    "categories",
                    references={"all tokens": findings.of(model=models[0])[kind].value},
                )
            )


def _natural(name: str) -> tuple[int, str]:
    """Returns a sort key that puts bins in the order of their first number."""
    digits = "".join(letter if letter.isdigit() else " " for letter in name).split()
    return (int(digits[0]) if digits else -1, name)
