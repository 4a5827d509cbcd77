"""A Store + a study -> Study: arms trained at equal compute over seeds, with statistics and a page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.study import StudyFolder
from electra.commands.workflow.artifact import Artifact, Source, given_path, name_of, several
from electra.commands.workflow.display import Display, Terminal, Told, display_for
from electra.commands.workflow.prepare import sources
from electra.commands.workflow.rows import Rows
from electra.commands.workflow.run import Run
from electra.commands.workflow.train import Inputs, open_store
from electra.foundation import machine
from electra.foundation.config import check_least, check_most
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.signals import StopRequest

if TYPE_CHECKING:
    from electra.artifacts.session import Session
    from electra.data.store import TokenStore
    from electra.laboratory.ablation.runner import Standing
    from electra.laboratory.ablation.study import Study as Plan


class Study(Artifact[StudyFolder]):
    """A folder made by `ablate`."""

    FOLDER = StudyFolder

    @property
    def results(self) -> dict[str, Any]:
        """The contents of results.json: statistics of each metric by arm."""
        from electra.foundation import durable
        from electra.foundation.errors import RunFolderError

        results: dict[str, Any] = durable.read_json(self.folder.results, RunFolderError)
        return results

    @property
    def runs(self) -> list[Run]:
        """The runs begun, by arm and seed."""
        return [Run(folder) for folder in self.folder.runs() if folder.exists()]

    @property
    def table(self) -> Rows:
        """One row a run: arm, seed, status, step, its last held-out scores, and those of the panel's tasks
        with their mean as `panel`.
        """
        return Rows(
            {
                "arm": str(run.path.relative_to(self.folder.arms).parent),
                "seed": run.path.name.removeprefix("seed-"),
                "status": run.status,
                "step": run.step,
                **run.scores,
                **_panel_scores(run),
            }
            for run in self.runs
        )

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The runs that failed: job and problem."""
        return list(self.results.get("failed", []))


def _panel_scores(run: Run) -> dict[str, float]:
    from electra.laboratory.ablation.results import panel_scores

    return panel_scores(run.folder) if run.folder.score.is_file() else {}


