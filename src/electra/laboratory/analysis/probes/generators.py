"""Generalisation: whether a discriminator has learned the language, or only its own generator.

A matrix of discriminators against text corrupted in ways they were not trained on: tokens replaced by each
model's generator, by any token (uniform) or by frequent ones (unigram); words swapped with their neighbour; a
form of be, have, do or this made to disagree; one word of a BLiMP agreement pair; learners' errors. A
discriminator that knows only its generator's habits does well in one column.

Also, the plausibility of a replacement: its advantage is log p(replacement) - log p(original) by the
generator that made it. From 0 on, the generator finds the new sentence at least as good as the original, and
the label "replaced" cannot be inferred from the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

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
TOKEN_KINDS = ("generators", "uniform", "unigram")
TITLES = {
    "uniform": "any token",
    "unigram": "frequent tokens",
    "swaps": "swapped words",
    "agreement": "broken agreement",
    "pairs": "BLiMP agreement",
    "learners": "learners' errors",
}
EDGES = (-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0)  # bins of advantage, in nats
CENTRES = (EDGES[0] - 1, *((a + b) / 2 for a, b in pairwise(EDGES)), EDGES[-1] + 1)
ADVANTAGE, PLAUSIBLE = "advantage, nats", "at least as plausible as the truth"
PLAUSIBILITY = "How plausible the replacement was"
FEWEST = 20  # replacements of a bin that is shown
NETWORKS: tuple[Network, ...] = ("discriminator", "generator")


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    kinds: tuple[Kind, ...] = ("generators", "uniform", "unigram", "swaps", "agreement", "pairs", "learners")
    """How to corrupt text. The first three compare token ids, so all models must have the same vocabulary."""
    rows: int = 128
    """Rows of held-out text, for replaced tokens."""
    length: int = 128
    """Length of the rows in tokens, with [CLS] and [SEP]."""
    sentences: int = 1000
    """Sentences to edit, and sentences by learners."""
    fraction: float = corruption.FRACTION
    """Share of the tokens that are resampled."""
    combine: Combine = "max"
    """How the scores of a word's tokens are combined: max, mean or first."""
    language: learners.Language = "en"
    """Language of the learners' sentences: en (FCE) or de (Falko-MERLIN). Other edits are English only."""
    resamples: int = 200
    """Bootstrap samples for the intervals."""
    seed: int = 0
    """Seed of masks, samples, edits and bootstrap."""


Text = Ints | Sequence[str]
"""A row of token ids, or a sentence as words."""


@dataclass(frozen=True)
class CorruptedText:
    """Text corrupted in one way: tokens, scored by id, or words, scored by any model."""

    texts: Sequence[Text]
    labels: Sequence[Bools]
    before: Sequence[Text] | None
    """The original texts; None if they are not known."""
    advantage: Sequence[Floats] = ()
    log_truth: float | None = None
    """The generator's mean log p of the original tokens."""
    correct: float | None = None
    """The share of its samples that equal the original."""


