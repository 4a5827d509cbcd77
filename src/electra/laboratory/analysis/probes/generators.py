"""Does a discriminator learn the language, or its generator?

A matrix: each discriminator against text made wrong in ways it was not trained on. Tokens replaced by each
model's generator, by any token (uniform) or by frequent ones (unigram); words swapped with their neighbour; a
form of be, have, do or this made to disagree; one word of a BLiMP agreement pair; what learners get wrong. A
discriminator that knows only its generator's habits does well in one column.

Then, how plausible was the replacement? Its advantage is log p(replacement) - log p(truth) by the generator
that made it: from 0 up, the generator holds the new sentence to be at least as good as the old one, and
"replaced" is a label that the text does not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from electra.finetuning.labelled.sentence_pairs import read_minimal_pairs
from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.foundation.errors import ConfigError
from electra.inference.detection import require_log_odds
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import (
    Cell,
    Data,
    Figure,
    Findings,
    Input,
    Model,
    Network,
    Progress,
    Table,
    require_same_vocabulary,
)
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.measures.reliability import log_loss, sigmoid
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.words import Combine, suspicion, word_values
from electra.laboratory.analysis.texts import corruption, held_out, learners
from electra.laboratory.analysis.texts.sampling import sample

Kind = Literal["generators", "uniform", "unigram", "swaps", "agreement", "pairs", "learners"]
OF_TOKENS = ("generators", "uniform", "unigram")
TITLES = {
    "uniform": "any token",
    "unigram": "frequent tokens",
    "swaps": "swapped words",
    "agreement": "broken agreement",
    "pairs": "BLiMP agreement",
    "learners": "learners' errors",
}
EDGES = (-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0)  # of the bins of advantage
CENTRES = (EDGES[0] - 1, *((a + b) / 2 for a, b in pairwise(EDGES)), EDGES[-1] + 1)
ADVANTAGE, PLAUSIBLE = "advantage, nats", "at least as plausible as the truth"
PLAUSIBILITY = "How plausible the replacement was"
FEWEST = 20  # replacements in a bin, to say anything about it
PAIR: tuple[Network, ...] = ("discriminator", "generator")


@dataclass(frozen=True)
class Config:
    kinds: tuple[Kind, ...] = ("generators", "uniform", "unigram", "swaps", "agreement", "pairs", "learners")
    """Which ways of making text wrong. The first three compare token ids: all models must have one
    vocabulary.
    """
    rows: int = 128
    """Rows of held-out text, for replaced tokens."""
    length: int = 128
    """Their length in tokens, with [CLS] and [SEP]."""
    sentences: int = 1000
    """Sentences for edited words, and learners' sentences."""
    fraction: float = corruption.FRACTION
    """Share of the tokens that are drawn anew."""
    combine: Combine = "max"
    """How the tokens of a word make the word's score."""
    language: learners.Language = "en"
    """Whose learners: en (FCE) or de (Falko-MERLIN). Agreement is edited, and BLiMP read, in English only."""
    resamples: int = 200
    """Bootstrap samples of an interval."""
    seed: int = 0
    """Seed of masks, samples, edits and bootstrap."""


Text = Ints | Sequence[str]
"""A row of token ids, or a sentence as words."""


@dataclass(frozen=True)
class Wrong:
    """Text made wrong in one way. Tokens, judged by id, or words, judged by any model."""

    texts: Sequence[Text]
    labels: Sequence[Bools]
    before: Sequence[Text] | None  # the same texts, right; None where nobody knows them
    advantage: Sequence[Floats] = ()
    log_truth: float | None = None  # the generator's mean log p of what stood there
    correct: float | None = None  # how often its sample was what stood there


