"""Models + a suite of tasks -> Evaluation: fine-tune and probe, beside the published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation import EvaluationFolder
from electra.commands.workflow.artifact import Artifact, Source, given_path, several
from electra.commands.workflow.display import Told, display_for
from electra.commands.workflow.prepare import sources
from electra.commands.workflow.rows import Rows
from electra.foundation.config import check_least
from electra.foundation.errors import ConfigError, Interrupted
from electra.foundation.machine import Device
from electra.foundation.signals import StopRequest


class Evaluation(Artifact[EvaluationFolder]):
    """A folder made by `evaluate`."""

    FOLDER = EvaluationFolder

    @property
    def table(self) -> Rows:
        """One row a task, split and metric: each model's value over the seeds. `.frame()` for pandas."""
        rows = Rows()
        for row in self.folder.record["rows"]:
            for model, score in row["scores"].items():
                about = {key: row.get(key) for key in ("task", "split", "metric")}
                rows.append({**about, "model": model, **{k: v for k, v in score.items() if _plain(v)}})
        return rows

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The tasks that failed: task, model, problem."""
        return list(self.folder.record.get("failures", []))


def _plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def evaluate(
    models: Source | Sequence[Source],
    *,
    data: Source | Sequence[Source],
    out: Source,
    suite: str = "glue",
    seeds: int = 1,
    jobs: int = 1,
    random_twin: bool = False,
    floors: bool = True,
    settings: Mapping[str, Any] | None = None,
    probe_options: str | Sequence[str] = (),
    device: Device = "auto",
    progress: Told = None,
) -> Evaluation:
    """Run a suite of tasks on one model or several in the folder `out`, or resume what lies there.

    models: Runs, Models, folders or hub names.
    data: the folder (or folders) below which the tasks' data lie, each in a folder named after its task.
    suite: "glue", "superglue-mini", "tagging", "squad", "sentences", "babylm", "all", or a TOML file.
    seeds: how many times each task is fine-tuned.
    jobs: tasks at the same time, each in a process with its share of the cores.
    random_twin: also fine-tune fresh weights in the shape of the first model.
    floors: also score what needs no network: the majority, and counting words.
    settings: of every fine-tuning, such as {"epochs": 1}; they win over the suite's.
    probe_options: "key=value", of the suite's probes.

    A task that fails does not stop the others: see `Evaluation.failures`. Raises ConfigError, DataError,
    RunFolderError, and Interrupted when asked to stop (rerun to resume).
    """
    from electra.laboratory.evaluation.running import Options, entrants
    from electra.laboratory.evaluation.running import evaluate as run
    from electra.laboratory.evaluation.suite import load_suite
    from electra.pages.suite import write_page

    folder, given, roots = given_path(out, "out"), sources(models), [Path(root) for root in sources(data)]
    if not given:
        raise ConfigError("no model given", key="models")
    if not roots:
        raise ConfigError("no data given", key="data", fix="Pass the folder that holds the tasks' folders")
    chosen = load_suite(suite)
    options = Options(seeds, device, jobs, dict(settings or {}), several(probe_options, "probe_options"))
    check_least(options, {"seeds": 1, "jobs": 1})
    with display_for(progress) as display, StopRequest() as stop:
        record = run(
            chosen,
            entrants(given, random_twin, floors),
            roots,
            folder,
            options=options,
            say=display.say,
            stop=stop,
        )
        page = write_page(folder)  # of what is done so far, where it was stopped
        if record is None:
            raise Interrupted(str(folder), stop.exit_code or 130)
        display.say(f"table: {EvaluationFolder(folder).table}")
        display.say(f"page: {page}")
    return Evaluation(folder)
