from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.study import StudyFolder
from electra.commands.framework.command import Command, RepeatedNames, Source, Sources, function
from electra.commands.framework.display import Display, Terminal, display_for
from electra.commands.parts.shared import Workers
from electra.commands.parts.train import Inputs, open_store
from electra.commands.results.artifact import given_path
from electra.commands.results.study import Study
from electra.foundation import machine
from electra.foundation.config import check_at_least, check_at_most
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.options import given_names, name_of, several
from electra.foundation.signals import StopRequest

if TYPE_CHECKING:
    from electra.artifacts.session import Session
    from electra.data.store import TokenStore
    from electra.laboratory.ablation.runner import JobStatus
    from electra.laboratory.ablation.study import Study as Plan


@dataclass(frozen=True)
class Ablate(
    Workers,
    Command[Study],
    group="Measure",
    examples=(
        "electra ablate objectives --store store --budget 10Mtokens --out runs/objectives",
        "electra ablate masking --corpus texts/ --budget 30m --seeds 5 --jobs 2 --out runs/masking",
    ),
):
    """Compare objectives and settings at equal compute: the arms of a study over seeds, with statistics.

    Rerun the command to resume a stopped study; another --only, more --seeds or a panel are added to it. A
    run that fails does not stop the others: see the page, or `Study.failed` in Python.
    """

    study: str
    """objectives, generator-size, training-algorithm, tying, masking, convergence, model-size, lambda,
    temperature, ...; or a TOML file.
    """
    _: KW_ONLY
    out: Source
    """The study's folder."""
    only: RepeatedNames = ()
    """An arm to train now (may be repeated; default: all). The others can be trained later; the page says
    what is missing.
    """
    corpus: Sources = ()
    """Text to train on: files, folders, globs, URLs, - (stdin), hub:NAME, or python-docs (the prose of
    Python's own documentation).
    """
    store: Source | None = None
    """A token store made by electra prepare, instead of a corpus: a folder, a .ds file, or an address
    (s3://..., https://...).
    """
    budget: str | None = None
    """The budget of each arm (default: the recipe's): 2e14flops; 10Mtokens or 5000steps, the minimum per arm;
    or a time for the baseline arm, such as 30m.
    """
    seeds: int = 3
    """Replicates of each arm. Arms share the seed of a replicate, and with it the order of the data."""
    seed: int = 1
    """The first seed."""
    recipe: Source | None = None
    """What the arms change: a recipe's name or a TOML file (default: the study's, budget-tiny in all of
    ours).
    """
    eval_data: Source | None = None
    """A folder with the data of these tasks (docs/ablations.md names the files). Without it a study has only
    pre-training metrics.
    """
    eval_task: RepeatedNames = ()
    """A task that scores each encoder (may be repeated; default: pos and chunking, frozen). stsb, sst2, cola
    and mnli are fine-tuned, and slower.
    """
    jobs: int = 1
    """Arms to train at the same time."""
    threads: int | None = None
    """CPU threads per arm (default: the cores divided by --jobs)."""

    @property
    def folder(self) -> Path:
        return given_path(self.out, "out")

    @property
    def arms(self) -> tuple[str, ...]:
        return several(self.only, "only")

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(given_names(self.corpus, "corpus"))

    @property
    def store_name(self) -> str | None:
        return name_of(self.store, "store")

    @property
    def recipe_name(self) -> str | None:
        return name_of(self.recipe, "recipe")

    @property
    def panel_folder(self) -> Path | None:
        return None if self.eval_data is None else given_path(self.eval_data, "eval_data")

    @property
    def tasks(self) -> tuple[str, ...]:
        return several(self.eval_task, "eval_task")

    @property
    def threads_each(self) -> int:
        return self.threads or max(1, machine.default_threads() // self.jobs)

    def run(self) -> Study:
        with display_for(self.progress) as display:
            _carry_out(self, display)
        return Study(self.folder)

    def preview(self) -> None:
        """Print the cost of the study, in FLOPs and in hours at the speed measured now, without training."""
        with display_for(self.progress) as display:
            _carry_out(self, display, dry_run=True)

    def main(self) -> int:
        return 1 if self.run().failed else 0


ablate = function(Ablate)


def _carry_out(order: Ablate, display: Display, *, dry_run: bool = False) -> None:
    """Do what is ordered, in a folder that is ours; `dry_run`: only say what it costs."""
    from electra.laboratory.ablation.plan import read_plan
    from electra.laboratory.ablation.study import find_study, read_study

    check_at_least(order, dict.fromkeys(("seeds", "jobs", "threads"), 1))
    check_at_most(order, {"threads": machine.MOST_THREADS})
    if order.store_name is not None and order.sources:
        raise ConfigError("both `store` and `corpus` are given", fix="Give one of them")
    study, folder = read_study(find_study(order.study)), StudyFolder(order.folder)
    for name in order.arms:
        if name not in study.arms:
            raise ConfigError(f"no arm named {name!r}", key="only", fix=nearest(name, list(study.arms)))
    if folder.exists():
        read_plan(order.folder)  # somebody else's is refused before anything is written beside it
    with folder.session(say=display.say, stop=lambda: False) as session:
        store = _open_store(order, study, display)
        with StopRequest() as session.stopping:
            planned, standing, jobs = _plan(order, study, store)
            if dry_run:
                for line in (*_opening(planned, jobs, order), *_hours(planned, jobs, store, order)):
                    display.say(line)
                return
            store.tokenizer.save(folder.tokenizer)  # where the workers find it
            session.begin(planned, differences=(), rewrite=True)
            _train(order, planned, standing, jobs, session=session, display=display)


def _open_store(order: Ablate, study: Plan, display: Display) -> TokenStore:
    from electra.laboratory.ablation.study import arm_recipe

    baseline = arm_recipe(study, study.arms[study.baseline], order.recipe_name or study.recipe)
    inputs = Inputs(
        out=str(order.folder), corpus=order.sources, store=order.store_name, workers=order.workers
    )
    return open_store(inputs, baseline, display)


def _plan(
    order: Ablate, study: Plan, store: TokenStore
) -> tuple[dict[str, Any], list[JobStatus], list[JobStatus]]:
    """The plan of the study, where all its runs stand, and of those the ones that are wanted now."""
    from electra.laboratory.ablation import plan, runner

    planned = plan.make_plan(
        study,
        store,
        order.folder,
        recipe=order.recipe_name or study.recipe,
        budget_text=order.budget,
        threads=order.threads_each,
        panel=_panel(order),
    )
    seeds = range(order.seed, order.seed + order.seeds)
    every = sorted({*seeds, *plan.seeds_begun(order.folder, planned)})
    standing = [runner.job_status(order.folder, job, planned) for job in plan.all_jobs(planned, every)]
    arms = order.arms or study.arms
    return planned, standing, [one for one in standing if one.job.seed in seeds and one.job.arm in arms]


def _train(
    order: Ablate,
    planned: Mapping[str, Any],
    standing: Sequence[JobStatus],
    jobs: Sequence[JobStatus],
    *,
    session: Session,
    display: Display,
) -> None:
    """Train and score what is wanted; the results are written anew whenever a run has ended."""
    from electra.laboratory.ablation import results, runner
    from electra.laboratory.ablation.overview import Overview
    from electra.pages.study import write_report

    def record() -> dict[str, Any]:
        found = results.gather(planned, standing)
        results.write(order.folder, found)
        return found

    title = planned["study"]["title"]
    with Overview(title, jobs, session.say, _console(display), display.progress) as overview:
        for line in _opening(planned, jobs, order):
            session.say(line)

        def finished(one: JobStatus) -> None:
            overview.report_end(one)
            record()

        execution = runner.Execution(order.folder.resolve(), order.jobs, order.threads_each)
        runner.run_jobs(execution, jobs, stopping=session.stopping, refresh=overview.refresh, on_end=finished)
        found = record()
        for line in results.describe(found):
            session.say(line)
        session.say(f"page: {write_report(order.folder)}")
        if session.stopping() and any(one.state != "done" for one in jobs):
            session.interrupt()
        StudyFolder(order.folder).record_digests()
        for failure in found["failed"]:
            session.say(f"failed: {failure['job']}: {failure['problem']}")


def _console(display: Display) -> Any:
    """Where the table of the arms is drawn: on the terminal, or nowhere."""
    from rich.console import Console

    return display.console if isinstance(display, Terminal) else Console(file=io.StringIO())


def _panel(order: Ablate) -> dict[str, Any]:
    """The panel asked for, or the one that the study has been scored by so far."""
    from electra.laboratory.ablation import panel, plan

    folder = StudyFolder(order.folder)
    recorded = plan.read_plan(order.folder)["panel"] if folder.exists() else {"tasks": {}}
    data, tasks = order.panel_folder, order.tasks or tuple(recorded["tasks"]) or panel.DEFAULT
    if data is None and recorded["tasks"]:
        data = Path(recorded["folder"])
    if data is None and order.tasks:
        raise ConfigError("needs `eval_data`", key="eval_task", fix="Pass the folder with the tasks' data")
    return panel.describe(data, tasks)


def _opening(planned: Mapping[str, Any], jobs: Sequence[JobStatus], order: Ablate) -> list[str]:
    done = sum(one.state == "done" for one in jobs)
    arms, threads = planned["fixed"]["arms"], order.threads_each
    lines = [
        f"{len(arms)} arms, {planned['fixed']['flops']:.3g} FLOPs each; {len(jobs)} runs, {done} of them"
        f" done; {order.jobs} at a time, {threads} thread{'s' if threads > 1 else ''} each"
    ]
    for name, arm in arms.items():
        steps = arm["steps"][-1]
        tokens, flops = steps * arm["tokens_per_step"], steps * arm["flops_per_step"]
        lines.append(f"  {name}: {steps:,} updates, {tokens / 1e6:.3g} M tokens, {flops:.4g} FLOPs")
    return lines


def _hours(
    planned: Mapping[str, Any], jobs: Sequence[JobStatus], store: TokenStore, order: Ablate
) -> list[str]:
    """What is left to train, in time: each arm is trained for some seconds, one after the other."""
    from electra.laboratory.ablation.plan import Job, job_recipe
    from electra.training.distributed import World
    from electra.training.rehearsal import seconds_per_step
    from electra.training.run import build_run

    share, total, lines = planned["fixed"]["budgets"][-1], 0.0, []
    for arm in dict.fromkeys(one.job.arm for one in jobs):
        recipe = job_recipe(planned, Job(arm, share, 1), order.threads_each)
        each = seconds_per_step(build_run(recipe, Path("."), store, World()))
        left = sum(one.steps - one.step for one in jobs if one.job.arm == arm)
        lines.append(
            f"  {arm}: {1000 * each:.0f} ms an update, {left:,} updates left, {each * left / 3600:.2f} h"
        )
        total += each * left
    lanes = f", {total / 3600 / order.jobs:.2f} h in {order.jobs} lanes" if order.jobs > 1 else ""
    return [
        "time at the speed measured now:",
        *lines,
        f"  {total / 3600:.2f} h one after the other{lanes}; evaluations and the panel come on top; nothing"
        " was trained",
    ]
