"""Run a probe and keep its answer as JSON: once, or at every checkpoint of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from electra import durable
from electra.analysis.contract import (
    Data,
    Estimate,
    Figure,
    Model,
    Probe,
    Progress,
    Report,
    Series,
    Table,
    as_json,
)
from electra.analysis.contract.origin import apart
from electra.artifacts.run import RunFolder
from electra.errors import CheckpointError, ConfigError, ModelError, RunFolderError
from electra.interop.source import locate

FORMAT = 1  # of the JSON files
ENDING = ".probe.json"


@dataclass(frozen=True)
class Answered:
    """A probe's record: its file, whether an earlier command had written it, and the models that could not
    take part.
    """

    path: Path
    kept: bool
    left_out: Sequence[str]


def run_probe(
    name: str,
    probe: Probe,
    models: Sequence[Model],
    data: Data,
    out: Path,
    *,
    progress: Progress,
    over_training: bool = False,
) -> Answered:
    """Ask, and write OUT/NAME.probe.json; or keep that file, if it is the answer to this very question."""
    stem = f"{name}-over-training" if over_training else name
    path = out / f"{stem}{ENDING}"
    models, left_out = (models, []) if over_training else able(probe, models)
    asked = {
        "format": FORMAT,
        "probe": name,
        "version": probe.version,
        "title": f"{probe.title}, over training" if over_training else probe.title,
        "question": probe.question,
        "source": probe.source,
        "options": as_json(vars(probe.config)),
        "data": {key: [_describe(path) for path in paths] for key, paths in data.items()},
        "checkpoints": _checkpoints(models[0]) if over_training else {},
    }
    if _is_answer(path, asked, models):
        return Answered(path, kept=True, left_out=left_out)
    report = follow(probe, models[0], data, progress) if over_training else probe.run(models, data, progress)
    report = replace(report, notes=[*report.notes, *_read_together(data), *_told_apart(models), *left_out])
    durable.commit_json(path, {**asked, "models": [model.describe() for model in models], **report.to_json()})
    return Answered(path, kept=False, left_out=left_out)


def able(probe: Probe, models: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """The models that have the networks which the probe needs, and a line on each other one. MODEL, the
    first, must have them.
    """
    kept, left_out = [], []
    for model in models:
        if model is not models[0] and any(model.optional(network) for network in probe.beside):
            kept.append(model)
            continue
        try:
            for network in probe.needs:
                model.network(network)
            kept.append(model)
        except ModelError as problem:
            if model is models[0]:
                raise
            model.network("encoder")  # what is no model at all stays an error
            left_out.append(f"{model.name} is left out: {problem.what}.")
    return kept, left_out


def _is_answer(path: Path, asked: Mapping[str, Any], models: Sequence[Model]) -> bool:
    """Whether the file holds the answer to what is asked, of these models with these weights."""
    try:
        record = durable.read_json(path, ConfigError)
    except ConfigError:
        return False
    if not isinstance(record, dict) or any(record.get(key) != value for key, value in asked.items()):
        return False
    described = record.get("models", [])
    return len(described) == len(models) and all(
        model.is_still(was) for model, was in zip(models, described, strict=True)
    )


def _read_together(data: Data) -> list[str]:
    """Where one input's files lie in several folders, which may not have been meant."""
    folders = {key: sorted({path.parent.name for path in paths}) for key, paths in data.items()}
    return [
        f"{key}: files of several folders are read together ({', '.join(names)})."
        for key, names in folders.items()
        if len(names) > 1
    ]


def _told_apart(models: Sequence[Model]) -> list[str]:
    """What sets each other model apart from the first, where that is known."""
    first, *others = ((model.name, model.origin) for model in models)
    return [
        f"Beside {first[0]} ({first[1]}), {name} is of {apart(first[1], origin)} ({origin})."
        for name, origin in others
        if origin is not None and first[1] is not None
    ]


def _checkpoints(model: Model) -> dict[str, str]:
    """step -> digest of what the checkpoint says of itself."""
    saved = RunFolder(locate(model.source)).saved()
    manifests = {str(checkpoint.step): checkpoint.path / durable.MANIFEST for checkpoint in saved}
    return {step: durable.sha256(path)[:12] if path.is_file() else "" for step, path in manifests.items()}


def follow(probe: Probe, model: Model, data: Data, progress: Progress) -> Report:
    """The probe's headline numbers at each checkpoint of a run."""
    run = locate(model.source)
    if not RunFolder.is_at(run):
        raise RunFolderError(
            "--over-training follows the checkpoints of a run, and this is none",
            where=run,
            fix="Give a run folder",
        )
    steps = sorted(checkpoint.step for checkpoint in RunFolder(run).saved())
    found: list[tuple[int, Report]] = []
    notes: list[str] = []
    for number, step in enumerate(steps):
        progress(f"step {step}", number / len(steps))
        at_step = model.at(step)
        try:
            for network in probe.needs:
                at_step.network(network)
        except CheckpointError as problem:
            notes.append(f"Step {step} is left out: {problem}")
            continue
        found.append((step, probe.run([at_step], data, _part(progress, number, len(steps), f"step {step}"))))
    if not found:
        raise RunFolderError(
            "there is no checkpoint to follow", where=run, fix="Keep some while training: --training.keep 10"
        )
    last = f"{len(found)} checkpoints; the numbers above are those of the last, step {found[-1][0]}."
    notes.append(f"{last} A run keeps its newest ones only: --training.keep says how many.")
    measures = list(found[0][1].headline)
    table = Table(
        "Headline numbers",
        ("step", *measures),
        [(step, *(report.headline.get(key) for key in measures)) for step, report in found],
    )
    return Report(found[-1][1].headline, [table], [_over_steps(key, found) for key in measures], notes)


def _part(progress: Progress, number: int, of: int, name: str) -> Progress:
    """Progress within the `number`-th of several equal parts."""
    return lambda _, share: progress(name, (number + share) / of)


def _over_steps(measure: str, found: Sequence[tuple[int, Report]]) -> Figure:
    points = [report.headline.get(measure, Estimate(None)) for _, report in found]
    series = Series.of(measure, [step for step, _ in found], points)
    plain = "".join(letter if letter.isalnum() else "-" for letter in measure.lower()).strip("-")
    return Figure(plain, measure, "The band is the 95 % interval.", "steps", "", [series])


def _describe(path: Path) -> dict[str, Any]:
    return {"file": path.name, "folder": path.parent.name, "sha256": durable.sha256(path)}
