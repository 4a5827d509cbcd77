"""Calibration: is P(replaced) a probability? Of the tokens said to be replaced with 30 %, were 30 % replaced?

Measures: reliability diagram, expected calibration error (Naeini et al. 2015) over bins of equal width and of
equal mass, the Brier score and its parts (Murphy 1973), and what recalibration mends: temperature scaling
(Guo et al. 2017), scale and offset (Platt 1999), isotonic regression (Zadrozny and Elkan 2002), each fitted
on one half of the sentences and judged on the other. The paper gives none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from electra import seeds
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
from electra.analysis.measures import bootstrap
from electra.analysis.measures.reliability import (
    Bins,
    brier,
    ece,
    log_loss,
    recalibrations,
    sigmoid,
    temperature,
)
from electra.analysis.scoring import token_rows
from electra.analysis.scoring.token_rows import Bools, Floats, Ints
from electra.analysis.scoring.words import Combine, suspicion, word_values
from electra.analysis.texts import corruption, held_out, learners
from electra.analysis.texts.reading import sample
from electra.interop.detection import refuse_energies

GENERATOR, HUMAN = "generator's replacements", "learners' errors"
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
    version = 1
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        f"resolution / uncertainty, {HUMAN}": (0.0, 1.0),
        f"resolution / uncertainty, {GENERATOR}": (0.0, 1.0),
    }
    config: Config

    def inputs(self) -> tuple[Input, ...]:
        learned, _ = learners.learner_inputs(self.config.language, required=False)
        return held_out.text_input(required=False), learned

    def run(self, models: Sequence[Model], data: Data, progress: Progress) -> Report:
        judged: dict[tuple[str, str], Judged] = {}
        for number, model in enumerate(models):
            for kind, found in self.judge(model, data).items():
                judged[model.name, kind] = found
            progress(model.name, (number + 1) / (len(models) + 1))
        if not judged:
            what = "neither held-out text (with a generator to corrupt it) nor learners' sentences"
            raise ProbeDataError(
                what, where="calibration", fix="Give --data with one of them, and a model with its generator"
            )
        answers = {key: calibrate(found, self.config) for key, found in judged.items()}
        of_first = {kind: answers[name, kind] for name, kind in answers if name == models[0].name}
        return Report(
            headline(of_first), tables(answers), figures(answers, models[0].name), self.notes(models, judged)
        )

    def judge(self, model: Model, data: Data) -> dict[str, Judged]:
        """What the discriminator says of each kind of wrong."""
        config, found = self.config, {}
        refuse_energies(model.discriminator)
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


@dataclass(frozen=True)
class Answer:
    """One model on one kind of wrong; everything is measured on the half of the sentences that nothing was
    fitted on.
    """

    by_map: Mapping[str, Mapping[str, Estimate]]  # how it is recalibrated -> measure -> value
    classes: Mapping[str, Estimate]
    curves: Mapping[str, tuple[Floats, Floats, Floats, Floats]]  # each map: mean P, share wrong, its interval
    temperature: float
    floor: float  # the error that a calibrated model of these probabilities would show by chance


def calibrate(judged: Judged, config: Config) -> Answer:
    fit = bootstrap.halves(judged.sentence, config.seed)
    z, y, groups = judged.log_odds[~fit], judged.wrong[~fit], judged.sentence[~fit]
    if not fit.any() or fit.all():
        raise ProbeDataError("fewer than two sentences", where="calibration", fix="Give more data")
    maps = recalibrations(judged.log_odds[fit], judged.wrong[fit])
    groups = np.unique(groups, return_inverse=True)[1]
    by_map, curves = {}, {}
    for name, recalibrate in maps.items():
        p = recalibrate(z)
        width, mass = Bins.make(p, config.bins, "width"), Bins.make(p, config.bins, "mass")

        def measure(w: Floats, p: Floats = p, width: Bins = width, mass: Bins = mass) -> dict[str, float]:
            parts = brier(p, y, w, mass)
            parts["explained"] = (
                parts["resolution"] / parts["uncertainty"] if parts["uncertainty"] else float("nan")
            )
            return {
                "ece": ece(p, y, w, width),
                "ece_mass": ece(p, y, w, mass),
                "log_loss": log_loss(p, y, w),
                **parts,
            }

        by_map[name] = bootstrap.estimates(measure, groups, resamples=config.resamples, seed=config.seed)
        curves[name] = curve(p, y, groups, mass, config)
    p = sigmoid(z)
    classes = bootstrap.estimates(
        lambda w: by_class(p, y, w), groups, resamples=config.resamples, seed=config.seed
    )
    fitted = temperature(judged.log_odds[fit], judged.wrong[fit])
    return Answer(by_map, classes, curves, fitted, chance_error(p, config))


def curve(
    p: Floats, y: Floats, groups: Ints, bins: Bins, config: Config
) -> tuple[Floats, Floats, Floats, Floats]:
    weight, mean_p, _ = bins.sums(p, y, np.ones(len(p)))

    def shares(w: Floats) -> dict[str, float]:
        weights, _, share = bins.sums(p, y, w)
        return {str(b): float(share[b]) if weights[b] > 0 else float("nan") for b in range(len(share))}

    found = bootstrap.estimates(shares, groups, resamples=config.resamples, seed=config.seed)
    kept = [b for b in range(len(weight)) if weight[b] > 0]
    ends = [(found[str(b)].value, found[str(b)].low, found[str(b)].high) for b in kept]
    share, low, high = (
        np.array([np.nan if x is None else x for x in column], np.float64)
        for column in zip(*ends, strict=True)
    )
    return mean_p[kept], share, low, high


def by_class(p: Floats, y: Floats, w: Floats) -> dict[str, float]:
    """What it says, and is right in, of what it calls replaced and original; and how sure it is of what truly
    is.
    """
    found = {}
    for name, called, right in (("replaced", p >= 0.5, y), ("original", p < 0.5, 1 - y)):
        weight = w * called
        confidence = p if name == "replaced" else 1 - p
        total = weight.sum()
        found[f"{name} share"] = float(total / w.sum())
        found[f"{name} confidence"] = float((weight * confidence).sum() / total) if total else float("nan")
        found[f"{name} right"] = float((weight * right).sum() / total) if total else float("nan")
    for name, truly in (("wrong", y), ("right", 1 - y)):
        weight = w * truly
        found[f"mean P where {name}"] = (
            float((weight * p).sum() / weight.sum()) if weight.sum() else float("nan")
        )
    return found


def chance_error(p: Floats, config: Config) -> float:
    """The mean calibration error (equal width) when outcomes are drawn from the probabilities themselves
    (Broecker and Smith 2007).
    """
    bins, ones = Bins.make(p, config.bins, "width"), np.ones(len(p))
    keys = seeds.keys(config.seed, "analysis/outcomes", 0, np.arange(SIMULATIONS))
    return float(
        np.mean([ece(p, (seeds.uniforms(key, len(p)) < p).astype(np.float64), ones, bins) for key in keys])
    )


def headline(answers: Mapping[str, Answer]) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for kind, answer in answers.items():
        found[f"calibration error, {kind}"] = answer.by_map["as it is"]["ece"]
        found[f"the same after temperature scaling, {kind}"] = answer.by_map["temperature"]["ece"]
        found[f"resolution / uncertainty, {kind}"] = answer.by_map["as it is"]["explained"]
    return found


def tables(answers: Mapping[tuple[str, str], Answer]) -> list[Table]:
    errors: list[list[Cell]] = []
    parts: list[list[Cell]] = []
    classes: list[list[Cell]] = []
    for (model, kind), answer in answers.items():
        for name, found in answer.by_map.items():
            label = f"temperature {answer.temperature:.2f}" if name == "temperature" else name
            floor = answer.floor if name == "as it is" else None
            errors.append(
                [
                    model,
                    kind,
                    label,
                    found["ece"],
                    floor,
                    found["ece_mass"],
                    found["brier"],
                    found["log_loss"],
                ]
            )
        found = answer.by_map["as it is"]
        parts.append(
            [
                model,
                kind,
                *(found[key] for key in ("brier", "reliability", "resolution", "uncertainty", "within")),
            ]
        )
        for name in ("replaced", "original"):
            classes.append(
                [
                    model,
                    kind,
                    f"called {name}",
                    *(answer.classes[f"{name} {key}"] for key in ("share", "confidence", "right")),
                ]
            )
        for name in ("wrong", "right"):
            classes.append([model, kind, f"truly {name}", None, answer.classes[f"mean P where {name}"], None])
    return [
        Table(
            "Calibration error, before and after recalibration",
            (
                "model",
                "of",
                "recalibrated",
                "ECE, equal width",
                "by chance",
                "ECE, equal mass",
                "Brier",
                "log loss",
            ),
            errors,
            "Fitted on one half of the sentences, judged on the other. By chance: the ECE of a calibrated"
            " model with the same probabilities and as few words. An ECE errs upward, and in a resample more"
            " so: its interval may lie above it. Log loss in nats.",
        ),
        Table(
            "The Brier score's parts",
            ("model", "of", "Brier", "reliability", "resolution", "uncertainty", "within bins"),
            parts,
            "Brier = reliability - resolution + uncertainty + within bins. Reliability 0 is calibrated;"
            " resolution is what the model knows; uncertainty is the data's.",
        ),
        Table(
            "By class",
            ("model", "of", "class", "share of all", "mean confidence", "right"),
            classes,
            "Called: P(replaced) from 0.5 up or below; confidence is in what it is called. Truly: the mean"
            " P(replaced).",
        ),
    ]


def figures(answers: Mapping[tuple[str, str], Answer], first: str) -> list[Figure]:
    drawn = []
    note = (
        "Bins of equal mass, with 95 % intervals. On the diagonal a probability is a probability; below it"
        " the model sees too much."
    )
    models = list(dict.fromkeys(model for model, _ in answers))
    for kind, slug in ((GENERATOR, "generator"), (HUMAN, "learners")):
        if (first, kind) in answers:
            curves = {name: answers[first, kind].curves[name] for name in answers[first, kind].curves}
            drawn.append(_diagram(f"reliability-{slug}", f"Reliability, {kind}", note, curves))
        compared = {
            model: answers[model, kind].curves["as it is"] for model in models if (model, kind) in answers
        }
        if len(compared) > 1:
            drawn.append(
                _diagram(f"reliability-{slug}-models", f"Reliability of each model, {kind}", note, compared)
            )
    return drawn


def _diagram(
    name: str, title: str, note: str, curves: Mapping[str, tuple[Floats, Floats, Floats, Floats]]
) -> Figure:
    series = [
        Series(label, p.tolist(), share.tolist(), low.tolist(), high.tolist())
        for label, (p, share, low, high) in curves.items()
    ]
    end = float(
        np.ceil(10 * max(max(p.max(), share.max()) for p, share, *_ in curves.values())) / 10
    )  # no more than is in use
    diagonal = Series("calibrated", [0.0, end], [0.0, end], style="reference")
    return Figure(
        name,
        title,
        note,
        "P(replaced)",
        "share that is wrong",
        [*series, diagonal],
        x_range=(0.0, end),
        y_range=(0.0, end),
    )
