"""Compare objectives and settings at equal compute: the arms of a study, over seeds, with statistics and a
page.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra import machine
from electra.artifacts.session import refuse_strangers
from electra.cli.arguments import Positional, Repeated
from electra.errors import ConfigError, nearest

if TYPE_CHECKING:
    from electra.ablation.study import Study
    from electra.data.store import TokenStore
    from electra.signals import StopRequest


@dataclass(frozen=True, kw_only=True)
class Arguments:
    study: Positional[str]
    """objectives, generator-size, training-algorithm, tying, masking, convergence, model-size, lambda,
    temperature, ...; or a TOML file.
    """
    out: Path
    """The study's folder. The same command again continues a study that was stopped; another --arm, more
    --seeds, or a panel add to it.
    """
    arm: Repeated[tuple[str, ...]] = ()
    """An arm to train now (may be repeated; none: all). Others can follow another day; the page names what is
    missing.
    """
    corpus: tuple[str, ...] = ()
    """Files, folders, globs, URLs, - (stdin), hub:NAME, or python-docs (the default: the prose of Python's
    own documentation).
    """
    store: str | None = None
    """A token store made by electra prepare, instead of a corpus: a folder, a .ds file, or an address
    (s3://..., https://...).
    """
    budget: str | None = None
    """What each arm gets (none: the recipe's): 2e14flops; 10Mtokens or 5000steps, which no arm gets less of;
    30m of the baseline arm.
    """
    seeds: int = 3
    """Replicates of each arm. Arms share the seed of a replicate, and with it the order of the data."""
    seed: int = 1
    """The first seed."""
    recipe: str | None = None
    """What the arms change: a recipe's name or a TOML file (none: the study's, budget-tiny in all of ours).
    """
    panel_data: Path | None = None
    """A folder with the panel's data (docs/ablations.md names the files); without it a study has pre-training
    metrics only.
    """
    panel: Repeated[tuple[str, ...]] = ()
    """A task that scores each encoder (may be repeated; none: pos and chunking, frozen): stsb, sst2, cola,
    mnli are tuned, and slower.
    """
    jobs: int = 1
    """Arms trained at the same time."""
    threads: int | None = None
    """CPU threads of each (none: the cores, divided by --jobs)."""
    workers: int | None = None
    """Processes that encode the corpus (none: all cores)."""
    dry_run: bool = False
    """Say what the study costs, in FLOPs and in hours at the speed measured here and now, and train nothing.
    """


def run(arguments: Arguments) -> int:
    from electra import durable
    from electra.ablation.plan import RECORD, read_plan
    from electra.ablation.study import find_study, read_study
    from electra.signals import StopRequest

    for name in ("seeds", "jobs", "threads"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigError(f"must be at least 1, not {value}", where=f"--{name}")
    study = read_study(find_study(arguments.study))
    for name in arguments.arm:
        if name not in study.arms:
            raise ConfigError(f"no arm named {name!r}", where="--arm", fix=nearest(name, list(study.arms)))
    refuse_strangers(arguments.out, RECORD, "a study", beside=("store", "tokenizer", "log.txt"))
    if (arguments.out / RECORD).exists():
        read_plan(arguments.out)  # somebody else's is refused before anything is written beside it
    with durable.lock(arguments.out):
        store = _open_store(arguments, study)
        with StopRequest() as stop:
            return _run_study(arguments, study, store, stop)


def _open_store(arguments: Arguments, study: Study) -> TokenStore:
    from electra.ablation.study import arm_recipe
    from electra.cli.pretrain import Inputs, open_store

    if arguments.store is not None and arguments.corpus:
        raise ConfigError("both --store and --corpus are given", fix="Give one of them")
    baseline = arm_recipe(study, study.arms[study.baseline], arguments.recipe or study.recipe)
    inputs = Inputs(
        out=arguments.out, corpus=arguments.corpus, store=arguments.store, workers=arguments.workers
    )
    return open_store(inputs, baseline, leads=True)


def _run_study(arguments: Arguments, study: Study, store: TokenStore, stop: StopRequest) -> int:
    from electra import durable
    from electra.ablation import plan, results, runner
    from electra.ablation.overview import Overview
    from electra.report.study import write_report

    out = arguments.out
    threads = arguments.threads or max(1, machine.cores() // arguments.jobs)
    planned = plan.make_plan(
        study,
        store,
        out,
        recipe=arguments.recipe or study.recipe,
        budget_text=arguments.budget,
        threads=threads,
        panel=_panel(arguments),
    )
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    whole = [
        runner.stand(out, job, planned)
        for job in plan.all_jobs(planned, sorted({*seeds, *plan.seeds_begun(out, planned)}))
    ]
    jobs = [
        progress
        for progress in whole
        if progress.job.seed in seeds and progress.job.arm in (arguments.arm or study.arms)
    ]
    if arguments.dry_run:
        lines = [
            *_opening(planned, jobs, threads, arguments.jobs),
            *_hours(planned, jobs, store, threads, arguments.jobs),
        ]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return 0
    store.tokenizer.save(out / "tokenizer")  # where the workers find it
    durable.commit_json(out / plan.RECORD, planned)

    def record() -> dict[str, Any]:
        found = results.gather(planned, whole)
        results.write(out, found)
        return found

    with Overview(study.title, jobs, out / "log.txt") as overview:
        for line in _opening(planned, jobs, threads, arguments.jobs):
            overview.say(line)

        def finished(progress: runner.Progress) -> None:
            overview.ended(progress)
            record()

        crew = runner.Crew(out.resolve(), arguments.jobs, threads)
        runner.carry_out(
            crew, jobs, stopping=lambda: stop.received is not None, look=overview.look, finished=finished
        )
        found = record()
        for line in results.describe(found):
            overview.say(line)
        overview.say(f"page: {write_report(out)}")
        if stop.received is not None and any(progress.state != "done" for progress in jobs):
            overview.say("stopped; the same command continues from here")
            return stop.exit_code
        for failure in found["failed"]:
            overview.say(f"failed: {failure['job']}: {failure['problem']}")
    return 1 if found["failed"] else 0


def _panel(arguments: Arguments) -> dict[str, Any]:
    """The panel asked for, or the one that the study has been scored by so far."""
    from electra.ablation import panel, plan

    recorded = (
        plan.read_plan(arguments.out)["panel"] if (arguments.out / plan.RECORD).exists() else {"tasks": {}}
    )
    data, tasks = arguments.panel_data, arguments.panel or tuple(recorded["tasks"]) or panel.DEFAULT
    if data is None and recorded["tasks"]:
        data = Path(recorded["folder"])
    if data is None and arguments.panel:
        raise ConfigError(
            "is of no use without --panel-data", where="--panel", fix="Name the folder with the panel's data"
        )
    return panel.describe(data, tasks)


def _opening(planned: dict[str, Any], jobs: list[Any], threads: int, at_once: int) -> list[str]:
    done = sum(progress.state == "done" for progress in jobs)
    arms = planned["fixed"]["arms"]
    lines = [
        f"{len(arms)} arms, {planned['fixed']['flops']:.3g} FLOPs each; {len(jobs)} runs, {done} of them"
        f" done; {at_once} at a time, {threads} thread{'s' if threads > 1 else ''} each"
    ]
    for name, arm in arms.items():
        steps = arm["steps"][-1]
        tokens, flops = steps * arm["tokens_per_step"], steps * arm["flops_per_step"]
        lines.append(f"  {name}: {steps:,} updates, {tokens / 1e6:.3g} M tokens, {flops:.4g} FLOPs")
    return lines


def _hours(
    planned: dict[str, Any], jobs: list[Any], store: TokenStore, threads: int, at_once: int
) -> list[str]:
    """What is left to train, in time: each arm is trained for some seconds, one after the other."""
    from electra.ablation.plan import Job, job_recipe
    from electra.training.distributed import World
    from electra.training.rehearsal import seconds_per_step
    from electra.training.run import build_run

    share, total, lines = planned["fixed"]["budgets"][-1], 0.0, []
    for arm in dict.fromkeys(progress.job.arm for progress in jobs):
        run = build_run(job_recipe(planned, Job(arm, share, 1), threads), Path("."), store, World())
        each, left = (
            seconds_per_step(run),
            sum(progress.steps - progress.step for progress in jobs if progress.job.arm == arm),
        )
        lines.append(
            f"  {arm}: {1000 * each:.0f} ms an update, {left:,} updates left, {each * left / 3600:.2f} h"
        )
        total += each * left
    together = f"{total / 3600:.2f} h one after the other" + (
        f", {total / 3600 / at_once:.2f} h in {at_once} lanes" if at_once > 1 else ""
    )
    return [
        "time at the speed measured now:",
        *lines,
        f"  {together}; evaluations and the panel come on top; nothing was trained",
    ]
