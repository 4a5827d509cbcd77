"""Runs a probe and writes its findings as JSON: once, or at every checkpoint of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation import AnalysisFolder
from electra.artifacts.run import RunFolder
from electra.exchange.source import locate
from electra.foundation import durable
from electra.foundation.config import differences
from electra.foundation.errors import CheckpointError, ConfigError, ModelError, RunFolderError
from electra.foundation.extensions import PROBES
from electra.foundation.progress import Progress, part_progress
from electra.laboratory.analysis.contract.findings import Estimate, Findings, as_json
from electra.laboratory.analysis.contract.models import Model, difference
from electra.laboratory.analysis.contract.probe import Data, Probe

FORMAT = 2  # version of the JSON files


@dataclass(frozen=True)
class ProbeOutcome:
    """Where the record of a probe is, and why it was written or reused."""

    path: Path
    reused: bool
    """Whether an earlier command wrote the record, so that the probe was not run again."""
    left_out: Sequence[str]
    """A line on each model that could not take part."""
    changed: Sequence[str] = ()
    """The keys that differ from the record that it replaces, if any: options, data, models, ..."""


def run_probe(
    name: str,
    probe: Probe,
    models: Sequence[Model],
    data: Data,
    out: Path,
    *,
    progress: Progress,
    over_training: bool = False,
) -> ProbeOutcome:
    """Runs a probe and writes OUT/NAME.probe.json, unless that file already answers the same request.

    Args:
        name: The probe's name, or the path of its file, whose stem becomes the name.
        probe: The probe with its options.
        models: The model under study, then those it is compared with.
        data: The files of each input.
        out: The folder of the analysis.
        progress: Receives the current activity and the fraction done.
        over_training: Whether to run it at each checkpoint of the first model's run; the file is then
            OUT/NAME-over-training.probe.json.

    Raises:
        ModelError: The first model lacks a network that the probe needs, or a source is not a model.
        DataError: The data cannot be used.
        RunFolderError: `over_training` is set, but the first model is not a run or has no usable checkpoint.
    """
    probe_name, title = PROBES.canonical_name(name), probe.title
    path, left_out = AnalysisFolder(out).probe(probe_name), list[str]()
    if over_training:
        path, title = AnalysisFolder(out).probe(f"{probe_name}-over-training"), f"{title}, over training"
    else:
        models, left_out = usable_models(probe, models)
    request = {
        "probe": probe_name,
        **PROBES.identity(name),
        "version": probe.version,
        "options": as_json(vars(probe.config)),
        "data": {key: [_describe(path) for path in paths] for key, paths in data.items()},
        "checkpoints": _checkpoints(models[0]) if over_training else {},
    }
    previous = _previous_record(path)
    changed = [
        key for key, _, _ in differences({key: previous.get(key) for key in request}, as_json(request))
    ]
    recorded = previous.get("models", [])
    same_models = len(recorded) == len(models) and all(map(Model.matches_record, models, recorded))
    if same_models and not changed:
        return ProbeOutcome(path, reused=True, left_out=left_out)
    if over_training:
        findings = run_over_training(probe, models[0], data, progress)
    else:
        findings = probe.run(models, data, progress)
    findings.notes += [*_folder_notes(data), *_origin_notes(models), *left_out]
    record = {
        "format": FORMAT,
        **request,
        "title": title,
        "question": probe.question,
        "source": probe.source,
        "models": [model.describe() for model in models],
        **findings.to_json(),
    }
    durable.commit_json(path, record)
    changed = changed or ["models"]
    return ProbeOutcome(path, reused=False, left_out=left_out, changed=changed if previous else [])


def usable_models(probe: Probe, models: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """Returns the models with the networks that the probe needs, and a line on each other model.

    Raises:
        ModelError: The first model cannot take part, or a source is not a model.
    """
    usable, left_out = [], []
    for model in models:
        try:
            if model is models[0] or not any(map(model.optional, probe.optional_networks)):
                for network in probe.needs:
                    model.network(network)
            usable.append(model)
        except ModelError as error:
            if model is models[0]:
                raise
            model.network("encoder")  # raises if the source is not a model at all
            left_out.append(f"{model.name} was left out: {error.what}.")
    return usable, left_out


def _previous_record(path: Path) -> dict[str, Any]:
    """Returns the record at `path`; {} if it is missing or unreadable."""
    try:
        record = durable.read_json(path, ConfigError)
    except ConfigError:
        return {}
    return record if isinstance(record, dict) else {}


def _folder_notes(data: Data) -> list[str]:
    """Returns a note on each input whose files lie in several folders, which may be unintended."""
    folders = {key: sorted({path.parent.name for path in paths}) for key, paths in data.items()}
    return [
        f"{key}: files of several folders are read together ({', '.join(names)})."
        for key, names in folders.items()
        if len(names) > 1
    ]


def _origin_notes(models: Sequence[Model]) -> list[str]:
    """Returns a note on how each other model's training differs from the first's, if known."""
    first, *others = ((model.name, model.origin) for model in models)
    return [
        f"Compared with {first[0]} ({first[1]}), {name} has {difference(first[1], origin)} ({origin})."
        for name, origin in others
        if origin is not None and first[1] is not None
    ]


def _checkpoints(model: Model) -> dict[str, str]:
    """Returns, for each saved step, the digest of the checkpoint's manifest; "" without one."""
    saved = RunFolder(locate(model.source)).saved_checkpoints()
    manifests = {str(checkpoint.step): checkpoint.path / durable.MANIFEST for checkpoint in saved}
    return {step: durable.sha256(path)[:12] if path.is_file() else "" for step, path in manifests.items()}


