"""The command `electra ablate`; the study itself is run by `electra.laboratory.ablation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from electra.artifacts.evaluation_files import StudyFolder
from electra.commands.framework.command import Command, function
from electra.commands.results.result_folders import Study
from electra.foundation import durable
from electra.foundation.config import check_at_least
from electra.foundation.display import Display, display_for
from electra.foundation.errors import ConfigError, ElectraError, Interrupted, nearest
from electra.foundation.machine import OnThreads
from electra.foundation.options import RepeatedNames, Source, as_name, as_strings, checked_path, optional_name
from electra.foundation.signals import StopRequest, stops_after
from electra.foundation.work import run_pieces

if TYPE_CHECKING:
    from electra.artifacts.session import Session
    from electra.laboratory.ablation.runs import StudyRun


@dataclass(frozen=True)
class Ablate(
    OnThreads,
    Command[Study],
    examples=(
        "electra ablate objectives --store store --budget 10Mtokens --out runs/objectives",
        "electra ablate masking --store store --budget 30m --seeds 5 --out runs/masking",
    ),
):
    """Compare objectives and settings at equal compute: train a study's arms with several seeds.

    Arms are the variants that a study compares. Rerun the command to resume a stopped study, or to add arms
    (--only) or seeds. The same command may run several times at once: each does the runs that no other is
    doing. A failed run does not stop the others; the report lists it, as does `Study.failed` in Python.
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
    store: Source
    """The token store to train on, made by electra prepare: a folder, or a .ds file."""
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
    """A folder with the data of the tasks that score each run. Without it a study reports only pre-training
    metrics.
    """
    eval_suite: str | None = None
    """The suite of tasks, as for electra evaluate: a name or a TOML file (default: transfer, which keeps the
    encoder frozen and takes minutes; glue fine-tunes it).
    """

    @override
    def run(self) -> Study:
        with display_for(self.progress) as display:
            _run_study(self, display)
        return Study(self.out)

    @override
    def preview(self) -> None:
        """Print what the study would cost: updates, tokens and FLOPs of each arm."""
        with display_for(self.progress) as display:
            _run_study(self, display, dry_run=True)

    @override
    def main(self) -> int:
        return 1 if self.run().failed else 0


ablate = function(Ablate)


def _run_study(request: Ablate, display: Display, *, dry_run: bool = False) -> None:
    from electra.foundation.threads import free_cores, given
    from electra.laboratory.ablation.plan import all_jobs, make_plan, read_plan, seeds_begun
    from electra.laboratory.ablation.runs import language_notes, runs_of
    from electra.laboratory.ablation.study import arm_recipe, find_study, read_study
    from electra.training.request import Request, TrainingText
    from electra.training.stores import open_store

    check_at_least(request, {"seeds": 1})
    study, arms = read_study(find_study(request.study)), as_strings(request.only, "only")
    for name in arms:
        if name not in study.arms:
            raise ConfigError(f"no arm named {name!r}", key="only", fix=nearest(name, list(study.arms)))
    folder = StudyFolder(checked_path(request.out, "out"))
    threads = request.threads or given() or free_cores()
    if folder.exists():
        read_plan(folder.path)  # rejects a folder that is not a study's before anything is written there
    recipe = optional_name(request.recipe, "recipe") or study.recipe
    with folder.session(say=display.say, stop=lambda: False, shared=True) as session:
        baseline = arm_recipe(study, study.arms[study.baseline], recipe)
        text = TrainingText(store=as_name(request.store, "store"))
        store = open_store(Request(baseline, text, folder.path), baseline, display.say)
        with StopRequest() as session.stopping:
            plan = make_plan(
                study,
                store,
                folder.path,
                recipe=recipe,
                budget_text=request.budget,
                threads=threads,
                panel=_panel(request, folder),
            )
            seeds = range(request.seed, request.seed + request.seeds)
            jobs = all_jobs(plan, sorted({*seeds, *seeds_begun(folder.path, plan)}))
            runs = runs_of(folder.path, plan, jobs, threads, fixed=request.threads is not None)
            chosen = [run for run in runs if run.job.seed in seeds and run.job.arm in (arms or study.arms)]
            say, num_done = display.say if dry_run else session.say, sum(run.is_finished() for run in chosen)
            planned, flops = plan["fixed"]["arms"], plan["fixed"]["flops"]
            say(f"{len(planned)} arms of {flops:.3g} FLOPs; {len(chosen)} runs, {num_done} already done")
            for name, arm in planned.items():
                steps = arm["steps"][-1]
                tokens, flops = steps * arm["tokens_per_step"], steps * arm["flops_per_step"]
                say(f"  {name}: {steps:,} updates, {tokens / 1e6:.3g} M tokens, {flops:.4g} FLOPs")
            if dry_run:
                return
            if notes := language_notes(plan["panel"], store.tokenizer):
                plan["panel"]["notes"] = notes
                for note in notes:
                    say(f"note: {note}")
            store.tokenizer.save(folder.tokenizer)  # the runs read it there
            folder.write_record(plan)  # compared above; it may have new arms
            session.share()
            _train(plan, runs, chosen, session, display)


