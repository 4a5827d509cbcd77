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
from typing import ClassVar

import numpy as np

from electra.analysis import contract
from electra.analysis.contract import (
    Cell,
    Data,
    Estimate,
    Figure,
    Input,
    Model,
    ProbeDataError,
    Progress,
    Report,
    Series,
    Table,
)
from electra.analysis.measures import adjusted, bootstrap
from electra.analysis.measures.ranking import Ranking
from electra.analysis.scoring import token_rows
from electra.analysis.scoring.token_rows import Bools, Floats, Ints
from electra.analysis.scoring.words import owners
from electra.analysis.texts import corruption
from electra.analysis.texts.reading import Sentence, sample, universal_dependencies
from electra.interop.detection import split

FEWEST = 20  # tokens of a group, to say anything about it
KINDS = ("false alarms", "misses")


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
    """All judged tokens, [N] each, over the draws. `word`: which word it is a part of, as `factors` counts
    them.
    """

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
    version = 1
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

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Report:
        sentences = sample(universal_dependencies(data["tagged"][0]), self.config.sentences, self.config.seed)
        counted = universal_dependencies(data["frequency"][0]) if "frequency" in data else sentences
        frequency = Counter(word.lower() for one in counted for word in one.words)
        answers: dict[str, Answer] = {}
        notes = [
            "Left beside uncertainty: a share of the deviance. 1: uncertainty explains none of it; above 1:"
            " it had hidden some."
        ]
        for number, model in enumerate(models):
            progress(f"{model.name}: corrupting and judging", (number + 0.1) / len(models))
            kept, rows = tokenised(sentences, model)
            judged = self.judge(model, rows)
            progress(f"{model.name}: adjusting", (number + 0.6) / len(models))
            answers[model.name] = answer = analyse(judged, factors(kept, rows, frequency, model), self.config)
            notes.append(
                f"{model.name}: {len(judged.replaced):,} tokens of {len(kept):,} sentences judged, of which"
                f" {100 * judged.replaced.mean():.1f} % replaced; called replaced from P ="
                f" {answer.threshold:.3f} up."
            )
            if len(kept) < len(sentences):
                notes.append(
                    f"{model.name}: {len(sentences) - len(kept)} sentences left out, longer than the model"
                    " reads."
                )
            if model.tokenizer.encode("A").ids == model.tokenizer.encode("a").ids:
                notes.append(
                    f"{model.name} does not see capitals: its tokenizer lower-cases. Differences there come"
                    " from what the words are."
                )
        if "frequency" not in data:
            notes.append(
                "No training file was given to count words in: frequencies are those of the judged sentences."
            )
        return Report(headline(answers[models[0].name]), tables(answers), figures(answers), notes)

    def judge(self, model: Model, rows: Sequence[Row]) -> Tokens:
        config, ids = self.config, [row.ids for row in rows]
        log_p, entropy = token_rows.uncertainty(
            model.generator, ids, fraction=config.fraction, seed=config.seed
        )
        owner, parts = np.concatenate([row.words for row in rows]), []
        sentence = np.repeat(np.arange(len(rows)), [len(row.ids) for row in rows])
        for draw in range(config.draws):
            made = corruption.by_generator(
                model.generator, ids, fraction=config.fraction, seed=config.seed + draw
            )
            parts.append(
                [
                    np.concatenate(part)
                    for part in (
                        token_rows.log_odds(model.discriminator, made.rows),
                        made.replaced,
                        made.advantage,
                    )
                ]
            )
        odds, replaced, advantage = (np.concatenate(column) for column in zip(*parts, strict=True))
        uncertainty = np.stack([np.concatenate(log_p), np.concatenate(entropy)], axis=1)
        again = config.draws
        return Tokens(
            odds,
            replaced,
            np.tile(sentence, again),
            np.tile(owner, again),
            np.tile(uncertainty, (again, 1)),
            advantage,
        )