class Probe(contract.Probe):
    title = "The language, or its generator?"
    question = (
        "Does the discriminator notice what another generator, chance, an edit or a learner did? What of"
        " replacements that fit?"
    )
    source = "Asked by readers of the paper since 2020; the paper compares generators only by fine-tuning."
    version = 2  # 2: read in other batches, which moves last digits
    needs = ()
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        f"AUC, {name}": (0.5, 1.0) for name in ("its own generator", *TITLES.values())
    }
    config: Config

    def inputs(self) -> tuple[Input, ...]:
        asked = self.config.kinds
        wanted: list[Input] = [
            held_out.text_input(required=any(kind in asked for kind in (*OF_TOKENS, "swaps", "agreement")))
        ]
        if "pairs" in asked:
            wanted.append(
                Input(
                    "pairs",
                    "BLiMP's agreement paradigms",
                    ("blimp/*agreement*.jsonl*", "*agreement*.jsonl*"),
                    required=False,
                )
            )
        if "learners" in asked:
            wanted.append(learners.learner_inputs(self.config.language, required=False)[0])
        return tuple(wanted)

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        judges = [
            model for model in models if model is models[0] or model.optional("discriminator") is not None
        ]
        models[0].network("discriminator")
        for judge in judges:
            require_log_odds(judge.discriminator)
        progress("making text wrong", 0.0)
        made = self.make(models, data)
        if not made:
            raise ConfigError("no data for any of the kinds", where="kinds", fix="Give `data` with text")
        findings = Findings()
        for number, judge in enumerate(judges):
            known: dict[int, Floats] = {}
            for place, name in enumerate(made):
                progress(f"{judge.name} judges {name}", (number + place / len(made)) / len(judges))
                self.judge(findings, judge, name, made[name], known)
        show(findings, made, judges)
        findings.notes += [f"{name}: {_size(wrong)}." for name, wrong in made.items()]
        findings.notes += [
            f"{model.name} has no discriminator: only its generator takes part."
            for model in models
            if model not in judges
        ]
        return findings

    def make(self, models: Sequence[Model], data: Data) -> dict[str, Wrong]:
        """Column -> text made wrong, the same for every judge."""
        config, made = self.config, dict[str, Wrong]()
        if any(kind in OF_TOKENS for kind in config.kinds):
            fix = (
                "Give models of one tokenizer, or compare words only: `probe_option`"
                " kinds=swaps,agreement,pairs,learners"
            )
            require_same_vocabulary(models, "replacing tokens", fix)
            made |= self.replace_tokens(models, data["text"])
        keys = seeds.keys(config.seed, "analysis/edit", 0, np.arange(config.sentences))
        if "swaps" in config.kinds or "agreement" in config.kinds:
            plain = held_out.held_out_sentences(models[0].tokenizer, data["text"], count=config.sentences)
            for kind, edit in (("swaps", corruption.swap_words), ("agreement", corruption.break_agreement)):
                if kind in config.kinds and (kind != "agreement" or config.language == "en"):
                    edits = [edit(words, int(key)) for words, key in zip(plain, keys, strict=False)]
                    made[TITLES[kind]] = _of_words(
                        [(words, *edited) for words, edited in zip(plain, edits, strict=True)]
                    )
        if "pairs" in config.kinds and "pairs" in data and config.language == "en":
            made[TITLES["pairs"]] = _of_words(agreement_pairs(data["pairs"], config.sentences, config.seed))
        if "learners" in config.kinds and "learners" in data:
            chosen = sample(learners.read_learners(data["learners"][0]), config.sentences, config.seed)
            made[TITLES["learners"]] = Wrong(
                [s.words for s in chosen], [np.array(s.columns[0]) != learners.CORRECT for s in chosen], None
            )
        return {name: wrong for name, wrong in made.items() if any(label.any() for label in wrong.labels)}

    def replace_tokens(self, models: Sequence[Model], paths: Sequence[Path]) -> dict[str, Wrong]:
        config, tokenizer, made = self.config, models[0].tokenizer, dict[str, Wrong]()
        networks = [network for model in models for kind in PAIR if (network := model.optional(kind))]
        room = min(config.length - 2, token_rows.room(*networks))
        rows = held_out.held_out_rows(tokenizer, paths, length=room, count=config.rows)
        for model in models if "generators" in config.kinds else ():
            generator = model.optional("generator")
            if generator is not None:
                found = corruption.by_generator(generator, rows, fraction=config.fraction, seed=config.seed)
                drawn, new = np.concatenate(found.chosen), np.concatenate(found.replaced)
                log_truth = float(np.nanmean(np.concatenate(found.log_truth)))
                made[own(model.name)] = Wrong(
                    found.rows, found.replaced, rows, found.advantage, log_truth, float(1 - new[drawn].mean())
                )
        ordinary = np.ones(tokenizer.vocab_size)
        ordinary[list(tokenizer.specials)] = 0.0
        counts = np.bincount(np.concatenate(rows), minlength=tokenizer.vocab_size) * ordinary
        for kind, frequency in (("uniform", ordinary), ("unigram", counts)):
            if kind in config.kinds:
                found = corruption.by_frequency(rows, frequency, fraction=config.fraction, seed=config.seed)
                made[TITLES[kind]] = Wrong(found.rows, found.replaced, rows)
        return made

    def judge(
        self, findings: Findings, model: Model, name: str, wrong: Wrong, known: dict[int, Floats]
    ) -> None:
        """`known`: what this model said of right texts, by their list, which several kinds of wrong share."""
        z, labels = self.log_odds(model, wrong.texts), np.concatenate(wrong.labels)
        rise = advantage = np.full(len(z), np.nan)
        if wrong.before is not None:
            if id(wrong.before) not in known:
                known[id(wrong.before)] = self.log_odds(model, wrong.before)
            rise = z - known[id(wrong.before)]
        if wrong.advantage:
            advantage = np.concatenate(wrong.advantage)
        sentence = np.repeat(np.arange(len(wrong.labels)), [len(values) for values in wrong.labels])
        kept = np.isfinite(z)  # a word without tokens cannot be judged
        judged = Judged(z[kept], labels[kept], sentence[kept], advantage[kept], rise[kept])
        analyse(findings, judged, self.config, model.name, name)

    def log_odds(self, model: Model, given: Sequence[Text]) -> Floats:
        if isinstance(given[0], np.ndarray):
            return np.concatenate(
                token_rows.log_odds(model.discriminator, [np.asarray(row, np.int64) for row in given])
            )
        sentences = [[str(word) for word in words] for words in given]
        return np.concatenate(
            word_values(model.discriminator, sentences, "odds", suspicion, how=self.config.combine)
        )


