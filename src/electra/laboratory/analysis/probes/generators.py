"""Generalisation: whether a discriminator has learned the language, or only its own generator.

Each discriminator is tested on text corrupted in several ways, all but one unlike its training: tokens
replaced by each model's generator, by any token (uniform) or by frequent ones (unigram); words swapped with
their neighbours; a form of be, have, do or this made to disagree; one word of a BLiMP agreement pair;
learners' errors. A discriminator that knows only its generator's habits does well on that generator's text
alone.

The probe also measures how plausible replacements are. The advantage of a replacement is log p(replacement) -
log p(original) under the generator that made it. From 0 on, the generator finds the new sentence at least as
good as the original, and the label "replaced" cannot be inferred from the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from electra.finetuning.labelled.sentence_pairs import read_minimal_pairs
from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.foundation.errors import ConfigError
from electra.inference.detection import require_log_odds
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import Cell, Data, Findings, Input, Model, Network, Progress
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.measures.reliability import log_loss, sigmoid
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.words import suspicion, word_values
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
EDGES = (-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0)  # edges of the bins of advantage, in nats
# Where the figures show each bin; the first and the last bin are open.
CENTRES = (EDGES[0] - 1, *((a + b) / 2 for a, b in pairwise(EDGES)), EDGES[-1] + 1)
BIN_NAMES = (
    f"below {EDGES[0]:g}",
    *(f"{a:g} to {b:g}" for a, b in pairwise(EDGES)),
    f"{EDGES[-1]:g} and more",
)
ADVANTAGE, PLAUSIBLE = "advantage, nats", "at least as plausible as the original"
PLAUSIBILITY = "How plausible the replacement was"
MIN_REPLACEMENTS = 20  # a bin with fewer is left out
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
    wrong: Sequence[Bools]
    """Which tokens or words of each text are wrong."""
    originals: Sequence[Text] | None
    """The original texts; None if they are not known."""
    advantage: Sequence[Floats] = ()
    """The advantage of each token's replacement; empty if no generator made them."""

    def __str__(self) -> str:
        wrong = np.concatenate(self.wrong)
        unit = "tokens" if isinstance(self.texts[0], np.ndarray) else "words"
        return f"{len(wrong):,} {unit} in {len(self.wrong):,} texts, {100 * wrong.mean():.1f} % wrong"


