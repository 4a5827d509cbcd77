"""Calibration: whether P(replaced) is a probability. Of the tokens with P = 30 %, are 30 % replaced?

Measures: reliability diagram, expected calibration error (Naeini et al. 2015) over bins of equal width and of
equal mass, the Brier score and its parts (Murphy 1973), and recalibration by temperature scaling (Guo et al.
2017), scale and offset (Platt 1999) and isotonic regression (Zadrozny and Elkan 2002), each fitted on one
half of the sentences and tested on the other. The ELECTRA paper reports none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.inference.detection import require_log_odds
from electra.laboratory.analysis import contract
from electra.laboratory.analysis.contract import (
    Data,
    Figure,
    Findings,
    Input,
    Model,
    ProbeDataError,
    Progress,
    Table,
)
from electra.laboratory.analysis.contract.findings import Selection
from electra.laboratory.analysis.measures import bootstrap
from electra.laboratory.analysis.measures.reliability import (
    Bins,
    brier,
    ece,
    log_loss,
    recalibrations,
    sigmoid,
    temperature,
)
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.words import Combine, suspicion, word_values
from electra.laboratory.analysis.texts import corruption, held_out, learners
from electra.laboratory.analysis.texts.sampling import sample

GENERATOR, HUMAN = "generator's replacements", "learners' errors"
WIDTH, MASS = "ECE, equal width", "ECE, equal mass"
EXPLAINED = "resolution / uncertainty"
MEAN, SHARE = "P(replaced)", "share that is wrong"
HEADLINE = (  # name, recalibration, measure
    ("calibration error", "as it is", WIDTH),
    ("the same after temperature scaling", "temperature", WIDTH),
    (EXPLAINED, "as it is", EXPLAINED),
)
SIMULATIONS = 50  # simulated outcomes for the calibration error by chance


@dataclass(frozen=True)
class Config:
    """Options of the probe."""

    rows: int = 256
    """Rows of held-out text."""
    length: int = 128
    """Length of the rows in tokens, with [CLS] and [SEP]."""
    fraction: float = corruption.FRACTION
    """Share of the tokens that the generator resamples."""
    sentences: int = 2000
    """Sentences by learners (0: all)."""
    language: learners.Language = "en"
    """Language of the learners' sentences: en (FCE) or de (Falko-MERLIN)."""
    combine: Combine = "max"
    """How the log-odds of a word's tokens are combined: max, mean or first."""
    bins: int = 15
    """Bins of the calibration error and of the reliability diagram."""
    resamples: int = 200
    """Bootstrap samples for the intervals."""
    seed: int = 0
    """Seed of masks, samples, halves and bootstrap."""


@dataclass(frozen=True)
class ScoredItems:
    """Log-odds that a token or word is wrong, whether it is, and its sentence, [N] each."""

    log_odds: Floats
    wrong: Floats
    sentence: Ints