class Probe(contract.Probe):
    """Scores each discriminator on each kind of corruption."""

    title = "The language, or its generator?"
    question = (
        "Does the discriminator notice changes by another generator, by chance, by an edit or by a learner?"
        " And replacements that are plausible?"
    )
    source = "The ELECTRA paper compares generators by fine-tuning only; no published results."
    version = 2
    needs = ()
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        f"AUC, {name}": (0.5, 1.0) for name in ("its own generator", *TITLES.values())
    }
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        kinds = self.config.kinds
        inputs: list[Input] = [
            held_out.text_input(required=any(kind in kinds for kind in (*TOKEN_KINDS, "swaps", "agreement")))
        ]
        if "pairs" in kinds:
            inputs.append(
                Input(
                    "pairs",
                    "BLiMP's agreement paradigms",
                    ("blimp/*agreement*.jsonl*", "*agreement*.jsonl*"),
                    required=False,
                )
            )
        if "learners" in kinds:
            inputs.append(learners.learner_inputs(self.config.language, required=False)[0])
        return tuple(inputs)

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        discriminators = [
            model for model in models if model is models[0] or model.optional("discriminator") is not None
        ]
        models[0].network("discriminator")
        for model in discriminators:
            require_log_odds(model.discriminator)
        progress("corrupting text", 0.0)
        texts = self.make(models, data)
        if not texts:
            raise ConfigError("no data for any of the kinds", where="kinds", fix="Pass `data` with text")
        findings = Findings()
        for number, model in enumerate(discriminators):
            known: dict[int, Floats] = {}
            for place, name in enumerate(texts):
                progress(f"{model.name} on {name}", (number + place / len(texts)) / len(discriminators))
                self.score(findings, model, name, texts[name], known)
        show(findings, texts, discriminators)
        findings.notes += [f"{name}: {_size(text)}." for name, text in texts.items()]
        findings.notes += [
            f"{model.name} has no discriminator: only its generator is used."
            for model in models
            if model not in discriminators
        ]
        return findings

    def make(self, models: Sequence[Model], data: Data) -> dict[str, CorruptedText]:
        """Kind of corruption -> corrupted text, the same for every discriminator."""
        config, texts = self.config, dict[str, CorruptedText]()
        if any(kind in TOKEN_KINDS for kind in config.kinds):
            fix = (
                "Pass models with the same tokenizer, or compare words only: `probe_option`"
                " kinds=swaps,agreement,pairs,learners"
            )
            require_same_vocabulary(models, "replacing tokens", fix)
            texts |= self.replace_tokens(models, data["text"])
        keys = seeds.keys(config.seed, "analysis/edit", 0, np.arange(config.sentences))
        if "swaps" in config.kinds or "agreement" in config.kinds:
            sentences = held_out.held_out_sentences(models[0].tokenizer, data["text"], count=config.sentences)
            for kind, edit in (("swaps", corruption.swap_words), ("agreement", corruption.break_agreement)):
                if kind in config.kinds and (kind != "agreement" or config.language == "en"):
                    edits = [edit(words, int(key)) for words, key in zip(sentences, keys, strict=False)]
                    texts[TITLES[kind]] = _of_words(
                        [(words, *edited) for words, edited in zip(sentences, edits, strict=True)]
                    )
        if "pairs" in config.kinds and "pairs" in data and config.language == "en":
            texts[TITLES["pairs"]] = _of_words(agreement_pairs(data["pairs"], config.sentences, config.seed))
        if "learners" in config.kinds and "learners" in data:
            chosen = sample(learners.read_learners(data["learners"][0]), config.sentences, config.seed)
            texts[TITLES["learners"]] = CorruptedText(
                [s.words for s in chosen], [np.array(s.columns[0]) != learners.CORRECT for s in chosen], None
            )
        return {name: text for name, text in texts.items() if any(label.any() for label in text.labels)}

    def replace_tokens(self, models: Sequence[Model], paths: Sequence[Path]) -> dict[str, CorruptedText]:
        """The corruptions of rows of tokens."""
        config, tokenizer, texts = self.config, models[0].tokenizer, dict[str, CorruptedText]()
        networks = [network for model in models for kind in NETWORKS if (network := model.optional(kind))]
        max_length = min(config.length - 2, token_rows.max_row_length(*networks))
        rows = held_out.held_out_rows(tokenizer, paths, length=max_length, count=config.rows)
        for model in models if "generators" in config.kinds else ():
            generator = model.optional("generator")
            if generator is not None:
                corrupted = corruption.by_generator(
                    generator, rows, fraction=config.fraction, seed=config.seed
                )
                chosen, replaced = np.concatenate(corrupted.chosen), np.concatenate(corrupted.replaced)
                log_truth = float(np.nanmean(np.concatenate(corrupted.log_truth)))
                texts[own_generator(model.name)] = CorruptedText(
                    corrupted.rows,
                    corrupted.replaced,
                    rows,
                    corrupted.advantage,
                    log_truth,
                    float(1 - replaced[chosen].mean()),
                )
        ordinary = np.ones(tokenizer.vocab_size)
        ordinary[list(tokenizer.specials)] = 0.0
        counts = np.bincount(np.concatenate(rows), minlength=tokenizer.vocab_size) * ordinary
        for kind, frequency in (("uniform", ordinary), ("unigram", counts)):
            if kind in config.kinds:
                corrupted = corruption.by_frequency(
                    rows, frequency, fraction=config.fraction, seed=config.seed
                )
                texts[TITLES[kind]] = CorruptedText(corrupted.rows, corrupted.replaced, rows)
        return texts

    def score(
        self, findings: Findings, model: Model, name: str, text: CorruptedText, known: dict[int, Floats]
    ) -> None:
        """Add a discriminator's numbers on one kind of corruption.

        `known`: its log-odds of the original texts, by the id of their list, which several kinds share.
        """
        z, labels = self.log_odds(model, text.texts), np.concatenate(text.labels)
        rise = advantage = np.full(len(z), np.nan)
        if text.before is not None:
            if id(text.before) not in known:
                known[id(text.before)] = self.log_odds(model, text.before)
            rise = z - known[id(text.before)]
        if text.advantage:
            advantage = np.concatenate(text.advantage)
        sentence = np.repeat(np.arange(len(text.labels)), [len(values) for values in text.labels])
        has_score = np.isfinite(z)  # a word without tokens has none
        scored = ScoredItems(
            z[has_score], labels[has_score], sentence[has_score], advantage[has_score], rise[has_score]
        )
        analyse(findings, scored, self.config, model.name, name)

    def log_odds(self, model: Model, texts: Sequence[Text]) -> Floats:
        """Log-odds of every token or word of the texts."""
        if isinstance(texts[0], np.ndarray):
            return np.concatenate(
                token_rows.log_odds(model.discriminator, [np.asarray(row, np.int64) for row in texts])
            )
        sentences = [[str(word) for word in words] for words in texts]
        return np.concatenate(
            word_values(model.discriminator, sentences, "odds", suspicion, how=self.config.combine)
        )