def own(model: str) -> str:
    return f"generator of {model}"


def _of_words(edited: Sequence[tuple[Sequence[str], Sequence[str], Bools]]) -> Wrong:
    """Out of (right, wrong, where). Only sentences with something wrong in them."""
    kept = [(right, words, labels) for right, words, labels in edited if labels.any()]
    return Wrong(
        [words for _, words, _ in kept], [labels for *_, labels in kept], [right for right, *_ in kept]
    )


def _size(wrong: Wrong) -> str:
    labels = np.concatenate(wrong.labels)
    unit = "tokens" if isinstance(wrong.texts[0], np.ndarray) else "words"
    return f"{len(labels):,} {unit} in {len(wrong.labels):,} rows, {100 * labels.mean():.1f} % wrong"


def agreement_pairs(paths: Sequence[Path], count: int, seed: int) -> list[tuple[list[str], list[str], Bools]]:
    """(good, bad, where) of minimal pairs that differ in one word; as many of each file."""
    found: list[tuple[list[str], list[str], Bools]] = []
    for path in paths:
        paradigm, of_file = read_minimal_pairs(path), []
        for pair in zip(paradigm.good, paradigm.bad, strict=True):
            good, bad = (held_out.words_of(sentence) for sentence in pair)
            if len(good) == len(bad) and (differs := np.array(good) != np.array(bad)).sum() == 1:
                of_file.append((good, bad, differs))
        found += sample(of_file, max(1, count // len(paths)), seed)
    return found


@dataclass(frozen=True)
class Judged:
    """Tokens or words [N] of one kind of wrong, as one discriminator judges them."""

    log_odds: Floats
    wrong: Bools
    sentence: Ints
    advantage: Floats  # NaN where nothing was drawn
    rise: Floats  # of the log-odds over those before the text was made wrong; NaN where that is not known


def analyse(findings: Findings, judged: Judged, config: Config, model: str, kind: str) -> None:
    ranking, y = Ranking(judged.log_odds, judged.wrong), judged.wrong.astype(np.float64)
    p, called = sigmoid(judged.log_odds), judged.log_odds >= ranking.matched_threshold()
    drawn, paired = (judged.wrong & np.isfinite(column) for column in (judged.advantage, judged.rise))
    rises = (judged.rise[paired] > 0) + 0.5 * (judged.rise[paired] == 0)
    bins, size = np.digitize(judged.advantage[drawn], EDGES), len(EDGES) + 1

    def measure(w: Floats) -> dict[str, float]:
        base = float((w * y).sum() / w.sum())
        entropy = -sum(q * np.log(q) for q in (base, 1 - base) if q > 0)
        inside, hit = np.bincount(bins, w[drawn], size), np.bincount(bins, w[drawn] * called[drawn], size)
        return {
            "AUC": ranking.auc(w),
            "rise": float(np.average(rises, weights=w[paired])) if w[paired].sum() > 0 else float("nan"),
            "average precision": ranking.average_precision(w),
            "base rate": base,
            "gain": entropy - log_loss(p, y, w),
            PLAUSIBLE: inside[-1] / inside.sum() if inside.sum() > 0 else float("nan"),
            **{str(b): hit[b] / inside[b] if inside[b] > 0 else float("nan") for b in range(size)},
        }

    found = bootstrap.estimates(measure, judged.sentence, resamples=config.resamples, seed=config.seed)
    at = {"model": model, "wrong by": kind}
    for number, count in enumerate(np.bincount(bins, minlength=size).tolist()):
        share, place = found.pop(str(number)), CENTRES[number]
        if count >= FEWEST:
            cells: dict[str, Cell] = {"bin": _bin_names()[number], "replacements": count, "found": share}
            findings.add_all(cells, "measure", **at, **{ADVANTAGE: place})
            if kind == own(model):
                findings.add(share, measure="found", model=model, **{ADVANTAGE: place})
    findings.add_all(found, **at)


def show(findings: Findings, made: Mapping[str, Wrong], judges: Sequence[Model]) -> None:
    measures = ("AUC", "rise", "average precision", "base rate", "gain")
    first, makers = judges[0].name, [name for name in made if made[name].advantage]
    for name in made:
        label = "its own generator" if name == own(first) else name
        findings.headline[f"AUC, {label}"] = findings.of(**{"model": first, "wrong by": name})["AUC"]
    if own(first) in made:
        plausible = findings.of(**{"model": first, "wrong by": own(first)})[PLAUSIBLE]
        findings.headline["replacements at least as plausible as the truth"] = plausible
    note = (
        "AUC: P(a wrong word is more suspicious than a right one), chance 0.5. Rise: P(the place is more"
        " suspicious than before it was made wrong), chance 0.5: what kind of word stands there cancels out."
        " Average precision: chance is the base rate. Gain: nats per token or word better than the base"
        " rate; below 0 the probabilities do not fit this kind."
    )
    title, keep = "Each discriminator on each kind of wrong", {"measure": measures}
    findings.tables.append(Table(title, ("model", "wrong by"), keep=keep, note=note))
    if makers:
        note = "Found: called replaced at the threshold that raises as many alarms as there are replacements."
        findings.tables.append(Table(PLAUSIBILITY, ("model", "wrong by", ADVANTAGE), note=note))
        of_generators(findings, made, judges, makers)
    kinds = {"measure": "AUC", "wrong by": list(made)}
    if len(judges) > 1:
        note = "Rows: discriminators. Columns: what made the text wrong."
        matrix = Figure(
            "matrix", "AUC of each discriminator", "wrong by", "model", kinds, note, kind="matrix"
        )
        findings.figures.append(matrix)
    note = "How well wrong words are told from right ones, 95 % intervals."
    chance = {"chance": 0.5}
    noticed = Figure(
        "kinds", "What is noticed", "wrong by", "model", kinds, note, "AUC", "categories", chance
    )
    findings.figures.append(noticed)
    if makers:
        note = (
            "Advantage: log p(replacement) - log p(truth) by its generator: from 0 on it fits at least as"
            " well. End bins hold all beyond."
        )
        found, series = {"measure": "found"}, "model"
        if len(judges) == 1:
            found, series = {**found, "model": first}, "wrong by"
        plausible = Figure(
            "plausibility", PLAUSIBILITY, ADVANTAGE, series, found, note, "share found", y_range=(0.0, 1.0)
        )
        findings.figures.append(plausible)


def of_generators(
    findings: Findings, made: Mapping[str, Wrong], judges: Sequence[Model], makers: Sequence[str]
) -> None:
    """Each generator, beside what its discriminator notices of other kinds of wrong."""
    for judge in judges:
        name = own(judge.name)
        if name in makers:
            generator, wrong = judge.generator.config, made[name]
            found = {other: findings.of(**{"model": judge.name, "wrong by": other}) for other in made}
            numbers: dict[str, Cell] = {
                "generator": f"{generator.num_layers} layers of {generator.hidden_size}",
                "its loss": None if wrong.log_truth is None else -wrong.log_truth,
                "samples that are right": wrong.correct,
                "at least as plausible": found[name][PLAUSIBLE],
                "AUC, its own": found[name]["AUC"],
            }
            numbers |= {f"AUC, {other}": found[other]["AUC"] for other in made if other not in makers}
            findings.add_all(numbers, model=judge.name)
    title = "How good the generator is, and what its discriminator notices elsewhere"
    note = (
        "Loss: nats for each drawn token. At least as plausible: of its replacements, the share with an"
        " advantage from 0 up."
    )
    findings.tables.append(Table(title, ("model",), note=note))


def _bin_names() -> list[str]:
    low = [f"below {EDGES[0]:g}", *(f"{a:g} to {b:g}" for a, b in pairwise(EDGES))]
    return [*low, f"{EDGES[-1]:g} and more"]
