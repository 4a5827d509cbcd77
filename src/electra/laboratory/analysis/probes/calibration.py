"""Calibration: whether P(replaced) is a probability. Are 30 % of the tokens with P = 30 % replaced?

The probe gives the reliability diagram, the expected calibration error (Naeini et al. 2015) over bins of
equal width and of equal mass, the Brier score and its parts (Murphy 1973), and the effect of recalibration by
temperature scaling (Guo et al. 2017), scale and offset (Platt 1999) and isotonic regression (Zadrozny and
Elkan 2002), each fitted on one half of the sentences and tested on the other. The ELECTRA paper reports none
of these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from typing_extensions import override

from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.inference.detection import require_log_odds
from electra.laboratory.analysis import contract, texts
from electra.laboratory.analysis.contract import Data, Findings, Input, ProbeDataError, Progress, StudiedModel
from electra.laboratory.analysis.measures import bootstrap, reliability
from electra.laboratory.analysis.measures.reliability import UNCALIBRATED, bin_sums, bins_of, ece
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.scorers import word_suspicion

GENERATOR, HUMAN = "generator's replacements", "learners' errors"
WIDTH, MASS = "ECE, equal width", "ECE, equal mass"
EXPLAINED = "resolution / uncertainty"
MEAN, SHARE = "P(replaced)", "share of errors"
HEADLINE = (  # headline number, recalibration, measure
    ("calibration error", UNCALIBRATED, WIDTH),
    ("calibration error after temperature scaling", "temperature", WIDTH),
    (EXPLAINED, UNCALIBRATED, EXPLAINED),
)
SIMULATIONS = 50  # for the calibration error expected by chance


@dataclass(frozen=True)
class Config(texts.HeldOutOptions):
    """Options of the probe."""

    sentences: int = texts.at_least_0(2000)
    """Sentences by learners (0: all)."""
    language: texts.Language = "en"
    """Language of the learners' sentences: en (FCE) or de (Falko-MERLIN)."""
    bins: int = texts.at_least_1(15)
    """Bins of the calibration error and of the reliability diagram."""


@dataclass(frozen=True)
class ScoredItems:
    """The scored tokens or words, as arrays [N]."""

    log_odds: Floats  # log-odds that the item is wrong
    wrong: Floats  # 1 if it is, else 0
    sentence: Ints  # index of the item's sentence or row


class Probe(contract.Probe):
    """Measures calibration on the generator's replacements and on learners' errors."""

    title = "Calibration"
    question = "Is P(replaced) a probability?"
    source = "Methods: Naeini et al. 2015, Murphy 1973, Guo et al. 2017. No published results for discriminators."
    version = 2
    needs = ("discriminator",)
    scales: ClassVar[Mapping[str, tuple[float, float]]] = {
        f"{EXPLAINED}, {HUMAN}": (0.0, 1.0),
        f"{EXPLAINED}, {GENERATOR}": (0.0, 1.0),
    }
    config: Config

    @override
    def inputs(self) -> tuple[Input, ...]:
        sentences, _ = texts.learner_inputs(self.config.language, required=False)
        return texts.text_input(required=False), sentences

    @override
    def run(self, models: Sequence[StudiedModel], data: Data, progress: Progress) -> Findings:
        scored: dict[tuple[str, str], ScoredItems] = {}
        for i, model in enumerate(models):
            scored |= {(model.name, kind): items for kind, items in self.score(model, data).items()}
            progress(model.name, (i + 1) / (len(models) + 1))
        if not scored:
            problem = "no held-out text with a generator to corrupt it, and no learners' sentences"
            fix = "Pass `data` with one of them, and a model with its generator"
            raise ProbeDataError(problem, where="calibration", fix=fix)
        findings = Findings()
        for (name, kind), items in scored.items():
            add_calibration(findings, items, self.config, model=name, of=kind)
            unit = "tokens" if kind == GENERATOR else "words"
            share = f"{100 * items.wrong.mean():.1f} % wrong"
            findings.notes.append(f"{kind} ({name}): {len(items.wrong):,} {unit}, {share}.")
        findings.notes += [
            f"{model.name}: learners' errors only, because it has no generator or no text was passed."
            for model in models
            if (model.name, GENERATOR) not in scored
        ]
        first_name = models[0].name
        for kind in (kind for name, kind in scored if name == first_name):
            for text, recalibrated, measure in HEADLINE:
                at = {"model": first_name, "of": kind, "recalibrated": recalibrated}
                findings.headline[f"{text}, {kind}"] = findings.select(**at)[measure]
        add_tables_and_figures(findings, list(scored), first_name)
        return findings

    def score(self, model: StudiedModel, data: Data) -> dict[str, ScoredItems]:
        """Returns the discriminator's log-odds by kind of error, where there are data."""
        config, scored = self.config, dict[str, ScoredItems]()
        require_log_odds(model.discriminator)
        generator = model.optional("generator")
        if generator is not None and "text" in data:
            length = min(config.length - 2, token_rows.max_row_length(model.discriminator, generator))
            tokenizer = model.discriminator.tokenizer
            rows = texts.held_out_rows(tokenizer, data["text"], length=length, count=config.rows)
            corrupted = token_rows.by_generator(generator, rows, fraction=config.fraction, seed=config.seed)
            log_odds = token_rows.log_odds(model.discriminator, corrupted.rows)
            scored[GENERATOR] = collect(log_odds, corrupted.replaced)
        if "learners" in data:
            sentences = texts.sample(texts.read_learners(data["learners"][0]), config.sentences, config.seed)
            values = word_suspicion(model.discriminator, [s.texts for s in sentences], "odds")
            scored[HUMAN] = collect(values, [np.array(s.gold) != texts.CORRECT for s in sentences])
        return scored