class Probe(contract.Probe):
    """Scores each discriminator on each kind of corruption."""

    title = "The language, or its generator?"
    question = (
        "Does the discriminator notice changes by another generator, by chance, by an edit or by a learner?"
        " And replacements that are plausible?"
    )
    source = "The ELECTRA paper compares generators by fine-tuning only; no published results."
    version = 2
    needs = ()  # the first model must have a discriminator; `run` checks it
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        f"AUC, {name}": (0.5, 1.0) for name in ("its own generator", *TITLES.values())
    }
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        kinds, pairs = self.config.kinds, ("blimp/*agreement*.jsonl*", "*agreement*.jsonl*")
        needs_text = any(kind in kinds for kind in (*TOKEN_KINDS, "swaps", "agreement"))
        inputs = [held_out.text_input(required=needs_text)]
        if "pairs" in kinds:
            inputs.append(Input("pairs", "BLiMP's agreement paradigms", pairs, required=False))
        if "learners" in kinds:
            inputs.append(learners.learner_inputs(self.config.language, required=False)[0])
        return tuple(inputs)

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        models[0].network("discriminator")
        discriminators = [model for model in models if model.optional("discriminator") is not None]
        for model in discriminators:
            require_log_odds(model.discriminator)
        progress("corrupting text", 0.0)
        texts, findings = self.corrupt(models, data), Findings()
        if not texts:
            problem = "no data for any kind of corruption"
            raise ConfigError(problem, where="kinds", fix="Pass `data` with text")
        for i, model in enumerate(discriminators):
            before: dict[int, Floats] = {}
            for position, name in enumerate(texts):
                progress(f"{model.name} on {name}", (i + position / len(texts)) / len(discriminators))
                scored = self.score(model, texts[name], before)
                add_measures(findings, scored, self.config, model.name, name)
        add_tables_and_figures(findings, texts, [model.name for model in discriminators])
        findings.notes += [f"{name}: {text}." for name, text in texts.items()]
        findings.notes += [
            f"{model.name} has no discriminator: only its generator is used."
            for model in models
            if model not in discriminators
        ]
        return findings

    def corrupt(self, models: Sequence[Model], data: Data) -> dict[str, CorruptedText]:
        """Returns, by title, the texts in which anything is wrong, the same for every discriminator.

        Raises:
            ModelError: Tokens are to be replaced, and the models' vocabularies differ.
        """
        config, texts = self.config, dict[str, CorruptedText]()
        kinds, in_english = config.kinds, config.language == "en"
        if set(kinds) & set(TOKEN_KINDS):
            fix = (
                "Pass models with the same tokenizer, or compare words only: `probe_option`"
                " kinds=swaps,agreement,pairs,learners"
            )
            contract.require_same_vocabulary(models, "replacing tokens", fix)
            texts |= self.replace_tokens(models, data["text"])
        edits = {"swaps": corruption.swap_words} | (
            {"agreement": corruption.break_agreement} if in_english else {}
        )
        if set(kinds) & edits.keys():
            keys = seeds.keys(config.seed, "analysis/edit", 0, np.arange(config.sentences))
            sentences = held_out.held_out_sentences(models[0].tokenizer, data["text"], count=config.sentences)
            for kind in (kind for kind in edits if kind in kinds):
                edited = zip(sentences, keys, strict=False)
                texts[TITLES[kind]] = _corrupted_words((w, *edits[kind](w, int(key))) for w, key in edited)
        if "pairs" in kinds and "pairs" in data and in_english:
            pairs = agreement_pairs(data["pairs"], config.sentences, config.seed)
            texts[TITLES["pairs"]] = _corrupted_words(pairs)
        if "learners" in kinds and "learners" in data:
            written = sample(learners.read_learners(data["learners"][0]), config.sentences, config.seed)
            wrong = [np.array(s.columns[0]) != learners.CORRECT for s in written]
            texts[TITLES["learners"]] = CorruptedText([s.words for s in written], wrong, None)
        return {name: text for name, text in texts.items() if any(wrong.any() for wrong in text.wrong)}

    def replace_tokens(self, models: Sequence[Model], paths: Sequence[Path]) -> dict[str, CorruptedText]:
        """Returns rows corrupted by each generator, uniformly and by frequency (option `kinds`), by title."""
        config, tokenizer, texts = self.config, models[0].tokenizer, dict[str, CorruptedText]()
        networks = [network for model in models for kind in NETWORKS if (network := model.optional(kind))]
        length = min(config.length - 2, token_rows.max_row_length(*networks))
        rows = held_out.held_out_rows(tokenizer, paths, length=length, count=config.rows)
        for model in models if "generators" in config.kinds else ():
            if (generator := model.optional("generator")) is not None:
                made = corruption.by_generator(generator, rows, fraction=config.fraction, seed=config.seed)
                text = CorruptedText(made.rows, made.replaced, rows, made.advantage)
                texts[own_generator(model.name)] = text
        equal_frequency = np.ones(tokenizer.vocab_size)
        equal_frequency[list(tokenizer.specials)] = 0.0
        counts = np.bincount(np.concatenate(rows), minlength=tokenizer.vocab_size) * equal_frequency
        for kind, frequency in (("uniform", equal_frequency), ("unigram", counts)):
            if kind in config.kinds:
                made = corruption.by_frequency(rows, frequency, fraction=config.fraction, seed=config.seed)
                texts[TITLES[kind]] = CorruptedText(made.rows, made.replaced, rows)
        return texts

    def score(self, model: Model, text: CorruptedText, before: dict[int, Floats]) -> ScoredItems:
        """Returns a discriminator's scores on one kind of corruption.

        `before` caches the model's log-odds of original texts, which several kinds share, by the id of their
        list.
        """
        z, wrong = _log_odds(model, text.texts), np.concatenate(text.wrong)
        rise = np.full(len(z), np.nan)
        if text.originals is not None:
            if id(text.originals) not in before:
                before[id(text.originals)] = _log_odds(model, text.originals)
            rise = z - before[id(text.originals)]
        advantage = np.concatenate(text.advantage) if text.advantage else np.full(len(z), np.nan)
        sentence = np.repeat(np.arange(len(text.wrong)), [len(values) for values in text.wrong])
        has_score = np.isfinite(z)  # a word without tokens has no score
        columns: Any = (column[has_score] for column in (z, wrong, sentence, advantage, rise))
        return ScoredItems(*columns)


def _log_odds(model: Model, texts: Sequence[Text]) -> Floats:
    """Returns the log-odds of every token or word of the texts; NaN for a word without tokens."""
    if isinstance(texts[0], np.ndarray):
        rows = [np.asarray(row, np.int64) for row in texts]
        return np.concatenate(token_rows.log_odds(model.discriminator, rows))
    sentences = [[str(word) for word in words] for words in texts]
    return np.concatenate(word_values(model.discriminator, sentences, "odds", suspicion))


def own_generator(model: str) -> str:
    """Returns the title of text that a model's generator corrupted."""
    return f"generator of {model}"


Edit = tuple[Sequence[str], Sequence[str], Bools]
"""The words of a sentence, the changed words, and a mask of those that are wrong."""


def _corrupted_words(edits: Iterable[Edit]) -> CorruptedText:
    """Returns the edited sentences that have a wrong word."""
    changed_edits = [edit for edit in edits if edit[2].any()]
    originals, texts, wrong = ([edit[i] for edit in changed_edits] for i in range(3))
    return CorruptedText(texts, wrong, originals)  # type: ignore[arg-type]


def agreement_pairs(paths: Sequence[Path], count: int, seed: int) -> list[Edit]:
    """Returns about `count` minimal pairs that differ in one word, equally many from each file."""
    pairs: list[Edit] = []
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
    """Index of the item's text."""
    advantage: Floats
    """Advantage of the replacement; NaN where none was sampled."""
    rise: Floats
    """Log-odds minus those in the original text; NaN if that is not known."""