class Probe(contract.Probe):
    """Measures calibration on the generator's replacements and on learners' errors."""

    title = "Calibration"
    question = "Is P(replaced) a probability?"
    source = (
        "Methods: Naeini et al. 2015, Murphy 1973, Guo et al. 2017. No published results for discriminators."
    )
    version = 2
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        f"{EXPLAINED}, {HUMAN}": (0.0, 1.0),
        f"{EXPLAINED}, {GENERATOR}": (0.0, 1.0),
    }
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        learned, _ = learners.learner_inputs(self.config.language, required=False)
        return held_out.text_input(required=False), learned

    @override
    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        scored: dict[tuple[str, str], ScoredItems] = {}
        for number, model in enumerate(models):
            for kind, items in self.score(model, data).items():
                scored[model.name, kind] = items
            progress(model.name, (number + 1) / (len(models) + 1))
        if not scored:
            problem = "neither held-out text (with a generator to corrupt it) nor learners' sentences"
            raise ProbeDataError(
                problem,
                where="calibration",
                fix="Pass `data` with one of them, and a model with its generator",
            )
        findings = Findings()
        for (name, kind), items in scored.items():
            calibrate(findings, items, self.config, model=name, of=kind)
        first = models[0].name
        for kind in (kind for name, kind in scored if name == first):
            for text, recalibrated, measure in HEADLINE:
                at = {"model": first, "of": kind, "recalibrated": recalibrated}
                findings.headline[f"{text}, {kind}"] = findings.of(**at)[measure]
        show(findings, list(scored), first)
        findings.notes += self.notes(models, scored)
        return findings

    def score(self, model: Model, data: Data) -> dict[str, ScoredItems]:
        """The discriminator's log-odds on each kind of error that there are data for."""
        config, items_of = self.config, {}
        require_log_odds(model.discriminator)
        generator = model.optional("generator")
        if generator is not None and "text" in data:
            max_length = min(config.length - 2, token_rows.max_row_length(model.discriminator, generator))
            rows = held_out.held_out_rows(
                model.discriminator.tokenizer, data["text"], length=max_length, count=config.rows
            )
            corrupted = corruption.by_generator(generator, rows, fraction=config.fraction, seed=config.seed)
            items_of[GENERATOR] = collect(
                token_rows.log_odds(model.discriminator, corrupted.rows), corrupted.replaced
            )
        if "learners" in data:
            chosen = sample(learners.read_learners(data["learners"][0]), config.sentences, config.seed)
            values = word_values(
                model.discriminator, [s.words for s in chosen], "odds", suspicion, how=config.combine
            )
            items_of[HUMAN] = collect(values, [np.array(s.columns[0]) != learners.CORRECT for s in chosen])
        return items_of

    def notes(self, models: Sequence[Model], scored: Mapping[tuple[str, str], ScoredItems]) -> list[str]:
        """Remarks on the amount of data for each model."""
        lines = [
            f"{kind} ({name}): {len(items.wrong):,} {'tokens' if kind == GENERATOR else 'words'},"
            f" {100 * items.wrong.mean():.1f} % wrong."
            for (name, kind), items in scored.items()
        ]
        lines += [
            f"{m.name}: learners' errors only, as it has no generator or there is no text."
            for m in models
            if (m.name, GENERATOR) not in scored
        ]
        return lines


def collect(log_odds: Sequence[Floats], wrong: Sequence[Bools]) -> ScoredItems:
    """One array over all sentences, without words that have no tokens."""
    z, y = np.concatenate(log_odds), np.concatenate(wrong).astype(np.float64)
    sentence = np.repeat(np.arange(len(log_odds)), [len(values) for values in log_odds])
    kept = np.isfinite(z)
    return ScoredItems(z[kept], y[kept], sentence[kept])


def calibrate(findings: Findings, scored: ScoredItems, config: Config, **at: str) -> None:
    """Add all measures, on the half of the sentences that nothing was fitted on."""
    fit = bootstrap.halves(scored.sentence, config.seed)
    z, y = scored.log_odds[~fit], scored.wrong[~fit]
    if not fit.any() or fit.all():
        raise ProbeDataError("fewer than two sentences", where="calibration", fix="Use more data")
    maps = recalibrations(scored.log_odds[fit], scored.wrong[fit])
    groups = np.unique(scored.sentence[~fit], return_inverse=True)[1]
    resampled = {"resamples": config.resamples, "seed": config.seed}
    for name, recalibrate in maps.items():
        p = recalibrate(z)
        width, mass = Bins.make(p, config.bins, "width"), Bins.make(p, config.bins, "mass")

        def measure(w: Floats, p: Floats = p, width: Bins = width, mass: Bins = mass) -> dict[str, float]:
            parts = brier(p, y, w, mass)
            errors = {WIDTH: ece(p, y, w, width), MASS: ece(p, y, w, mass), "log loss": log_loss(p, y, w)}
            known = parts["resolution"] / parts["uncertainty"] if parts["uncertainty"] else float("nan")
            return {**errors, **parts, EXPLAINED: known}

        findings.add_all(bootstrap.estimates(measure, groups, **resampled), recalibrated=name, **at)

        def shares(w: Floats, p: Floats = p, mass: Bins = mass) -> dict[str, float]:
            weights, _, share = mass.sums(p, y, w)
            return {
                str(b): share_of_bin if weights[b] > 0 else np.nan
                for b, share_of_bin in enumerate(share.tolist())
            }

        weight, mean_p, _ = mass.sums(p, y, np.ones(len(p)))
        curve = bootstrap.estimates(shares, groups, **resampled)
        for b in np.flatnonzero(weight > 0):
            findings.add(curve[str(b)], measure=SHARE, recalibrated=name, **{MEAN: float(mean_p[b])}, **at)
    p = sigmoid(z)
    as_it_is = {"recalibrated": "as it is", **at}
    findings.add(chance_error(p, config), measure="by chance", **as_it_is)
    fitted = temperature(scored.log_odds[fit], scored.wrong[fit])
    findings.add(fitted, measure="temperature", **{**as_it_is, "recalibrated": "temperature"})
    for key, estimate in bootstrap.estimates(lambda w: by_class(p, y, w), groups, **resampled).items():
        group, _, measured = key.partition("\t")
        findings.add(estimate, measure=measured, **{"class": group}, **at)