def _train(
    plan: Mapping[str, Any],
    runs: Sequence[StudyRun],
    chosen: Sequence[StudyRun],
    session: Session,
    display: Display,
) -> None:
    """Trains and evaluates `chosen`, and rewrites the results of all runs whenever one has ended."""
    from electra.laboratory.ablation.results import study_results, summary_lines
    from electra.laboratory.ablation.runs import floors_of
    from electra.pages.study_page import write_page

    failures, num_ended = dict[str, ElectraError](), sum(run.is_finished() for run in chosen)

    def record() -> dict[str, Any]:
        with session.exclusive():
            floors = floors_of(session.folder.path, plan, runs)
            contents = study_results(plan, runs, failures, floors)
            durable.commit_json(session.folder.results, contents)
        return contents

    def ended(run: Any, error: ElectraError | None) -> None:
        nonlocal num_ended
        num_ended += 1
        failures.update({run.name: error} if error else {})
        how = f"failed: {error}" if error else _score(record(), run)
        session.say(f"{run.name}: {how} ({num_ended} of {len(chosen)})")
        if error:
            record()

    stopped = False
    try:
        with stops_after("this update; each run saves a checkpoint"):
            run_pieces(chosen, say=display.progress, stop=session.stopping, ended=ended)
            floors = floors_of(session.folder.path, plan, runs)
            failed = run_pieces(floors, say=display.progress, stop=session.stopping)
            for name, error in failed.items():
                session.say(f"{name}: failed: {error}")
    except Interrupted:
        stopped = True
    results = record()
    for line in summary_lines(results):
        session.say(line)
    with session.exclusive():
        session.say(f"page: {write_page(session.folder.path)}")
    if stopped:
        session.interrupt()
    for failure in results["failed"]:
        session.say(f"failed: {failure['job']}: {failure['problem']}")


def _score(results: Mapping[str, Any], run: StudyRun) -> str:
    scores = results["budgets"][-1]["arms"][run.job.arm]["scores"]
    value = scores.get(results["primary"], {}).get("by_seed", {}).get(str(run.job.seed))
    return "done" if value is None else f"{value:.3f}".removeprefix("0")


def _panel(request: Ablate, folder: StudyFolder) -> dict[str, Any]:
    from electra.laboratory.ablation.plan import read_plan
    from electra.laboratory.ablation.runs import panel_record

    recorded = read_plan(folder.path)["panel"] if folder.exists() else {"tasks": {}}
    data = None if request.eval_data is None else checked_path(request.eval_data, "eval_data")
    if data is None and recorded["tasks"]:
        data = Path(recorded["folder"])
    if data is None and request.eval_suite:
        raise ConfigError("needs `eval_data`", key="eval_suite", fix="Pass the folder with the tasks' data")
    return panel_record(data, request.eval_suite or recorded.get("suite") or "transfer")
