"""Bias: on which words does a discriminator raise false alarms, and which replacements does it miss?

Sentences with gold parts of speech (Universal Dependencies) are corrupted by the model's own generator, as in
training. A false alarm is an original token called replaced; a miss is a replaced token called original.
Rates are given by part of speech, frequency, position, tokens in the word, sentence length and capitals,
always of the word that stood there first. Some words are harder for everyone: what remains of each part of
speech's rate once the generator's uncertainty is held equal is computed by logistic regression (`adjusted`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

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
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.words import owners
from electra.laboratory.analysis.texts import corruption
from electra.laboratory.analysis.texts.sampling import sample

FEWEST = 20  # tokens of a group, to say anything about it
KINDS = ("false alarms", "misses")
SPEECH = "part of speech"


@dataclass(frozen=True)
class Config:
    sentences: int = 1000
    """Sentences, drawn from the file (0: all)."""
    draws: int = 2
    """How often each sentence is corrupted anew."""
    fraction: float = corruption.FRACTION
    """Share of the tokens that the generator draws anew."""
    threshold: float = 0.0
    """P(replaced) from which a token is called replaced. 0: the one that raises as many alarms as there are
    replaced tokens.
    """
    resamples: int = 200
    """Bootstrap samples of an interval; the adjusted rates take half of them."""
    seed: int = 0
    """Seed of samples, masks and bootstrap."""


@dataclass(frozen=True)
class Tokens:
    """All judged tokens, [N] each, over the draws. `word`: whose part it is, as `factors` counts them."""

    log_odds: Floats
    replaced: Bools
    sentence: Ints
    word: Ints
    uncertainty: Floats  # [N, 2] the generator's log p of what stood there, and its entropy
    advantage: Floats  # log p(sample) - log p(truth) where a token was drawn, else NaN


class Probe(contract.Probe):
    title = "Bias"
    question = (
        "Which words does it suspect wrongly, and which replacements does it miss, beyond what the"
        " generator's uncertainty explains?"
    )
    source = "No published answer. Adjustment: Lane and Nelder 1982."
    version = 2  # 2: read in other batches, which moves last digits
    needs = ("discriminator", "generator")
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {"false alarms": (1.0, 0.0), "misses": (0.0, 0.0)}
    config: Config

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

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        sentences = sample(universal_dependencies(data["tagged"][0]), self.config.sentences, self.config.seed)
        counted = universal_dependencies(data["frequency"][0]) if "frequency" in data else sentences
        frequency = Counter(word.lower() for one in counted for word in one.words)
        findings, groups = Findings(), dict[str, list[str]]()
        findings.notes.append(
            "Left beside uncertainty: a share of the deviance. 1: uncertainty explains none of it; above 1:"
            " it had hidden some."
        )
        for number, model in enumerate(models):
            progress(f"{model.name}: corrupting and judging", (number + 0.1) / len(models))
            kept, rows = tokenised(sentences, model)
            judged = self.judge(model, rows)
            progress(f"{model.name}: adjusting", (number + 0.6) / len(models))
            by_word = factors(kept, rows, frequency, model)
            named, threshold = analyse(findings, model.name, judged, by_word, self.config)
            groups = groups or named
            findings.notes += self.notes(model, judged, threshold, len(kept), len(sentences))
        if "frequency" not in data:
            findings.notes.append(
                "No training file was given to count words in: frequencies are those of the judged sentences."
            )
        overall = findings.of(model=models[0].name)
        findings.headline.update({kind: overall[kind] for kind in KINDS})
        findings.headline.update({name: one for name, one in overall.items() if name.startswith("of what")})
        show(findings, [model.name for model in models], groups)
        return findings

    def notes(self, model: Model, judged: Tokens, threshold: float, kept: int, given: int) -> list[str]:
        said = [
            f"{model.name}: {len(judged.replaced):,} tokens of {kept:,} sentences judged, of which"
            f" {100 * judged.replaced.mean():.1f} % replaced; marked from P = {threshold:.3f} up."
        ]
        if kept < given:
            said.append(f"{model.name}: {given - kept} sentences left out, longer than the model reads.")
        if model.tokenizer.encode("A").ids == model.tokenizer.encode("a").ids:
            said.append(
                f"{model.name} does not see capitals: its tokenizer lower-cases. Differences there come from"
                " what the words are."
            )
        return said

    def judge(self, model: Model, rows: Sequence[Row]) -> Tokens:
        config, ids = self.config, [row.ids for row in rows]
        log_p, entropy = token_rows.uncertainty(
            model.generator, ids, fraction=config.fraction, seed=config.seed
        )
        drawn = []
        for draw in range(config.draws):
            seed = config.seed + draw
            made = corruption.by_generator(model.generator, ids, fraction=config.fraction, seed=seed)
            drawn.append((token_rows.log_odds(model.discriminator, made.rows), made.replaced, made.advantage))
        odds, replaced, advantage = (
            np.concatenate([np.concatenate(row) for row in rows]) for rows in zip(*drawn, strict=True)
        )
        sentence = np.repeat(np.arange(len(rows)), [len(row.ids) for row in rows])
        owner = np.concatenate([row.words for row in rows])
        uncertainty = np.tile(
            np.stack([np.concatenate(log_p), np.concatenate(entropy)], axis=1), (config.draws, 1)
        )
        sentence, owner = np.tile(sentence, config.draws), np.tile(owner, config.draws)
        return Tokens(odds, replaced, sentence, owner, uncertainty, advantage)


@dataclass(frozen=True)
class Row:
    ids: Ints
    words: Ints  # of each token, the number of its word, counted over all kept sentences


def tokenised(sentences: Sequence[Sentence], model: Model) -> tuple[list[Sentence], list[Row]]:
    """The sentences that the model can read whole, and their rows."""
    tokenizer, room = model.discriminator.tokenizer, token_rows.room(model.discriminator, model.generator)
    kept, rows, count = [], [], 0
    for one in sentences:
        ids = tokenize(tokenizer, " ".join(one.words)).ids
        if 1 < len(ids) <= room:
            kept.append(one)
            rows.append(Row(ids, count + owners(tokenizer, one.words)))
            count += len(one)
    if not rows:
        raise ProbeDataError(
            "every sentence is of one token, or longer than the model reads", where="bias", fix="Give others"
        )
    return kept, rows


def factors(
    sentences: Sequence[Sentence], rows: Sequence[Row], frequency: Mapping[str, int], model: Model
) -> dict[str, list[str]]:
    """Factor -> the group of each word, over all sentences."""
    pieces = np.bincount(np.concatenate([row.words for row in rows]), minlength=sum(map(len, sentences)))
    per_word: dict[str, Callable[[int, str, Sentence], str]] = {
        SPEECH: lambda i, _, s: s.columns[0][i],
        "frequency": lambda _, word, __: binned(
            frequency.get(word.lower(), 0), (0, 1, 10, 100, 1000), "times"
        ),
        "position": lambda i, _, __: binned(i + 1, (1, 2, 4, 11, 21), "word", ordinal=True),
        "sentence length": lambda _, __, s: binned(len(s), (1, 6, 16, 31), "words"),
        "capitals": lambda _, word, __: capitals(word),
    }
    found = {
        name: [group(i, word, s) for s in sentences for i, word in enumerate(s.words)]
        for name, group in per_word.items()
    }
    return found | {"tokens in the word": [binned(int(count), (0, 1, 2, 3), "") for count in pieces]}


def binned(value: int, starts: Sequence[int], unit: str, ordinal: bool = False) -> str:
    """The bin of a count: "4-10 words", "31 and more words"."""
    index = max(i for i, start in enumerate(starts) if value >= start)
    last = index + 1 == len(starts)
    first, end = starts[index], None if last else starts[index + 1] - 1
    span = f"{first} and more" if last else f"{first}" if first == end else f"{first}-{end}"
    return f"{unit} {span}" if ordinal else f"{span} {unit}".strip()


def capitals(word: str) -> str:
    if not any(letter.isalpha() for letter in word):
        return "no letters"
    if word.isupper() and len(word) > 1:
        return "ALL CAPITALS"
    return "Capitalised" if word[0].isupper() else "lower case"


def analyse(
    findings: Findings, name: str, judged: Tokens, by_word: Mapping[str, list[str]], config: Config
) -> tuple[dict[str, list[str]], float]:
    """Every rate of a model, overall and by factor. Returns each factor's groups, in order, and the
    P(replaced) from which a token is called replaced.
    """
    ranking = Ranking(judged.log_odds, judged.replaced)
    threshold = ranking.matched_threshold()
    if config.threshold:
        threshold = float(np.log(config.threshold / (1 - config.threshold)))
    called = judged.log_odds >= threshold
    names = {factor: list(dict.fromkeys(sorted(values, key=_natural))) for factor, values in by_word.items()}
    index = {
        f: np.array([names[f].index(value) for value in values], np.int64)[judged.word]
        for f, values in by_word.items()
    }
    members = {KINDS[0]: (~judged.replaced, called), KINDS[1]: (judged.replaced, ~called)}

    def measure(w: Floats) -> dict[str, float]:
        found: dict[str, float] = {}
        for kind, (among, event) in members.items():
            happened, weights = event[among].astype(np.float64), w[among]
            found[kind] = float(np.average(happened, weights=weights)) if weights.sum() > 0 else float("nan")
            for factor, groups in names.items():
                values = adjusted.rates(happened, index[factor][among], len(groups), weights).tolist()
                found |= {f"{kind}\t{factor}\t{g}": v for g, v in zip(groups, values, strict=True)}
        return found

    found = bootstrap.estimates(measure, judged.sentence, resamples=config.resamples, seed=config.seed)
    findings.add_all({kind: found[kind] for kind in KINDS}, model=name)
    even = adjust(
        findings, name, judged, members=members, group=index[SPEECH], names=names[SPEECH], config=config
    )
    for factor, groups in names.items():
        for number, group in enumerate(groups):
            for kind, among in zip(KINDS, ("original", "replaced"), strict=True):
                count = int(((index[factor] == number) & members[kind][0]).sum())
                rates: dict[str, Cell] = {among: count, kind: found[f"{kind}\t{factor}\t{group}"]}
                if factor == SPEECH and (kind, group) in even:
                    rates[f"{kind}, adjusted"] = even[kind, group]
                few = count < FEWEST
                shown = {
                    measured: None if few and measured != among else rate for measured, rate in rates.items()
                }
                findings.add_all(shown, model=name, **{factor: group})
    return names, float(1 / (1 + np.exp(-threshold)))


def adjust(
    findings: Findings,
    name: str,
    judged: Tokens,
    *,
    members: Mapping[str, tuple[Bools, Bools]],
    group: Ints,
    names: Sequence[str],
    config: Config,
) -> dict[tuple[str, str], Estimate]:
    """Each part of speech's rates at equal uncertainty of the generator, and what is left to explain."""
    even: dict[tuple[str, str], Estimate] = {}
    for kind, (among, event) in members.items():
        if not among.any():
            continue
        columns = judged.uncertainty[among]
        if kind == "misses":  # a replacement that fits better than the truth is harder to see
            columns = np.concatenate([columns, judged.advantage[among, None]], axis=1)
        happened = event[among].astype(np.float64)
        model = adjusted.Model(happened, group[among], len(names), adjusted.standardise(columns))

        def measure(w: Floats, model: adjusted.Model = model) -> dict[str, float]:
            rates = dict(zip(names, model.adjusted(w).tolist(), strict=True))
            return {**rates, "\tremaining": model.remaining(w)}

        resampled = {"resamples": config.resamples // 2, "seed": config.seed}
        found = bootstrap.estimates(measure, judged.sentence[among], **resampled)
        remaining = f"of what parts of speech explain of {kind}, left beside uncertainty"
        findings.add(found.pop("\tremaining"), model=name, measure=remaining)
        even |= {(kind, group): rate for group, rate in found.items()}
    return even


def show(findings: Findings, models: Sequence[str], groups: Mapping[str, list[str]]) -> None:
    """`groups`: factor -> its groups among the first model's words."""
    for factor, of_it in groups.items():
        note = f"Rates, of groups with {FEWEST} tokens or more."
        if factor == SPEECH:
            note += (
                " Adjusted: if the generator were as uncertain of every part of speech as it is on average."
            )
        findings.tables.append(Table(f"By {factor}", ("model", factor), note=note))
        for kind in KINDS:
            rates = findings.of(factor, model=models[0], measure=kind)
            kept = [group for group in of_it if rates[group] is not None]
            if not kept:
                continue
            keep: dict[str, Any] = {"measure": kind, factor: kept}
            series = "model"
            if factor == SPEECH and len(models) == 1:
                keep, series = (
                    {"model": models[0], "measure": [kind, f"{kind}, adjusted"], factor: kept},
                    "measure",
                )
            findings.figures.append(
                Figure(
                    f"{kind}-by-{factor}".replace(" ", "-"),
                    f"{kind.capitalize()} by {factor}",
                    factor,
                    series,
                    keep,
                    "Rates with 95 % intervals.",
                    "rate",
                    "categories",
                    references={"all tokens": findings.of(model=models[0])[kind].value},
                )
            )


def _natural(name: str) -> tuple[int, str]:
    """Bins in the order of their first number."""
    digits = "".join(letter if letter.isdigit() else " " for letter in name).split()
    return (int(digits[0]) if digits else -1, name)