def add_measures(findings: Findings, scored: ScoredItems, config: Config, model: str, kind: str) -> None:
    """Adds the measures of one discriminator on one kind of corruption."""
    ranking, y = Ranking(scored.log_odds, scored.wrong), scored.wrong.astype(np.float64)
    p, called_wrong = sigmoid(scored.log_odds), scored.log_odds >= ranking.matched_threshold()
    has_advantage, has_rise = (
        scored.wrong & np.isfinite(column) for column in (scored.advantage, scored.rise)
    )
    rises = (scored.rise[has_rise] > 0) + 0.5 * (scored.rise[has_rise] == 0)
    bins, num_bins = np.digitize(scored.advantage[has_advantage], EDGES), len(EDGES) + 1
    found = called_wrong[has_advantage]

    def measure(w: Floats) -> dict[str | int, float]:
        base_rate = bootstrap.share(w, y)
        entropy = -sum(q * np.log(q) for q in (base_rate, 1 - base_rate) if q > 0)
        in_bin = np.bincount(bins, w[has_advantage], num_bins)
        found_in_bin = np.bincount(bins, w[has_advantage] * found, num_bins)
        return {
            "AUC": ranking.auc(w),
            "rise": bootstrap.share(w[has_rise], rises),
            "average precision": ranking.average_precision(w),
            "base rate": base_rate,
            "gain": entropy - log_loss(p, y, w),
            PLAUSIBLE: in_bin[-1] / in_bin.sum() if in_bin.sum() > 0 else np.nan,
            **{b: found_in_bin[b] / in_bin[b] if in_bin[b] > 0 else np.nan for b in range(num_bins)},
        }

    estimates = bootstrap.estimates(measure, scored.sentence, resamples=config.resamples, seed=config.seed)
    at = {"model": model, "corruption": kind}
    for b, count in enumerate(np.bincount(bins, minlength=num_bins).tolist()):
        share, centre = estimates.pop(b), CENTRES[b]
        if count >= MIN_REPLACEMENTS:
            cells: dict[str, Cell] = {"bin": BIN_NAMES[b], "replacements": count, "found": share}
            findings.add_all(cells, "measure", **at, **{ADVANTAGE: centre})
            if kind == own_generator(model):
                findings.add(share, measure="found", model=model, **{ADVANTAGE: centre})
    findings.add_all({str(name): estimate for name, estimate in estimates.items()}, **at)


def add_tables_and_figures(
    findings: Findings, texts: Mapping[str, CorruptedText], discriminators: Sequence[str]
) -> None:
    """Adds the headline, tables and figures."""
    first = discriminators[0]
    own = own_generator(first)
    for name in texts:
        title = "its own generator" if name == own else name
        findings.headline[f"AUC, {title}"] = findings.select(model=first, corruption=name)["AUC"]
    if own in texts:
        plausible = findings.select(model=first, corruption=own)[PLAUSIBLE]
        findings.headline[f"replacements {PLAUSIBLE}"] = plausible
    note = (
        "AUC: P(a wrong word is more suspicious than a correct one), chance 0.5. Rise: P(a position is more"
        " suspicious than in the original text), chance 0.5: the kind of word there cancels out. Average"
        " precision: chance is the base rate. Gain: nats per token or word better than the base rate; below 0"
        " the probabilities do not fit this kind."
    )
    title, measures = "Each discriminator on each kind of corruption", ("AUC", "rise", "average precision")
    findings.table(title, "model", "corruption", note=note, measure=(*measures, "base rate", "gain"))
    keep = {"measure": "AUC", "corruption": list(texts)}
    if len(discriminators) > 1:
        title, note = (
            "AUC of each discriminator",
            "Rows: discriminators. Columns: how the text was corrupted.",
        )
        findings.figure("matrix", title, "corruption", "model", keep, note=note, kind="matrix")
    note = "How well wrong words are separated from correct ones, with 95 % intervals."
    shown = {"note": note, "unit": "AUC", "kind": "categories", "references": {"chance": 0.5}}
    findings.figure("kinds", "AUC by kind of corruption", "corruption", "model", keep, **shown)
    if any(text.advantage for text in texts.values()):
        note = "Found: called replaced, at the threshold that calls as many tokens replaced as were."
        findings.table(PLAUSIBILITY, "model", "corruption", ADVANTAGE, note=note)
        note = (
            "Advantage: log p(replacement) - log p(original) by its generator: from 0 on the replacement is"
            " at least as plausible. The end bins hold everything beyond."
        )
        keep, series = {"measure": "found"}, "model"
        if len(discriminators) == 1:
            keep, series = {**keep, "model": first}, "corruption"
        ranged: dict[str, Any] = {"note": note, "unit": "share found", "y_range": (0.0, 1.0)}
        findings.figure("plausibility", PLAUSIBILITY, ADVANTAGE, series, keep, **ranged)