def by_class(p: Floats, y: Floats, w: Floats) -> dict[str, float]:
    """Confidence and accuracy of the two calls, and the mean P(replaced) of the two true classes."""

    def mean(of: Floats, weight: Floats) -> float:
        return float((weight * of).sum() / weight.sum()) if weight.sum() else float("nan")

    scores = {}
    for name, called, sure, right in (("replaced", p >= 0.5, p, y), ("original", p < 0.5, 1 - p, 1 - y)):
        scores[f"called {name}\tshare of all"] = float((w * called).sum() / w.sum())
        scores[f"called {name}\tmean confidence"] = mean(sure, w * called)
        scores[f"called {name}\tright"] = mean(right, w * called)
    return scores | {
        f"truly {name}\tmean confidence": mean(p, w * truth)
        for name, truth in (("wrong", y), ("right", 1 - y))
    }


def chance_error(p: Floats, config: Config) -> float:
    """The mean calibration error (equal width) of outcomes drawn from p itself (Broecker and Smith 2007)."""
    bins, ones = Bins.make(p, config.bins, "width"), np.ones(len(p))
    keys = seeds.keys(config.seed, "analysis/outcomes", 0, np.arange(SIMULATIONS))
    return float(
        np.mean([ece(p, (seeds.uniforms(key, len(p)) < p).astype(np.float64), ones, bins) for key in keys])
    )


def show(findings: Findings, scored: Sequence[tuple[str, str]], first: str) -> None:
    """Add tables and reliability diagrams."""
    errors = (WIDTH, "by chance", MASS, "Brier", "log loss", "temperature")
    parts = ("Brier", "reliability", "resolution", "uncertainty", "within bins", EXPLAINED)
    fitted = (
        "Fitted on one half of the sentences, tested on the other. By chance: the ECE of a calibrated model"
        " with the same probabilities and number of words. An ECE is biased upwards, more so in resamples:"
        " its interval may lie above it. Log loss in nats."
    )
    added = (
        "Brier = reliability - resolution + uncertainty + within bins. Reliability 0 means calibrated;"
        " resolution is the model's information; uncertainty belongs to the data."
    )
    called = (
        "Called: P(replaced) at least 0.5, or below; confidence is in that call. Truly: the mean P(replaced)."
    )
    as_it_is = {"measure": parts, "recalibrated": "as it is"}
    findings.tables += [
        Table(
            "Calibration error, before and after recalibration",
            ("model", "of", "recalibrated"),
            keep={"measure": errors},
            note=fitted,
        ),
        Table("The Brier score's parts", ("model", "of"), keep=as_it_is, note=added),
        Table("By class", ("model", "of", "class"), note=called),
    ]
    for kind, slug in ((GENERATOR, "generator"), (HUMAN, "learners")):
        keep = {"of": kind, "measure": SHARE}
        models = [model for model, of in scored if of == kind]
        if first in models:
            series, kept = "recalibrated", {**keep, "model": first}
            _diagram(findings, f"reliability-{slug}", f"Reliability, {kind}", series, kept)
        if len(models) > 1:
            title, kept = f"Reliability of each model, {kind}", {**keep, "recalibrated": "as it is"}
            _diagram(findings, f"reliability-{slug}-models", title, "model", kept)


def _diagram(findings: Findings, name: str, title: str, series: str, keep: Selection) -> None:
    shares = findings.of(MEAN, series, **keep)
    highest = max(max(p, share.value or 0.0) for (p, _), share in shares.items())
    end = float(np.ceil(10 * highest) / 10)  # the axes end at the highest value
    note = (
        "Bins of equal mass, with 95 % intervals. On the diagonal the model is calibrated; below it, it"
        " is over-suspicious."
    )
    diagonal: Mapping[str, Any] = {
        "references": {"calibrated": "diagonal"},
        "x_range": (0.0, end),
        "y_range": (0.0, end),
    }
    findings.figures.append(Figure(name, title, MEAN, series, keep, note, SHARE, **diagonal))
