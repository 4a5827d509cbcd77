"""Runs a probe and writes its findings as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from electra.artifacts.evaluation_files import AnalysisFolder
from electra.foundation import durable
from electra.foundation.config import differences
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.extensions import PROBES
from electra.foundation.progress import Progress
from electra.laboratory.analysis.contract.findings import as_json
from electra.laboratory.analysis.contract.probe import Data, Probe
from electra.laboratory.analysis.contract.studied_models import StudiedModel

FORMAT = 2  # version of the JSON files


class ProbeOutcome(NamedTuple):
    """Where the record of a probe is, and why it was written or reused."""

    path: Path
    reused: bool  # an earlier command wrote the record, so that the probe was not run again
    notes: Sequence[str]  # a line on each model that could not take part, or knows few of the tokens
    changed: Sequence[str] = ()  # the keys that differ from the record that it replaces, if any


def run_probe(
    name: str,
    probe: Probe,
    models: Sequence[StudiedModel],
    data: Data,
    out: Path,
    *,
    progress: Progress,
    allow_unknown: bool = False,
) -> ProbeOutcome:
    """Runs a probe and writes OUT/NAME.probe.json, unless that file already answers the same request.

    `name` is the probe's name or its file; `models` begin with the one under study; `data` has the files of
    each input. Raises TokenizerError for too many unknown tokens, unless `allow_unknown`; ModelError
    if the first model lacks a network or a source is not a model; DataError for data that cannot be used.
    """
    path = AnalysisFolder(out).probe(PROBES.canonical_name(name))
    models, notes = usable_models(probe, models)
    request = {
        "probe": PROBES.canonical_name(name),
        **PROBES.identity(name),
        "version": probe.version,
        "options": as_json(vars(probe.config)),
        "data": {
            key: [{"file": p.name, "folder": p.parent.name, "sha256": durable.sha256(p)} for p in paths]
            for key, paths in data.items()
        },
    }
    previous = _previous_record(path)
    changed = [key for key, *_ in differences({key: previous.get(key) for key in request}, as_json(request))]
    recorded = previous.get("models", [])
    same_models = len(recorded) == len(models) and all(map(StudiedModel.matches_record, models, recorded))
    if same_models and not changed:
        return ProbeOutcome(path, reused=True, notes=notes)
    for model in models:
        model.count_anew()
    findings = probe.run(models, data, progress)
    notes += [note for model in models if (note := model.unknown_note(allow_unknown))]
    for key, paths in data.items():
        if len(folders := sorted({path.parent.name for path in paths})) > 1:  # which may be unintended
            note = f"{key}: files of several folders are read together ({', '.join(folders)})."
            findings.notes.append(note)
    findings.notes += notes
    record = {
        "format": FORMAT,
        **request,
        "title": probe.title,
        "question": probe.question,
        "source": probe.source,
        "models": [model.describe() for model in models],
        **findings.to_json(),
    }
    durable.commit_json(path, record)
    changed = (changed or ["models"]) if previous else []
    return ProbeOutcome(path, reused=False, notes=notes, changed=changed)


def usable_models(probe: Probe, models: Sequence[StudiedModel]) -> tuple[list[StudiedModel], list[str]]:
    """Returns the models that the probe can use (ModelError if not the first), and a line on each other."""
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
    try:
        record = durable.read_json(path, ConfigError)
    except ConfigError:
        return {}
    return record if isinstance(record, dict) else {}
