"""Calibration: is P(replaced) a probability? Of the tokens said to be replaced with 30 %, were 30 % replaced?

Measures: reliability diagram, expected calibration error (Naeini et al. 2015) over bins of equal width and of
equal mass, the Brier score and its parts (Murphy 1973), and what recalibration mends: temperature scaling
(Guo et al. 2017), scale and offset (Platt 1999), isotonic regression (Zadrozny and Elkan 2002), each fitted
on one half of the sentences and judged on the other. The paper gives none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

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
from electra.laboratory.analysis.contract.findings import Kept
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
HEADLINE = (  # its name, how it is recalibrated, the measure
    ("calibration error", "as it is", WIDTH),
    ("the same after temperature scaling", "temperature", WIDTH),
    (EXPLAINED, "as it is", EXPLAINED),
)
SIMULATIONS = 50


@dataclass(frozen=True)
class Config:
    rows: int = 256
    """Rows of held-out text."""
    length: int = 128
    """Their length in tokens, with [CLS] and [SEP]."""
    fraction: float = corruption.FRACTION
    """Share of the tokens that the generator draws anew."""
    sentences: int = 2000
    """Learners' sentences (0: all)."""
    language: learners.Language = "en"
    """Whose learners: en (FCE) or de (Falko-MERLIN)."""
    combine: Combine = "max"
    """How a word's tokens make the word's log-odds."""
    bins: int = 15
    """Bins of the calibration error and the diagram."""
    resamples: int = 200
    """Bootstrap samples of an interval."""
    seed: int = 0
    """Seed of masks, samples, halves and bootstrap."""


@dataclass(frozen=True)
class Judged:
    """Log-odds that a token or word is wrong, whether it is, and the sentence it stands in."""

    log_odds: Floats
    wrong: Floats
    sentence: Ints


class Probe(contract.Probe):
    title = "Calibration"
    question = "Is P(replaced) a probability?"
    source = (
        "Methods: Naeini et al. 2015, Murphy 1973, Guo et al. 2017. No published answer for discriminators."
    )
    version = 2  # 2: read in other batches, which moves last digits
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        f"{EXPLAINED}, {HUMAN}": (0.0, 1.0),
        f"{EXPLAINED}, {GENERATOR}": (0.0, 1.0),
    }
    config: Config

    def inputs(self) -> tuple[Input, ...]:
        learned, _ = learners.learner_inputs(self.config.language, required=False)
        return held_out.text_input(required=False), learned

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Findings:
        judged: dict[tuple[str, str], Judged] = {}
        for number, model in enumerate(models):
            for kind, found in self.judge(model, data).items():
                judged[model.name, kind] = found
            progress(model.name, (number + 1) / (len(models) + 1))
        if not judged:
            what = "neither held-out text (with a generator to corrupt it) nor learners' sentences"
            raise ProbeDataError(
                what, where="calibration", fix="Give `data` with one of them, and a model with its generator"
            )
        findings = Findings()
        for (name, kind), found in judged.items():
            calibrate(findings, found, self.config, model=name, of=kind)
        first = models[0].name
        for kind in (kind for name, kind in judged if name == first):
            for text, recalibrated, measure in HEADLINE:
                at = {"model": first, "of": kind, "recalibrated": recalibrated}
                findings.headline[f"{text}, {kind}"] = findings.of(**at)[measure]
        show(findings, list(judged), first)
        findings.notes += self.notes(models, judged)
        return findings

    def judge(self, model: Model, data: Data) -> dict[str, Judged]:
        """What the discriminator says of each kind of wrong."""
        config, found = self.config, {}
        require_log_odds(model.discriminator)
        generator = model.optional("generator")
        if generator is not None and "text" in data:
            room = min(config.length - 2, token_rows.room(model.discriminator, generator))
            rows = held_out.held_out_rows(
                model.discriminator.tokenizer, data["text"], length=room, count=config.rows
            )
            corrupted = corruption.by_generator(generator, rows, fraction=config.fraction, seed=config.seed)
            found[GENERATOR] = gather(
                token_rows.log_odds(model.discriminator, corrupted.rows), corrupted.replaced
            )
        if "learners" in data:
            chosen = sample(learners.read_learners(data["learners"][0]), config.sentences, config.seed)
            values = word_values(
                model.discriminator, [s.words for s in chosen], "odds", suspicion, how=config.combine
            )
            found[HUMAN] = gather(values, [np.array(s.columns[0]) != learners.CORRECT for s in chosen])
        return found

    def notes(self, models: Sequence[Model], judged: Mapping[tuple[str, str], Judged]) -> list[str]:
        said = [
            f"{kind} ({name}): {len(found.wrong):,} {'tokens' if kind == GENERATOR else 'words'},"
            f" {100 * found.wrong.mean():.1f} % wrong."
            for (name, kind), found in judged.items()
        ]
        said += [
            f"{m.name} has no generator (or no text was given), so only learners' errors."
            for m in models
            if (m.name, GENERATOR) not in judged
        ]
        return said


def gather(log_odds: Sequence[Floats], wrong: Sequence[Bools]) -> Judged:
    """One array of all sentences. A word without tokens cannot be judged and is left out."""
    z, y = np.concatenate(log_odds), np.concatenate(wrong).astype(np.float64)
    sentence = np.repeat(np.arange(len(log_odds)), [len(values) for values in log_odds])
    kept = np.isfinite(z)
    return Judged(z[kept], y[kept], sentence[kept])


