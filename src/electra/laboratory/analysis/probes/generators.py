"""Generalisation: whether a discriminator has learned the language, or only its own generator.

Each discriminator reads text in which tokens were replaced by each model's generator, by any token (uniform)
or by frequent ones (unigram). One that knows only its generator's habits does well on that generator's text
alone. Where a replacement's advantage (docs/analysis.md) is 0 or more, the label "replaced" cannot be
inferred from the text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from typing_extensions import override

from electra.foundation.arrays import Floats
from electra.foundation.errors import ModelError
from electra.laboratory.analysis import contract, texts
from electra.laboratory.analysis.contract import Cell, Data, Findings, Input, Network, Progress, StudiedModel
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.measures.ranking import Ranking
from electra.laboratory.analysis.measures.reliability import log_loss
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.token_rows import Corrupted

UNIFORM, UNIGRAM = "any token", "frequent tokens"
EDGES = (-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0)  # edges of the bins of advantage, in nats
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
class Config(texts.HeldOutOptions):
    """Options of the probe."""

    rows: int = texts.at_least_1(128)


class Probe(contract.Probe):
    """Scores each discriminator on each kind of corruption."""

    title = "The language, or its generator?"
    question = (
        "Does the discriminator notice changes by another generator or by chance? And replacements that are plausible?"
    )
    source = "The ELECTRA paper compares generators by fine-tuning only; no published results."
    version = 3
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        f"AUC, {name}": (0.5, 1.0) for name in ("its own generator", UNIFORM, UNIGRAM)
    }
    config: Config

    @override
    @property
    def optional_networks(self) -> tuple[Network, ...]:
        return NETWORKS

    @override
    def inputs(self) -> tuple[Input, ...]:
        return (texts.text_input(),)

    @override
    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        discriminators = [model for model in models if model.optional("discriminator") is not None]
        progress("corrupting text", 0.0)
        corrupted, findings = self.corrupt(models, data["text"]), Findings()
        for i, model in enumerate(discriminators):
            for position, (name, text) in enumerate(corrupted.items()):
                share = (i + position / len(corrupted)) / len(discriminators)
                progress(f"{model.name} on {name}", share)
                log_odds = np.concatenate(token_rows.log_odds(model.discriminator, text.rows))
                add_measures(findings, text, log_odds, self.config, model=model.name, kind=name)
        add_tables_and_figures(findings, corrupted, [model.name for model in discriminators])
        for name, text in corrupted.items():
            wrong = np.concatenate(text.replaced)
            percent = f"{100 * wrong.mean():.1f} % wrong"
            findings.notes.append(f"{name}: {len(wrong):,} tokens in {len(text.rows):,} texts, {percent}.")
        findings.notes += [
            f"{model.name} has no discriminator: only its generator is used."
            for model in models
            if model not in discriminators
        ]
        return findings

    def corrupt(self, models: Sequence[StudiedModel], paths: Sequence[Path]) -> dict[str, Corrupted]:
        """Returns, by title, the rows in which anything is wrong, the same for every discriminator."""
        config, tokenizer, made = self.config, models[0].tokenizer, dict[str, Corrupted]()
        for other in models[1:]:
            if other.tokenizer.digest != tokenizer.digest:
                problem = f"{models[0].name} and {other.name} have different vocabularies"
                problem += ", but the probe compares them token by token"
                raise ModelError(problem, where=other.source, fix="Pass models with the same tokenizer")
        networks = [network for model in models for kind in NETWORKS if (network := model.optional(kind))]
        length = min(config.length - 2, token_rows.max_row_length(*networks))
        rows = texts.held_out_rows(tokenizer, paths, length=length, count=config.rows)
        how: dict[str, Any] = {"fraction": config.fraction, "seed": config.seed}
        for model in models:
            if (generator := model.optional("generator")) is not None:
                made[f"generator of {model.name}"] = token_rows.by_generator(generator, rows, **how)
        equal_frequency = np.ones(tokenizer.vocab_size)
        equal_frequency[list(tokenizer.specials)] = 0.0
        counts = np.bincount(np.concatenate(rows), minlength=tokenizer.vocab_size) * equal_frequency
        made[UNIFORM] = token_rows.by_frequency(rows, equal_frequency, **how)
        made[UNIGRAM] = token_rows.by_frequency(rows, counts, **how)
        return {name: text for name, text in made.items() if any(wrong.any() for wrong in text.replaced)}


def add_measures(
    findings: Findings, text: Corrupted, log_odds: Floats, config: Config, *, model: str, kind: str
) -> None:
    """Adds the measures of one discriminator, whose log-odds [N] of all tokens are given."""
    wrong, advantage = np.concatenate(text.replaced), np.concatenate(text.advantage)
    ranking, y, p = Ranking(log_odds, wrong), wrong.astype(np.float64), expit(log_odds)
    has_advantage = wrong & np.isfinite(advantage)
    bins, num_bins = np.digitize(advantage[has_advantage], EDGES), len(EDGES) + 1
    found = (log_odds >= ranking.matched_threshold())[has_advantage]

    def measure(w: Floats) -> dict[str | int, float]:
        base_rate = bootstrap.share(w, y)
        entropy = -sum(q * np.log(q) for q in (base_rate, 1 - base_rate) if q > 0)
        in_bin = np.bincount(bins, w[has_advantage], num_bins)
        found_in_bin = np.bincount(bins, w[has_advantage] * found, num_bins)
        return {
            "AUC": ranking.auc(w),
            "average precision": ranking.average_precision(w),
            "base rate": base_rate,
            "gain": entropy - log_loss(p, y, w),
            PLAUSIBLE: in_bin[-1] / in_bin.sum() if in_bin.sum() > 0 else np.nan,
            **{b: found_in_bin[b] / in_bin[b] if in_bin[b] > 0 else np.nan for b in range(num_bins)},
        }

    how = {"resamples": config.resamples, "seed": config.seed}
    estimates = bootstrap.estimates(measure, text.row_of_token, **how)
    at = {"model": model, "corruption": kind}
    for b, count in enumerate(np.bincount(bins, minlength=num_bins).tolist()):
        share = estimates.pop(b)
        if count >= MIN_REPLACEMENTS:
            cells: dict[str, Cell] = {"replacements": count, "found": share}
            findings.add_all(cells, **at, **{ADVANTAGE: BIN_NAMES[b]})
    findings.add_all({str(name): estimate for name, estimate in estimates.items()}, **at)


def add_tables_and_figures(
    findings: Findings, corrupted: Mapping[str, Corrupted], discriminators: Sequence[str]
) -> None:
    """Adds the headline, tables and figures."""
    first, own = discriminators[0], f"generator of {discriminators[0]}"
    for name in corrupted:
        title = "its own generator" if name == own else name
        findings.headline[f"AUC, {title}"] = findings.select(model=first, corruption=name)["AUC"]
    if own in corrupted:
        plausible = findings.select(model=first, corruption=own)[PLAUSIBLE]
        findings.headline[f"replacements {PLAUSIBLE}"] = plausible
    note = (
        "AUC: P(a wrong token is more suspicious than a correct one), chance 0.5. Average precision: chance"
        " is the base rate. Gain: nats per token better than the base rate; below 0 the probabilities do not"
        " fit this kind."
    )
    title, measures = "Each discriminator on each kind of corruption", ("AUC", "average precision")
    findings.table(title, "model", "corruption", note=note, measure=(*measures, "base rate", "gain"))
    keep = {"measure": "AUC", "corruption": list(corrupted)}
    note = "How well wrong tokens are separated from correct ones, with 95 % intervals."
    shown = {"note": note, "unit": "AUC", "kind": "categories", "references": {"chance": 0.5}}
    findings.figure("kinds", "AUC by kind of corruption", "corruption", "model", keep, **shown)
    if any(np.isfinite(np.concatenate(text.advantage)).any() for text in corrupted.values()):
        note = "Found: called replaced, at the threshold that calls as many tokens replaced as were."
        note += " Advantage: log p(replacement) - log p(original) by its generator."
        findings.table(PLAUSIBILITY, "model", "corruption", ADVANTAGE, note=note)