@dataclass(frozen=True, kw_only=True)
class Order:
    """What of a study is to be done now, and how."""

    study: str
    out: Path
    """The study's folder. Rerun the command to resume a stopped study; another --arm, more --seeds or a panel
    are added to it.
    """
    arm: tuple[str, ...] = ()
    """The arms to train now (none: all)."""
    corpus: tuple[str, ...] = ()
    """Files, folders, globs, URLs, - (stdin), hub:NAME, or python-docs (the default: the prose of Python's
    own documentation).
    """
    store: str | None = None
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
    recipe: str | None = None
    """What the arms change: a recipe's name or a TOML file (default: the study's, budget-tiny in all of
    ours).
    """
    panel_data: Path | None = None
    """A folder with the panel's data (docs/ablations.md names the files). Without it a study has only
    pre-training metrics.
    """
    panel: tuple[str, ...] = ()
    """The tasks that score each encoder."""
    jobs: int = 1
    """Arms to train at the same time."""
    threads: int | None = None
    """CPU threads per arm (default: the cores divided by --jobs)."""
    workers: int | None = None
    """Processes that encode the corpus (default: all cores)."""

    @property
    def threads_each(self) -> int:
        return self.threads or max(1, machine.usual_threads() // self.jobs)


def ablate(
    study: str,
    *,
    out: Source,
    store: Source | None = None,
    corpus: Source | Sequence[Source] = (),
    budget: str | None = None,
    seeds: int = 3,
    seed: int = 1,
    arms: Sequence[str] = (),
    recipe: Source | None = None,
    panel_data: Source | None = None,
    panel: Sequence[str] = (),
    jobs: int = 1,
    threads: int | None = None,
    workers: int | None = None,
    progress: Told = None,
) -> Study:
    """Train the arms of a study at equal compute in the folder `out`, or resume them; arms and seeds add up.

    study: "objectives", "generator-size", ... (docs/ablations.md), or a TOML file.
    store, corpus: what to train on; one of them.
    budget: what each arm gets: "2e14flops", "10Mtokens", "5000steps", or "30m" of the baseline arm.
    seeds, seed: replicates of each arm, and the first seed.
    arms: those to train now (default: all).
    panel_data, panel: where the data of the panel lie, and which tasks score each encoder.
    jobs, threads: arms trained at the same time, and CPU threads of each.

    A run that fails does not stop the others: see `Study.failed`. Raises ConfigError, RunFolderError where
    `out` holds another study, and Interrupted when asked to stop (rerun to resume).
    """
    order = Order(
        study=study,
        out=given_path(out, "out"),
        arm=several(arms, "arms"),
        corpus=tuple(sources(corpus)),
        store=name_of(store),
        budget=budget,
        seeds=seeds,
        seed=seed,
        recipe=name_of(recipe),
        panel_data=None if panel_data is None else given_path(panel_data, "panel_data"),
        panel=several(panel, "panel"),
        jobs=jobs,
        threads=threads,
        workers=workers,
    )
    with display_for(progress) as display:
        carry_out(order, display)
    return Study(out)


def carry_out(order: Order, display: Display, *, dry_run: bool = False) -> None:
    """Do what is ordered, in a folder that is ours; `dry_run`: only say what it costs."""
    from electra.laboratory.ablation.plan import read_plan
    from electra.laboratory.ablation.study import find_study, read_study

    check_least(order, dict.fromkeys(("seeds", "jobs", "threads"), 1))
    check_most(order, {"threads": machine.MOST_THREADS})
    if order.store is not None and order.corpus:
        raise ConfigError("both `store` and `corpus` are given", fix="Give one of them")
    study, folder = read_study(find_study(order.study)), StudyFolder(order.out)
    for name in order.arm:
        if name not in study.arms:
            raise ConfigError(f"no arm named {name!r}", key="arm", fix=nearest(name, list(study.arms)))
    if folder.exists():
        read_plan(order.out)  # somebody else's is refused before anything is written beside it
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


def _open_store(order: Order, study: Plan, display: Display) -> TokenStore:
    from electra.laboratory.ablation.study import arm_recipe

    baseline = arm_recipe(study, study.arms[study.baseline], order.recipe or study.recipe)
    inputs = Inputs(out=str(order.out), corpus=order.corpus, store=order.store, workers=order.workers)
    return open_store(inputs, baseline, display)


def _plan(
    order: Order, study: Plan, store: TokenStore
) -> tuple[dict[str, Any], list[Standing], list[Standing]]:
    """The plan of the study, where all its runs stand, and of those the ones that are wanted now."""
    from electra.laboratory.ablation import plan, runner

    planned = plan.make_plan(
        study,
        store,
        order.out,
        recipe=order.recipe or study.recipe,
        budget_text=order.budget,
        threads=order.threads_each,
        panel=_panel(order),
    )
    seeds = range(order.seed, order.seed + order.seeds)
    every = sorted({*seeds, *plan.seeds_begun(order.out, planned)})
    standing = [runner.stand(order.out, job, planned) for job in plan.all_jobs(planned, every)]
    arms = order.arm or study.arms
    return planned, standing, [one for one in standing if one.job.seed in seeds and one.job.arm in arms]


def _train(
    order: Order,
    planned: Mapping[str, Any],
    standing: Sequence[Standing],
    jobs: Sequence[Standing],
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
        results.write(order.out, found)
        return found

    title = planned["study"]["title"]
    with Overview(title, jobs, session.say, _console(display), display.progress) as overview:
        for line in _opening(planned, jobs, order):
            session.say(line)

        def finished(one: Standing) -> None:
            overview.ended(one)
            record()

        crew = runner.Crew(order.out.resolve(), order.jobs, order.threads_each)
        runner.carry_out(crew, jobs, stopping=session.stopping, look=overview.look, finished=finished)
        found = record()
        for line in results.describe(found):
            session.say(line)
        session.say(f"page: {write_report(order.out)}")
        if session.stopping() and any(one.state != "done" for one in jobs):
            session.interrupt()
        StudyFolder(order.out).record_digests()
        for failure in found["failed"]:
            session.say(f"failed: {failure['job']}: {failure['problem']}")


def _console(display: Display) -> Any:
    """Where the table of the arms is drawn: on the terminal, or nowhere."""
    from rich.console import Console

    return display.console if isinstance(display, Terminal) else Console(file=io.StringIO())


def _panel(order: Order) -> dict[str, Any]:
    """The panel asked for, or the one that the study has been scored by so far."""
    from electra.laboratory.ablation import panel, plan

    folder = StudyFolder(order.out)
    recorded = plan.read_plan(order.out)["panel"] if folder.exists() else {"tasks": {}}
    data, tasks = order.panel_data, order.panel or tuple(recorded["tasks"]) or panel.DEFAULT
    if data is None and recorded["tasks"]:
        data = Path(recorded["folder"])
    if data is None and order.panel:
        raise ConfigError("needs `panel_data`", key="panel", fix="Pass the folder with the panel's data")
    return panel.describe(data, tasks)


def _opening(planned: Mapping[str, Any], jobs: Sequence[Standing], order: Order) -> list[str]:
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
    planned: Mapping[str, Any], jobs: Sequence[Standing], store: TokenStore, order: Order
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