def calibrate(findings: Findings, judged: Judged, config: Config, **at: str) -> None:
    """Measured on the half of the sentences that nothing was fitted on."""
    fit = bootstrap.halves(judged.sentence, config.seed)
    z, y = judged.log_odds[~fit], judged.wrong[~fit]
    if not fit.any() or fit.all():
        raise ProbeDataError("fewer than two sentences", where="calibration", fix="Give more data")
    maps = recalibrations(judged.log_odds[fit], judged.wrong[fit])
    groups = np.unique(judged.sentence[~fit], return_inverse=True)[1]
    resampled = {"resamples": config.resamples, "seed": config.seed}
    for name, recalibrate in maps.items():
        p = recalibrate(z)
        width, mass = Bins.make(p, config.bins, "width"), Bins.make(p, config.bins, "mass")

        def measure(w: Floats, p: Floats = p, width: Bins = width, mass: Bins = mass) -> dict[str, float]:
            found = brier(p, y, w, mass)
            errors = {WIDTH: ece(p, y, w, width), MASS: ece(p, y, w, mass), "log loss": log_loss(p, y, w)}
            known = found["resolution"] / found["uncertainty"] if found["uncertainty"] else float("nan")
            return {**errors, **found, EXPLAINED: known}

        findings.add_all(bootstrap.estimates(measure, groups, **resampled), recalibrated=name, **at)

        def shares(w: Floats, p: Floats = p, mass: Bins = mass) -> dict[str, float]:
            weights, _, share = mass.sums(p, y, w)
            return {str(b): one if weights[b] > 0 else np.nan for b, one in enumerate(share.tolist())}

        weight, mean_p, _ = mass.sums(p, y, np.ones(len(p)))
        curve = bootstrap.estimates(shares, groups, **resampled)
        for b in np.flatnonzero(weight > 0):
            findings.add(curve[str(b)], measure=SHARE, recalibrated=name, **{MEAN: float(mean_p[b])}, **at)
    p = sigmoid(z)
    as_it_is = {"recalibrated": "as it is", **at}
    findings.add(chance_error(p, config), measure="by chance", **as_it_is)
    fitted = temperature(judged.log_odds[fit], judged.wrong[fit])
    findings.add(fitted, measure="temperature", **{**as_it_is, "recalibrated": "temperature"})
    for key, found in bootstrap.estimates(lambda w: by_class(p, y, w), groups, **resampled).items():
        group, _, measured = key.partition("\t")
        findings.add(found, measure=measured, **{"class": group}, **at)


def by_class(p: Floats, y: Floats, w: Floats) -> dict[str, float]:
    """How sure it is of what it calls replaced and original, how often right, and how sure of the truth."""

    def mean(of: Floats, weight: Floats) -> float:
        return float((weight * of).sum() / weight.sum()) if weight.sum() else float("nan")

    found = {}
    for name, called, sure, right in (("replaced", p >= 0.5, p, y), ("original", p < 0.5, 1 - p, 1 - y)):
        found[f"called {name}\tshare of all"] = float((w * called).sum() / w.sum())
        found[f"called {name}\tmean confidence"] = mean(sure, w * called)
        found[f"called {name}\tright"] = mean(right, w * called)
    return found | {
        f"truly {name}\tmean confidence": mean(p, w * truly)
        for name, truly in (("wrong", y), ("right", 1 - y))
    }


def chance_error(p: Floats, config: Config) -> float:
    """The mean calibration error (equal width) of outcomes drawn from p itself (Broecker and Smith 2007)."""
    bins, ones = Bins.make(p, config.bins, "width"), np.ones(len(p))
    keys = seeds.keys(config.seed, "analysis/outcomes", 0, np.arange(SIMULATIONS))
    return float(
        np.mean([ece(p, (seeds.uniforms(key, len(p)) < p).astype(np.float64), ones, bins) for key in keys])
    )


def show(findings: Findings, judged: Sequence[tuple[str, str]], first: str) -> None:
    errors = (WIDTH, "by chance", MASS, "Brier", "log loss", "temperature")
    parts = ("Brier", "reliability", "resolution", "uncertainty", "within bins", EXPLAINED)
    fitted = (
        "Fitted on one half of the sentences, judged on the other. By chance: the ECE of a calibrated model"
        " with the same probabilities and as few words. An ECE errs upward, and in a resample more so: its"
        " interval may lie above it. Log loss in nats."
    )
    added = (
        "Brier = reliability - resolution + uncertainty + within bins. Reliability 0 is calibrated;"
        " resolution is what the model knows; uncertainty is the data's."
    )
    called = (
        "Called: P(replaced) from 0.5 up or below; confidence is in what it is called. Truly: the mean"
        " P(replaced)."
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
        models = [model for model, of in judged if of == kind]
        if first in models:
            series, kept = "recalibrated", {**keep, "model": first}
            _diagram(findings, f"reliability-{slug}", f"Reliability, {kind}", series, kept)
        if len(models) > 1:
            title, kept = f"Reliability of each model, {kind}", {**keep, "recalibrated": "as it is"}
            _diagram(findings, f"reliability-{slug}-models", title, "model", kept)


def _diagram(findings: Findings, name: str, title: str, series: str, keep: Kept) -> None:
    shares = findings.of(MEAN, series, **keep)
    highest = max(max(p, share.value or 0.0) for (p, _), share in shares.items())
    end = float(np.ceil(10 * highest) / 10)  # no more than is in use
    note = (
        "Bins of equal mass, with 95 % intervals. On the diagonal a probability is a probability; below it"
        " the model suspects too much."
    )
    diagonal: Mapping[str, Any] = {
        "references": {"calibrated": "diagonal"},
        "x_range": (0.0, end),
        "y_range": (0.0, end),
    }
    findings.figures.append(Figure(name, title, MEAN, series, keep, note, SHARE, **diagonal))
