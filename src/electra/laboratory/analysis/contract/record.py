"""Run a probe and keep its answer as JSON: once, or at every checkpoint of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.artifacts import digests
from electra.artifacts.evaluation import AnalysisFolder
from electra.artifacts.run import RunFolder
from electra.exchange.source import locate
from electra.foundation import durable
from electra.foundation.config import differences
from electra.foundation.errors import CheckpointError, ConfigError, ModelError, RunFolderError
from electra.foundation.extensions import PROBES
from electra.foundation.progress import Progress, part_progress
from electra.laboratory.analysis.contract.findings import Estimate, Figure, Findings, Table, as_json
from electra.laboratory.analysis.contract.inputs import Data
from electra.laboratory.analysis.contract.models import Model
from electra.laboratory.analysis.contract.origin import apart
from electra.laboratory.analysis.contract.probe import Probe

FORMAT = 2  # of the JSON files; 1 held tables and figures ready-made


@dataclass(frozen=True)
class Answered:
    """A probe's record: its file, whether an earlier command had written it, the models that could not take
    part, and the names of what is asked otherwise than in the record that it replaces.
    """

    path: Path
    kept: bool
    left_out: Sequence[str]
    changed: Sequence[str] = ()


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
    """Ask, and write OUT/NAME.probe.json; or keep that file, if it is the answer to this very question.

    name: of the probe, or the path of its file, which goes by its stem.
    """
    short = PROBES.name_of(name)
    stem = f"{short}-over-training" if over_training else short
    path = AnalysisFolder(out).probe(stem)
    models, left_out = (models, []) if over_training else able(probe, models)
    asked = {
        "probe": short,
        **PROBES.identity(name),
        "version": probe.version,
        "options": as_json(vars(probe.config)),
        "data": {key: [_describe(path) for path in paths] for key, paths in data.items()},
        "checkpoints": _checkpoints(models[0]) if over_training else {},
    }
    earlier = _earlier(path)
    changed = [name for name, _, _ in differences({key: earlier.get(key) for key in asked}, as_json(asked))]
    if not changed and not _of_these(earlier, models):
        changed = ["models"]
    if not changed:
        return Answered(path, kept=True, left_out=left_out)
    found = follow(probe, models[0], data, progress) if over_training else probe.run(models, data, progress)
    found.notes.extend([*_read_together(data), *_told_apart(models), *left_out])
    described = [model.describe() for model in models]
    title = f"{probe.title}, over training" if over_training else probe.title
    prose = {"title": title, "question": probe.question, "source": probe.source}
    with digests.replacing(path):
        durable.commit_json(
            path, {"format": FORMAT, **asked, **prose, "models": described, **found.to_json()}
        )
    return Answered(path, kept=False, left_out=left_out, changed=changed if earlier else [])


def able(probe: Probe, models: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """The models with the networks that the probe needs, and a line on each other one; the first must do."""
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


def _earlier(path: Path) -> dict[str, Any]:
    """The record that lies there, empty where none can be read or it is not what was written."""
    if path.name in digests.changed_files(path.parent):
        return {}
    try:
        record = durable.read_json(path, ConfigError)
    except ConfigError:
        return {}
    return record if isinstance(record, dict) else {}


def _of_these(record: Mapping[str, Any], models: Sequence[Model]) -> bool:
    """Whether a record is of these models with these weights."""
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


def follow(probe: Probe, model: Model, data: Data, progress: Progress) -> Findings:
    """The probe's headline numbers at each checkpoint of a run."""
    run = locate(model.source)
    if not RunFolder.is_at(run):
        raise RunFolderError(
            "`over_training` follows the checkpoints of a run, but this is not a run",
            where=run,
            fix="Give a run folder",
        )
    steps = sorted(checkpoint.step for checkpoint in RunFolder(run).saved())
    findings, at_each = Findings(), dict[int, Findings]()
    for number, step in enumerate(steps):
        progress(f"step {step}", number / len(steps))
        at_step = model.at(step)
        try:
            for network in probe.needs:
                at_step.network(network)
        except CheckpointError as problem:
            findings.notes.append(f"Step {step} is left out: {problem}")
            continue
        at_each[step] = probe.run([at_step], data, _at_step(progress, number, len(steps), step))
    if not at_each:
        fix = "Keep some while training: `training.keep=10`"
        raise RunFolderError("there is no checkpoint to follow", where=run, fix=fix)
    last, found = list(at_each.items())[-1]
    findings.headline.update(found.headline)
    findings.notes.append(
        f"{len(at_each)} checkpoints; the numbers above are those of the last, step {last}. A run keeps its"
        " newest ones only: --training.keep says how many."
    )
    findings.tables.append(Table("Headline numbers", ("step",)))
    measures = list(next(iter(at_each.values())).headline)
    for step, found in at_each.items():
        for measure in measures:
            findings.add(found.headline.get(measure, Estimate(None)), step=step, measure=measure)
    findings.figures.extend(_over_steps(measure) for measure in measures)
    return findings


def _at_step(progress: Progress, number: int, count: int, step: int) -> Progress:
    """The probe's own progress at one of several checkpoints, told under the checkpoint's name."""
    told = part_progress(progress, f"step {step}", number, count)
    return lambda _, share: told(share or 0.0)


def _over_steps(measure: str) -> Figure:
    plain = "".join(letter if letter.isalnum() else "-" for letter in measure.lower()).strip("-")
    note = "The band is the 95 % interval."
    return Figure(plain, measure, "step", "measure", {"measure": measure}, note)


def _describe(path: Path) -> dict[str, Any]:
    return {"file": path.name, "folder": path.parent.name, "sha256": durable.sha256(path)}