def collect(log_odds: Sequence[Floats], wrong: Sequence[Bools]) -> ScoredItems:
    """Returns the items of all sentences as arrays, without words that have no token (NaN)."""
    z, y = np.concatenate(log_odds), np.concatenate(wrong).astype(np.float64)
    sentence = np.repeat(np.arange(len(log_odds)), [len(values) for values in log_odds])
    has_score = np.isfinite(z)
    return ScoredItems(z[has_score], y[has_score], sentence[has_score])


def add_calibration(findings: Findings, scored: ScoredItems, config: Config, **at: str) -> None:
    """Adds all measures at the places `at`, from the half of the sentences that no map was fitted on."""
    fitting = bootstrap.halves(scored.sentence, config.seed)
    if not fitting.any() or fitting.all():
        raise ProbeDataError("fewer than two sentences", where="calibration", fix="Use more data")
    z, y = scored.log_odds[~fitting], scored.wrong[~fitting]
    groups = np.unique(scored.sentence[~fitting], return_inverse=True)[1]
    resampled = {"resamples": config.resamples, "seed": config.seed}
    fitted_on = scored.log_odds[fitting], scored.wrong[fitting]
    for name, recalibrate in reliability.recalibrations(*fitted_on).items():
        p = recalibrate(z)
        width, mass = bins_of(p, config.bins, "width"), bins_of(p, config.bins, "mass")

        def measure(w: Floats, p: Floats = p, width: Floats = width, mass: Floats = mass) -> dict[Any, float]:
            parts, log_loss = reliability.brier(p, y, w, mass), reliability.log_loss(p, y, w)
            explained = parts["resolution"] / parts["uncertainty"] if parts["uncertainty"] else np.nan
            errors = {WIDTH: ece(p, y, w, width), MASS: ece(p, y, w, mass), "log loss": log_loss}
            weights, _, share = bin_sums(p, y, w, mass)
            by_bin = dict(enumerate(np.where(weights > 0, share, np.nan).tolist()))
            return {**errors, **parts, EXPLAINED: explained, **by_bin}

        estimates = bootstrap.estimates(measure, groups, **resampled)
        weight, mean_p, _ = bin_sums(p, y, np.ones(len(p)), mass)
        curve = [estimates.pop(b) for b in range(len(weight))]
        findings.add_all(estimates, recalibrated=name, **at)
        for b in np.flatnonzero(weight > 0).tolist():
            findings.add(curve[b], measure=SHARE, recalibrated=name, **{MEAN: float(mean_p[b])}, **at)
    findings.add(chance_error(expit(z), config), measure="by chance", recalibrated=UNCALIBRATED, **at)
    temperature = reliability.temperature(*fitted_on)
    findings.add(temperature, measure="temperature", recalibrated="temperature", **at)


def chance_error(p: Floats, config: Config) -> float:
    """Returns the mean ECE (equal width) of outcomes drawn from p itself (Broecker and Smith 2007)."""
    bins, ones = bins_of(p, config.bins, "width"), np.ones(len(p))
    keys = seeds.keys(config.seed, "analysis/outcomes", 0, np.arange(SIMULATIONS))
    outcomes = ((seeds.uniforms(key, len(p)) < p).astype(np.float64) for key in keys)
    return float(np.mean([ece(p, outcome, ones, bins) for outcome in outcomes]))


def add_tables_and_figures(findings: Findings, scored: Sequence[tuple[str, str]], first: str) -> None:
    """Adds tables and reliability diagrams; `scored` lists each model with each kind of error."""
    note = (
        "Fitted on one half of the sentences, tested on the other. By chance: the ECE of a calibrated model"
        " with the same probabilities and number of words. An ECE is biased upwards, more so in resamples:"
        " its interval may lie above it. Log loss in nats."
    )
    title, down = "Calibration error, before and after recalibration", ("model", "of", "recalibrated")
    measures: tuple[str, ...] = (WIDTH, "by chance", MASS, "Brier", "log loss", "temperature")
    findings.table(title, *down, note=note, measure=measures)
    note = (
        "Brier = reliability - resolution + uncertainty + within bins. Reliability 0 means calibrated;"
        " resolution is the model's information; uncertainty belongs to the data."
    )
    measures = ("Brier", "reliability", "resolution", "uncertainty", "within bins", EXPLAINED)
    uncalibrated = {"note": note, "recalibrated": UNCALIBRATED}
    findings.table("Parts of the Brier score", "model", "of", measure=measures, **uncalibrated)
    note = (
        "Bins of equal mass, with 95 % intervals. On the diagonal the model is calibrated; below it, it"
        " is over-suspicious."
    )
    for kind, slug in ((GENERATOR, "generator"), (HUMAN, "learners")):
        if (first, kind) in scored:
            keep = {"of": kind, "measure": SHARE, "model": first}
            shares = findings.select(MEAN, "recalibrated", **keep)
            highest = max(max(p, share.value or 0.0) for (p, _), share in shares.items())
            span = 0.0, float(np.ceil(10 * highest) / 10)
            shown = {"references": {"calibrated": "diagonal"}, "x_range": span, "y_range": span}
            name, title = f"reliability-{slug}", f"Reliability, {kind}"
            findings.figure(name, title, MEAN, "recalibrated", keep, note=note, unit=SHARE, **shown)
