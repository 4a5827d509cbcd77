"""Run a probe and keep its answer as JSON: once, or at every checkpoint of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra import durable
from electra.analysis.parts.interface import Data, Estimate, Figure, Probe, Progress, Report, Series, Table, as_json
from electra.analysis.parts.models import Model
from electra.errors import CheckpointError, ConfigError, RunFolderError
from electra.interop import run_folder
from electra.interop.source import locate

FORMAT = 1  # of the JSON files
ENDING = ".probe.json"


def run_probe(
    name: str, probe: Probe, models: Sequence[Model], data: Data, out: Path, *, progress: Progress, over_training: bool = False
) -> Path:
    """Ask, and write OUT/NAME.probe.json. Returns the file."""
    check_models(name, probe, models)
    if over_training:
        report, title, stem = follow(probe, models[0], data, progress), f"{probe.title}, over training", f"{name}-over-training"
    else:
        for model in models:
            for network in probe.needs:
                model.network(network)
        report, title, stem = probe.run(models, data, progress), probe.title, name
    record = {
        "format": FORMAT,
        "probe": name,
        "version": probe.version,
        "title": title,
        "question": probe.question,
        "source": probe.source,
        "options": as_json(vars(probe.config)),
        "models": [model.describe() for model in models],
        "data": {key: [_describe(path) for path in paths] for key, paths in data.items()},
        **report.to_json(),
    }
    path = out / f"{stem}{ENDING}"
    durable.commit_json(path, record)
    return path


def check_models(name: str, probe: Probe, models: Sequence[Model]) -> None:
    if len(models) < probe.min_models:
        raise ConfigError(f"{name} compares at least {probe.min_models} models", where="--against", fix="Name another model with --against")
    if probe.max_models is not None and len(models) > probe.max_models:
        raise ConfigError(f"{name} takes at most {probe.max_models} models, not {len(models)}", where="--against", fix="Name fewer")


def follow(probe: Probe, model: Model, data: Data, progress: Progress) -> Report:
    """The probe's headline numbers at each checkpoint of a run."""
    run = locate(model.source)
    if not run_folder.is_run(run):
        raise RunFolderError("--over-training follows the checkpoints of a run, and this is none", where=run, fix="Give a run folder")
    steps = sorted(step for step, _ in run_folder.checkpoints(run))
    found: list[tuple[int, Report]] = []
    notes: list[str] = []
    for number, step in enumerate(steps):
        progress(f"step {step}", number / len(steps))
        at_step = replace(model, step=step, _loaded={})
        try:
            for network in probe.needs:
                at_step.network(network)
        except CheckpointError as problem:
            notes.append(f"Step {step} is left out: {problem}")
            continue
        found.append((step, probe.run([at_step], data, _part(progress, number, len(steps), f"step {step}"))))
    if not found:
        raise RunFolderError("there is no checkpoint to follow", where=run, fix="Keep some while training: --training.keep 10")
    notes.append(f"{len(found)} checkpoints. A run keeps its newest ones only: --training.keep says how many.")
    measures = list(found[0][1].headline)
    table = Table(
        "Headline numbers", ("step", *measures), [(step, *(report.headline.get(key) for key in measures)) for step, report in found]
    )
    return Report(found[-1][1].headline, [table], [_over_steps(key, found) for key in measures], notes)


def _part(progress: Progress, number: int, of: int, name: str) -> Progress:
    """Progress within the `number`-th of several equal parts."""
    return lambda _, share: progress(name, (number + share) / of)


def _over_steps(measure: str, found: Sequence[tuple[int, Report]]) -> Figure:
    points = [report.headline.get(measure, Estimate(None)) for _, report in found]
    series = Series.of(measure, [step for step, _ in found], points)
    plain = "".join(letter if letter.isalnum() else "-" for letter in measure.lower()).strip("-")
    return Figure(f"over-training-{plain}", measure, "The band is the 95 % interval.", "steps", measure, [series])


def _describe(path: Path) -> dict[str, Any]:
    return {"file": path.name, "folder": path.parent.name, "sha256": durable.sha256(path)}