def run_over_training(probe: Probe, model: Model, data: Data, progress: Progress) -> Findings:
    """Returns the probe's headline numbers at each checkpoint of a run.

    Raises:
        ModelError: The run lacks a network that the probe needs.
        RunFolderError: The model is not a run, or has no usable checkpoint.
    """
    run = locate(model.source)
    if not RunFolder.is_at(run):
        problem = "`over_training` needs the checkpoints of a run, but this is not a run"
        raise RunFolderError(problem, where=run, fix="Pass a run folder")
    steps = sorted(checkpoint.step for checkpoint in RunFolder(run).saved_checkpoints())
    findings, headlines = Findings(), dict[int, dict[str, Estimate]]()
    for i, step in enumerate(steps):
        at_step, share_of_step = model.at(step), part_progress(progress, f"step {step}", i, len(steps))
        try:
            for network in probe.needs:
                at_step.network(network)
        except CheckpointError as error:
            findings.notes.append(f"Step {step} was left out: {error}")
            continue
        report = lambda _, share, report=share_of_step: report(share or 0.0)  # noqa: E731
        headlines[step] = probe.run([at_step], data, report).headline
    if not headlines:
        fix = "Keep more checkpoints while training: `training.keep=10`"
        raise RunFolderError("the run has no usable checkpoint", where=run, fix=fix)
    last_step, findings.headline = list(headlines.items())[-1]
    findings.notes.append(
        f"{len(headlines)} checkpoints; the numbers above are those of the last, step {last_step}. A run"
        " keeps only its newest checkpoints: --training.keep sets how many."
    )
    findings.table("Headline numbers", "step")
    for measure in next(iter(headlines.values())):
        for step, headline in headlines.items():
            findings.add(headline.get(measure, Estimate(None)), step=step, measure=measure)
        slug = "".join(letter if letter.isalnum() else "-" for letter in measure.lower()).strip("-")
        note = "The band is the 95 % interval."
        findings.figure(slug, measure, "step", "measure", {"measure": measure}, note=note)
    return findings


def _describe(path: Path) -> dict[str, Any]:
    return {"file": path.name, "folder": path.parent.name, "sha256": durable.sha256(path)}