def own_generator(model: str) -> str:
    """The name under which a model's generator corrupts text."""
    return f"generator of {model}"


def _of_words(edited: Sequence[tuple[Sequence[str], Sequence[str], Bools]]) -> CorruptedText:
    """Corrupted text from (original, changed, mask), without sentences that have no change."""
    kept = [(right, words, labels) for right, words, labels in edited if labels.any()]
    return CorruptedText(
        [words for _, words, _ in kept], [labels for *_, labels in kept], [right for right, *_ in kept]
    )


def _size(text: CorruptedText) -> str:
    labels = np.concatenate(text.labels)
    unit = "tokens" if isinstance(text.texts[0], np.ndarray) else "words"
    return f"{len(labels):,} {unit} in {len(text.labels):,} rows, {100 * labels.mean():.1f} % wrong"


def agreement_pairs(paths: Sequence[Path], count: int, seed: int) -> list[tuple[list[str], list[str], Bools]]:
    """(good, bad, mask) of minimal pairs that differ in one word, as many from each file."""
    pairs: list[tuple[list[str], list[str], Bools]] = []
    for path in paths:
        paradigm, in_file = read_minimal_pairs(path), []
        for pair in zip(paradigm.good, paradigm.bad, strict=True):
            good, bad = (held_out.split_words(sentence) for sentence in pair)
            if len(good) == len(bad) and (differs := np.array(good) != np.array(bad)).sum() == 1:
                in_file.append((good, bad, differs))
        pairs += sample(in_file, max(1, count // len(paths)), seed)
    return pairs


@dataclass(frozen=True)
class ScoredItems:
    """Tokens or words [N] of one kind of corruption, as one discriminator scores them."""

    log_odds: Floats
    wrong: Bools
    sentence: Ints
    advantage: Floats
    """Advantage of the replacement; NaN where none was sampled."""
    rise: Floats
    """Log-odds less those in the original text; NaN if that is not known."""


def analyse(findings: Findings, scored: ScoredItems, config: Config, model: str, kind: str) -> None:
    """Add the measures of one discriminator on one kind of corruption."""
    ranking, y = Ranking(scored.log_odds, scored.wrong), scored.wrong.astype(np.float64)
    p, called = sigmoid(scored.log_odds), scored.log_odds >= ranking.matched_threshold()
    resampled, paired = (scored.wrong & np.isfinite(column) for column in (scored.advantage, scored.rise))
    rises = (scored.rise[paired] > 0) + 0.5 * (scored.rise[paired] == 0)
    bins, size = np.digitize(scored.advantage[resampled], EDGES), len(EDGES) + 1

    def measure(w: Floats) -> dict[str, float]:
        base = float((w * y).sum() / w.sum())
        entropy = -sum(q * np.log(q) for q in (base, 1 - base) if q > 0)
        inside = np.bincount(bins, w[resampled], size)
        hit = np.bincount(bins, w[resampled] * called[resampled], size)
        return {
            "AUC": ranking.auc(w),
            "rise": float(np.average(rises, weights=w[paired])) if w[paired].sum() > 0 else float("nan"),
            "average precision": ranking.average_precision(w),
            "base rate": base,
            "gain": entropy - log_loss(p, y, w),
            PLAUSIBLE: inside[-1] / inside.sum() if inside.sum() > 0 else float("nan"),
            **{str(b): hit[b] / inside[b] if inside[b] > 0 else float("nan") for b in range(size)},
        }

    estimates = bootstrap.estimates(measure, scored.sentence, resamples=config.resamples, seed=config.seed)
    at = {"model": model, "wrong by": kind}
    for number, count in enumerate(np.bincount(bins, minlength=size).tolist()):
        share, place = estimates.pop(str(number)), CENTRES[number]
        if count >= FEWEST:
            cells: dict[str, Cell] = {"bin": _bin_names()[number], "replacements": count, "found": share}
            findings.add_all(cells, "measure", **at, **{ADVANTAGE: place})
            if kind == own_generator(model):
                findings.add(share, measure="found", model=model, **{ADVANTAGE: place})
    findings.add_all(estimates, **at)


def show(findings: Findings, texts: Mapping[str, CorruptedText], discriminators: Sequence[Model]) -> None:
    """Add the headline, tables and figures."""
    measures = ("AUC", "rise", "average precision", "base rate", "gain")
    first, makers = discriminators[0].name, [name for name in texts if texts[name].advantage]
    for name in texts:
        shown_name = "its own generator" if name == own_generator(first) else name
        findings.headline[f"AUC, {shown_name}"] = findings.of(**{"model": first, "wrong by": name})["AUC"]
    if own_generator(first) in texts:
        plausible = findings.of(**{"model": first, "wrong by": own_generator(first)})[PLAUSIBLE]
        findings.headline["replacements at least as plausible as the truth"] = plausible
    note = (
        "AUC: P(a wrong word is more suspicious than a correct one), chance 0.5. Rise: P(a position is more"
        " suspicious than in the original text), chance 0.5: the kind of word there cancels out. Average"
        " precision: chance is the base rate. Gain: nats per token or word better than the base rate; below 0"
        " the probabilities do not fit this kind."
    )
    title, keep = "Each discriminator on each kind of corruption", {"measure": measures}
    findings.tables.append(Table(title, ("model", "wrong by"), keep=keep, note=note))
    if makers:
        note = "Found: called replaced at the threshold with as many alarms as replacements."
        findings.tables.append(Table(PLAUSIBILITY, ("model", "wrong by", ADVANTAGE), note=note))
        add_generators(findings, texts, discriminators, makers)
    kinds = {"measure": "AUC", "wrong by": list(texts)}
    if len(discriminators) > 1:
        note = "Rows: discriminators. Columns: how the text was corrupted."
        matrix = Figure(
            "matrix", "AUC of each discriminator", "wrong by", "model", kinds, note, kind="matrix"
        )
        findings.figures.append(matrix)
    note = "How well wrong words are separated from correct ones, with 95 % intervals."
    chance = {"chance": 0.5}
    noticed = Figure(
        "kinds", "What is noticed", "wrong by", "model", kinds, note, "AUC", "categories", chance
    )
    findings.figures.append(noticed)
    if makers:
        note = (
            "Advantage: log p(replacement) - log p(original) by its generator: from 0 on the replacement is"
            " at least as plausible. The end bins hold everything beyond."
        )
        shown, series = {"measure": "found"}, "model"
        if len(discriminators) == 1:
            shown, series = {**shown, "model": first}, "wrong by"
        plausible = Figure(
            "plausibility", PLAUSIBILITY, ADVANTAGE, series, shown, note, "share found", y_range=(0.0, 1.0)
        )
        findings.figures.append(plausible)


def add_generators(
    findings: Findings,
    texts: Mapping[str, CorruptedText],
    discriminators: Sequence[Model],
    makers: Sequence[str],
) -> None:
    """Add a table of each generator with its discriminator's results on other corruptions."""
    for model in discriminators:
        name = own_generator(model.name)
        if name in makers:
            generator, text = model.generator.config, texts[name]
            results = {other: findings.of(**{"model": model.name, "wrong by": other}) for other in texts}
            numbers: dict[str, Cell] = {
                "generator": f"{generator.num_layers} layers of {generator.hidden_size}",
                "its loss": None if text.log_truth is None else -text.log_truth,
                "samples that are right": text.correct,
                "at least as plausible": results[name][PLAUSIBLE],
                "AUC, its own": results[name]["AUC"],
            }
            numbers |= {f"AUC, {other}": results[other]["AUC"] for other in texts if other not in makers}
            findings.add_all(numbers, model=model.name)
    title = "How good the generator is, and what its discriminator notices elsewhere"
    note = (
        "Loss: nats for each resampled token. At least as plausible: the share of its replacements with an"
        " advantage of at least 0."
    )
    findings.tables.append(Table(title, ("model",), note=note))


def _bin_names() -> list[str]:
    low = [f"below {EDGES[0]:g}", *(f"{a:g} to {b:g}" for a, b in pairwise(EDGES))]
    return [*low, f"{EDGES[-1]:g} and more"]
