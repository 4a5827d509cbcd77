"""The command `electra ablate`; the study itself is run by `electra.laboratory.ablation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from electra.artifacts.study import StudyFolder
from electra.commands.framework.command import Command, RepeatedNames, Source, Sources, function
from electra.commands.framework.display import Display, Terminal, display_for
from electra.commands.parts.copies import Copies, print_missing
from electra.commands.parts.shared import Workers
from electra.commands.parts.train import Inputs, open_store
from electra.commands.results.run import Study
from electra.foundation import machine
from electra.foundation.config import check_at_least, check_at_most
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.leases import Leases
from electra.foundation.options import as_names, as_strings, checked_path, optional_name
from electra.foundation.progress import duration
from electra.foundation.signals import StopRequest

if TYPE_CHECKING:
    from electra.artifacts.session import Session
    from electra.data.store import TokenStore
    from electra.laboratory.ablation.runner import JobStatus
    from electra.laboratory.ablation.study import Study as Plan


@dataclass(frozen=True)
class Ablate(
    Copies,
    Workers,
    Command[Study],
    group="Measure",
    examples=(
        "electra ablate objectives --store store --budget 10Mtokens --out runs/objectives",
        "electra ablate masking --corpus texts/ --budget 30m --seeds 5 --jobs 2 --out runs/masking",
    ),
):
    """Compare objectives and settings at equal compute: train a study's arms with several seeds.

    Arms are the variants that a study compares. Rerun the command to resume a stopped study, or to add arms
    (--only), seeds or evaluation tasks. A failed run does not stop the others; the study's report lists it,
    as does `Study.failed` in Python.
    """

    study: str
    """The name of a study (objectives, generator-size, training-algorithm, tying, masking, convergence,
    model-size, lambda, temperature, ...), or a TOML file.
    """
    _: KW_ONLY
    out: Source
    """The folder for the study."""
    only: RepeatedNames = ()
    """An arm to train now; may be repeated (default: all). The others can be trained later; the report lists
    what is missing.
    """
    corpus: Sources = ()
    """Text to train on: files, folders, globs, URLs, - (stdin), hub:NAME, or python-docs (Python's own
    documentation).
    """
    store: Source | None = None
    """A token store made by electra prepare, instead of a corpus: a folder, a .ds file, or an address
    (s3://..., https://...).
    """
    budget: str | None = None
    """The compute of each arm (default: the recipe's). 2e14flops: this number of FLOPs. 10Mtokens or
    5000steps: the FLOPs that the most expensive arm needs for that. 30m: the FLOPs that the baseline arm uses
    in that time.
    """
    seeds: int = 3
    """Runs per arm, each with its own seed. All arms use the same seeds, so they see the data in the same
    order.
    """
    seed: int = 1
    """The first seed."""
    recipe: Source | None = None
    """The recipe that the arms modify: a name or a TOML file (default: the study's, which is budget-tiny in
    those that come with electra).
    """
    eval_data: Source | None = None
    """A folder with the data of the evaluation tasks (docs/ablations.md lists the files). Without it a study
    reports only pre-training metrics.
    """
    eval_task: RepeatedNames = ()
    """A task on which to evaluate each encoder; may be repeated (default: pos and chunking). These two keep
    the encoder frozen; stsb, sst2, cola and mnli fine-tune it, which is slower.
    """
    jobs: int = 1
    """Runs to train at the same time."""
    threads: int | None = None
    """CPU threads per run (default: the number of cores divided by --jobs)."""

    @property
    def folder(self) -> Path:
        """The study's folder."""
        return checked_path(self.out, "out")

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms to train now; empty for all."""
        return as_strings(self.only, "only")

    @property
    def threads_each(self) -> int:
        """CPU threads of each run."""
        return self.threads or max(1, machine.default_threads() // self.jobs)

    @override
    def run(self) -> Study:
        with display_for(self.progress) as display:
            with StopRequest() as stop:
                self.run_copies(self.folder, display.say, stop, self._remaining)
            _run_study(self, display)
        return Study(self.folder)

    @override
    def preview(self) -> None:
        """Print what the study would cost, in FLOPs and in hours at the speed measured now."""
        with display_for(self.progress) as display:
            _run_study(self, display, dry_run=True)

    def _remaining(self) -> list[str]:
        """Returns the requested runs that are not done, with the process that works on each, if any."""
        from electra.laboratory.ablation import plan, runner

        folder = StudyFolder(self.folder)
        if not folder.exists():
            return [f"the study {self.study}: not started"]
        planned, leases = plan.read_plan(self.folder), Leases(folder.leases)
        arms, seeds = self.arms or planned["fixed"]["arms"], range(self.seed, self.seed + self.seeds)
        jobs = [job for job in plan.all_jobs(planned, seeds) if job.arm in arms]
        statuses = [runner.job_status(self.folder, job, planned) for job in jobs]
        return [leases.label(str(status.job)) for status in statuses if status.state != "done"]

    @override
    def main(self) -> int:
        if self.missing:
            return print_missing(self._remaining())
        return 1 if self.run().failed else 0


ablate = function(Ablate)


def _run_study(request: Ablate, display: Display, *, dry_run: bool = False) -> None:
    """Trains the requested runs in the study's folder, which it locks. `dry_run` only prints the cost."""
    from electra.laboratory.ablation.plan import read_plan
    from electra.laboratory.ablation.study import find_study, read_study

    check_at_least(request, dict.fromkeys(("seeds", "jobs", "threads"), 1))
    check_at_most(request, {"threads": machine.MAX_THREADS})
    if request.store is not None and as_names(request.corpus, "corpus"):
        raise ConfigError("both `store` and `corpus` were passed", fix="Pass only one of them")
    study, folder = read_study(find_study(request.study)), StudyFolder(request.folder)
    for name in request.arms:
        if name not in study.arms:
            raise ConfigError(f"no arm named {name!r}", key="only", fix=nearest(name, list(study.arms)))
    if folder.exists():
        read_plan(request.folder)  # rejects a folder that is not a study's before anything is written there
    with folder.session(say=display.say, stop=lambda: False, shared=True) as session:
        store = _open_store(request, study, display)
        with StopRequest() as session.stopping:
            planned, statuses, jobs = _plan(request, study, store)
            if dry_run:
                for line in (*_opening(planned, jobs, request), *_hours(planned, jobs, store, request)):
                    display.say(line)
                return
            store.tokenizer.save(folder.tokenizer)  # the workers read it there
            session.begin(planned, differences=(), rewrite=True)
            session.share()
            _train(request, planned, statuses, jobs, session=session, display=display)


def _open_store(request: Ablate, study: Plan, display: Display) -> TokenStore:
    from electra.laboratory.ablation.study import arm_recipe

    recipe = optional_name(request.recipe, "recipe") or study.recipe
    baseline = arm_recipe(study, study.arms[study.baseline], recipe)
    corpus, store = tuple(as_names(request.corpus, "corpus")), optional_name(request.store, "store")
    inputs = Inputs(out=str(request.folder), corpus=corpus, store=store, workers=request.workers)
    return open_store(inputs, baseline, display)


def _plan(
    request: Ablate, study: Plan, store: TokenStore
) -> tuple[dict[str, Any], list[JobStatus], list[JobStatus]]:
    """Returns the plan, the state of all runs of the study, and the state of those to train now."""
    from electra.laboratory.ablation import plan, runner

    planned = plan.make_plan(
        study,
        store,
        request.folder,
        recipe=optional_name(request.recipe, "recipe") or study.recipe,
        budget_text=request.budget,
        threads=request.threads_each,
        panel=_panel(request),
    )
    seeds = range(request.seed, request.seed + request.seeds)
    all_seeds = sorted({*seeds, *plan.seeds_begun(request.folder, planned)})
    statuses = [runner.job_status(request.folder, job, planned) for job in plan.all_jobs(planned, all_seeds)]
    arms = request.arms or study.arms
    return planned, statuses, [each for each in statuses if each.job.seed in seeds and each.job.arm in arms]


def _train(
    request: Ablate,
    planned: Mapping[str, Any],
    statuses: Sequence[JobStatus],
    jobs: Sequence[JobStatus],
    *,
    session: Session,
    display: Display,
) -> None:
    """Trains and evaluates `jobs`, and rewrites the results whenever a run has ended."""
    from electra.laboratory.ablation import results, runner
    from electra.laboratory.ablation.overview import Overview
    from electra.pages.study import write_page

    folder, identity = StudyFolder(request.folder), planned["panel"]["identity"]
    leases = Leases(folder.leases)

    def record() -> dict[str, Any]:
        for status in statuses:  # other processes may have done more
            if status.state == "waiting" and runner.is_scored(status.folder, identity):
                status.state = "done"
        with session.exclusive():
            contents = results.study_results(planned, statuses)
            results.write(request.folder, contents)
        return contents

    is_live = isinstance(display, Terminal) and display.console.is_terminal
    overview = Overview(jobs, session.say, display.progress, live=is_live)
    for line in _opening(planned, jobs, request):
        session.say(line)

    def finished(job: JobStatus) -> None:
        overview.report_end(job)
        record()

    execution = runner.Execution(
        request.folder.resolve(), request.jobs, request.threads_each, leases, identity
    )
    runner.run_jobs(execution, jobs, stopping=session.stopping, refresh=overview.refresh, on_end=finished)
    final_results = record()
    for line in results.summary_lines(final_results):
        session.say(line)
    with session.exclusive():
        page = write_page(request.folder)
    session.say(f"page: {page}")
    if session.stopping() and any(job.state != "done" for job in jobs):
        session.interrupt()
    with session.exclusive():
        folder.record_digests()
        if not final_results["failed"] and final_results["complete"]:
            leases.clear()
    for failure in final_results["failed"]:
        session.say(f"failed: {failure['job']}: {failure['problem']}")


def _panel(request: Ablate) -> dict[str, Any]:
    """Returns the requested evaluation tasks, or those that the study has used so far."""
    from electra.laboratory.ablation import panel, plan

    folder = StudyFolder(request.folder)
    recorded = plan.read_plan(request.folder)["panel"] if folder.exists() else {"tasks": {}}
    requested_tasks = as_strings(request.eval_task, "eval_task")
    data = None if request.eval_data is None else checked_path(request.eval_data, "eval_data")
    if data is None and recorded["tasks"]:
        data = Path(recorded["folder"])
    if data is None and requested_tasks:
        raise ConfigError("needs `eval_data`", key="eval_task", fix="Pass the folder with the tasks' data")
    return panel.panel_record(data, requested_tasks or tuple(recorded["tasks"]) or panel.DEFAULT_TASKS)


def _opening(planned: Mapping[str, Any], jobs: Sequence[JobStatus], request: Ablate) -> list[str]:
    """Returns lines on the size of the study and of each arm."""
    num_done = sum(job.state == "done" for job in jobs)
    arms, threads = planned["fixed"]["arms"], request.threads_each
    lines = [
        f"{len(arms)} arms of {planned['fixed']['flops']:.3g} FLOPs; {len(jobs)} runs, {num_done} already"
        f" done; {request.jobs} at a time, {threads} thread{'s' if threads > 1 else ''} each"
    ]
    for name, arm in arms.items():
        steps = arm["steps"][-1]
        tokens, flops = steps * arm["tokens_per_step"], steps * arm["flops_per_step"]
        lines.append(f"  {name}: {steps:,} updates, {tokens / 1e6:.3g} M tokens, {flops:.4g} FLOPs")
    return lines


def _hours(
    planned: Mapping[str, Any], jobs: Sequence[JobStatus], store: TokenStore, request: Ablate
) -> list[str]:
    """Returns lines on the time left, estimated by training each arm for a few seconds."""
    from electra.laboratory.ablation.plan import Job, job_recipe
    from electra.training.distributed import World
    from electra.training.estimate import measure
    from electra.training.run import build_run

    share, total_seconds, lines = planned["fixed"]["budgets"][-1], 0.0, []
    for arm in dict.fromkeys(job.job.arm for job in jobs):
        recipe = job_recipe(planned, Job(arm, share, 1), request.threads_each)
        seconds = measure(build_run(recipe, Path("."), store, World())).seconds
        steps = sum(job.steps - job.step for job in jobs if job.job.arm == arm)
        time_left = duration(seconds * steps)
        lines.append(f"  {arm}: {1000 * seconds:.0f} ms per update, {steps:,} updates left, {time_left}")
        total_seconds += seconds * steps
    parallel = (
        f", {duration(total_seconds / request.jobs)} with {request.jobs} at a time"
        if request.jobs > 1
        else ""
    )
    return [
        "time at the speed measured now:",
        *lines,
        f"  {duration(total_seconds)} one after the other{parallel}, plus evaluations; nothing was trained",
    ]