@dataclass(frozen=True)
class Row:
    ids: Ints
    words: Ints  # of each token, the number of its word, counted over all kept sentences


def tokenised(sentences: Sequence[Sentence], model: Model) -> tuple[list[Sentence], list[Row]]:
    """The sentences that the model can read whole, and their rows."""
    tokenizer, room = model.discriminator.tokenizer, token_rows.room(model.discriminator, model.generator)
    kept, rows, count = [], [], 0
    for one in sentences:
        ids = split(tokenizer, " ".join(one.words)).ids
        if 1 < len(ids) <= room:
            kept.append(one)
            rows.append(Row(ids, count + owners(tokenizer, one.words)))
            count += len(one)
    if not rows:
        raise ProbeDataError(
            "no sentence that the model can read whole", where="bias", fix="Give other sentences"
        )
    return kept, rows


def factors(
    sentences: Sequence[Sentence], rows: Sequence[Row], frequency: Mapping[str, int], model: Model
) -> dict[str, list[str]]:
    """Factor -> the group of each word, over all sentences."""
    pieces = np.bincount(np.concatenate([row.words for row in rows]), minlength=sum(map(len, sentences)))
    per_word: dict[str, Callable[[int, str, Sentence], str]] = {
        "part of speech": lambda i, _, s: s.columns[0][i],
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


@dataclass(frozen=True)
class Answer:
    threshold: float
    overall: Mapping[str, Estimate]
    groups: Mapping[str, list[str]]  # factor -> its groups
    counts: Mapping[
        tuple[str, str], tuple[int, int]
    ]  # (factor, group) -> how many original, how many replaced tokens
    raw: Mapping[tuple[str, str], Mapping[str, Estimate]]  # (factor, group) -> kind -> rate
    adjusted: Mapping[str, Mapping[str, Estimate]]  # part of speech -> kind -> rate
    remaining: Mapping[str, Estimate]  # kind -> share of what parts of speech explain that is left


def analyse(judged: Tokens, by_word: Mapping[str, list[str]], config: Config) -> Answer:
    ranking = Ranking(judged.log_odds, judged.replaced)
    threshold = (
        ranking.matched_threshold()
        if config.threshold == 0
        else float(np.log(config.threshold / (1 - config.threshold)))
    )
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
            found[kind] = _mean(event[among], w[among])
            for factor, groups in names.items():
                values = adjusted.rates(
                    event[among].astype(np.float64), index[factor][among], len(groups), w[among]
                )
                found |= {
                    f"{kind}\t{factor}\t{group}": value
                    for group, value in zip(groups, values.tolist(), strict=True)
                }
        return found

    found = bootstrap.estimates(measure, judged.sentence, resamples=config.resamples, seed=config.seed)
    counts = {
        (factor, group): (
            int(((index[factor] == n) & ~judged.replaced).sum()),
            int(((index[factor] == n) & judged.replaced).sum()),
        )
        for factor, groups in names.items()
        for n, group in enumerate(groups)
    }
    raw = {
        (factor, group): {kind: found[f"{kind}\t{factor}\t{group}"] for kind in KINDS}
        for factor, group in counts
    }
    even, remaining = adjust(judged, members, index["part of speech"], names["part of speech"], config)
    probability = float(1 / (1 + np.exp(-threshold)))
    return Answer(probability, {kind: found[kind] for kind in KINDS}, names, counts, raw, even, remaining)


def adjust(
    judged: Tokens,
    members: Mapping[str, tuple[Bools, Bools]],
    group: Ints,
    names: Sequence[str],
    config: Config,
) -> tuple[dict[str, dict[str, Estimate]], dict[str, Estimate]]:
    """Each part of speech's rates with the generator's uncertainty held equal, and what parts of speech still
    explain.
    """
    even: dict[str, dict[str, Estimate]] = {name: {} for name in names}
    remaining: dict[str, Estimate] = {}
    for kind, (among, event) in members.items():
        if not among.any():
            continue
        columns = judged.uncertainty[among]
        if kind == "misses":  # a replacement that fits better than the truth is harder to see
            columns = np.concatenate([columns, judged.advantage[among, None]], axis=1)
        model = adjusted.Model(
            event[among].astype(np.float64), group[among], len(names), adjusted.standardise(columns)
        )

        def measure(w: Floats, model: adjusted.Model = model) -> dict[str, float]:
            return {
                **dict(zip(names, model.adjusted(w).tolist(), strict=True)),
                "\tremaining": model.remaining(w),
            }

        found = bootstrap.estimates(
            measure, judged.sentence[among], resamples=config.resamples // 2, seed=config.seed
        )
        remaining[kind] = found["\tremaining"]
        for name in names:
            even[name][kind] = found[name]
    return even, remaining


def headline(answer: Answer) -> dict[str, Estimate]:
    found = {kind: answer.overall[kind] for kind in KINDS}
    for kind, left in answer.remaining.items():
        found[f"of what parts of speech explain of {kind}, left beside uncertainty"] = left
    return found


def tables(answers: Mapping[str, Answer]) -> list[Table]:
    found = []
    for factor in next(iter(answers.values())).groups:
        speech = factor == "part of speech"
        rows: list[list[Cell]] = []
        for model, answer in answers.items():
            for group in answer.groups[factor]:
                counts, raw = answer.counts[factor, group], answer.raw[factor, group]
                shown = [
                    raw[kind] if count >= FEWEST else None for kind, count in zip(KINDS, counts, strict=True)
                ]
                even = (
                    [
                        answer.adjusted[group].get(kind) if count >= FEWEST else None
                        for kind, count in zip(KINDS, counts, strict=True)
                    ]
                    if speech
                    else []
                )
                cells = [counts[0], shown[0], *even[:1], counts[1], shown[1], *even[1:]]
                rows.append([model, group, *cells])
        columns = (
            "model",
            factor,
            "original",
            "false alarms",
            *(["adjusted"] if speech else []),
            "replaced",
            "misses",
            *(["adjusted"] if speech else []),
        )
        note = f"Rates, of groups with {FEWEST} tokens or more."
        if speech:
            note += (
                " Adjusted: if the generator were as uncertain of every part of speech as it is on average."
            )
        found.append(Table(f"By {factor}", columns, rows, note))
    return found


def figures(answers: Mapping[str, Answer]) -> list[Figure]:
    first = next(iter(answers.values()))
    drawn = []
    for factor, groups in first.groups.items():
        for place, kind in enumerate(KINDS):
            kept = [group for group in groups if first.counts[factor, group][place] >= FEWEST]
            if not kept:
                continue
            if factor == "part of speech" and len(answers) == 1:
                sides = {
                    "as it is": first.raw,
                    "uncertainty held equal": {(factor, g): first.adjusted[g] for g in kept},
                }
            else:
                sides = {model: answer.raw for model, answer in answers.items()}
            series = [
                Series.of(
                    label, kept, [rate.get((factor, g), {}).get(kind, Estimate(None)) for g in kept], "points"
                )
                for label, rate in sides.items()
            ]
            mean = first.overall[kind].value
            series.append(Series("all tokens", kept[:1], [mean], style="reference"))
            slug = f"{kind}-by-{factor}".replace(" ", "-")
            drawn.append(
                Figure(
                    slug,
                    f"{kind.capitalize()} by {factor}",
                    "Rates with 95 % intervals.",
                    "rate",
                    "",
                    series,
                    kind="categories",
                )
            )
    return drawn


def _mean(event: Bools, weights: Floats) -> float:
    return float(np.average(event, weights=weights)) if weights.sum() > 0 else float("nan")


def _natural(name: str) -> tuple[int, str]:
    """Bins in the order of their first number."""
    digits = "".join(letter if letter.isdigit() else " " for letter in name).split()
    return (int(digits[0]) if digits else -1, name)
