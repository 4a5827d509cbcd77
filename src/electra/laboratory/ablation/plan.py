"""The plan of a study, made before anything is trained: each arm's recipe, its updates and their FLOPs.

All arms train for the same number of FLOPs, whatever the unit of the budget (docs/ablations.md): equal
compute is the point of a study, so its runs do not follow the clock. The plan is recorded in study.json,
which the worker processes read. A study resumes only with the plan it began with; arms may be added.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from electra.artifacts.evaluation_files import StudyFolder
from electra.artifacts.session import raise_if_changed
from electra.data.corpus.store import TokenStore
from electra.foundation import durable
from electra.foundation.config import differences, find_recipe, read_toml
from electra.foundation.errors import ConfigError, ElectraError, RunFolderError
from electra.foundation.extensions import OBJECTIVES
from electra.laboratory.ablation.study import ARM_KEYS, Arm, StudyFile, arm_recipe
from electra.training import budget
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.estimate import measure
from electra.training.recipe import Recipe, recorded_recipe
from electra.training.record import with_defaults

FORMAT = 1
MEASUREMENTS, SECONDS = 4, 0.5  # of each arm, for a budget of time
MIN_STEPS = 10  # one for each held-out evaluation of a run


class Job(NamedTuple):
    """One run of a study."""

    arm: str
    seed: int

    def folder(self, out: Path) -> Path:
        """Returns the run's folder in the study's folder `out`."""
        return StudyFolder(out).run(self.arm, self.seed).path

    def __str__(self) -> str:
        return f"{self.arm}, seed {self.seed}"


@dataclass(frozen=True)
class PlannedArm:
    """One arm: its recipe, and the FLOPs and tokens of one update."""

    recipe: Recipe
    flops_per_step: float
    tokens_per_step: int


def make_plan(
    study: StudyFile,
    store: TokenStore,
    out: Path,
    *,
    recipe: str,
    budget_text: str | None,
    threads: int,
    panel: dict[str, Any],
) -> dict[str, Any]:
    """Returns the contents of study.json, which agree with an earlier plan in the study's folder `out`.

    `recipe` is the one that the arms change; `budget_text` the budget as written (None: the recipe's own);
    `threads` those of each run; `panel` is described by `panel_record`.
    """
    recorded = read_plan(out) if StudyFolder.is_at(out) else None
    then = recorded["fixed"]["arms"] if recorded else {}
    arms = {
        name: _plan_arm(study, arm, store, recipe, threads, then=then.get(name)) for name, arm in study.arms.items()
    }
    budget_text = budget_text or _recipe_budget(recipe)
    is_known = recorded is not None and recorded["budget"] == budget_text
    flops = recorded["fixed"]["flops"] if recorded and is_known else budget_in_flops(budget_text, arms, store)
    fixed = {
        "flops": flops,
        "data": store.digest,
        "tokenizer": store.tokenizer_digest,
        "budgets": [1.0],  # earlier versions trained at shares of the budget, too
        "arms": {
            name: {
                **vars(arm),
                "recipe": arm.recipe.to_sections(),
                "steps": [steps_of(arm, flops, name, budget_text)],
                **OBJECTIVES.identity(arm.recipe.objective["name"]),
            }
            for name, arm in arms.items()
        },
    }
    contents = {
        "format": FORMAT,
        "study": {
            "arms": {name: {key: getattr(arm, key) for key in ARM_KEYS} for name, arm in study.arms.items()},
            **{key: getattr(study, key) for key in ("name", "title", "question", "axis", "baseline")},
            "paper": asdict(study.paper),
        },
        "recipe": recipe,
        "budget": budget_text,
        "fixed": fixed,
        "panel": panel,
        "store": str(store.path.resolve()),
    }
    plan: dict[str, Any] = json.loads(json.dumps(contents))  # as it will be read back: lists, not tuples
    if recorded is not None:
        require_same_plan(recorded, plan, out)
    return plan


def _recipe_budget(recipe: str) -> str:
    training = read_toml(find_recipe(recipe)).get("training", {})
    if "budget" in training:
        return str(training["budget"])
    if "steps" in training:
        return f"{training['steps']}steps"
    fix = "Pass one, such as 2e14flops, 10Mtokens or 30m"
    raise ConfigError("the recipe does not set a budget", key="budget", fix=fix)


def _plan_arm(
    study: StudyFile,
    arm: Arm,
    store: TokenStore,
    recipe: str,
    threads: int,
    *,
    then: Mapping[str, Any] | None,
) -> PlannedArm:
    """Builds a run to check its recipe and count its FLOPs; the schedule "auto" is what it was `then`."""
    try:
        planned = arm_recipe(study, arm, recipe)
        training = planned.training
        planned = replace(planned, training=replace(training, threads=threads))
        run = build_run(planned, Path("."), store, World())
        schedule = run.training.schedule
        if training.schedule == "auto" and then is not None:
            schedule = then["recipe"]["training"].get("schedule", "linear")
        planned = replace(planned, training=replace(training, schedule=schedule))
    except ElectraError as error:
        error.where = ": ".join(part for part in (f"{study.name}, arm {arm.name}", error.where) if part)
        raise
    return PlannedArm(planned, run.flops_per_step, run.tokens_per_step)


def budget_in_flops(text: str, arms: Mapping[str, PlannedArm], store: TokenStore) -> float:
    """Returns the FLOPs that each arm gets, from a budget such as 2e14flops, 10Mtokens, 500steps or 30m.

    A time is what a run takes on average over the arms, with each at the fastest of several measurements:
    other programs make a machine slower, but none makes it faster.
    """
    amount, unit = budget.parse(text)
    if unit == "flops":
        return amount
    if unit == "seconds":
        runs = [build_run(arm.recipe, Path("."), store, World()) for arm in arms.values()]
        fastest = [min(measure(run, SECONDS) for _ in range(MEASUREMENTS)) for run in runs]
        return amount * len(runs) / sum(s / run.flops_per_step for s, run in zip(fastest, runs, strict=True))
    return max(amount / (arm.tokens_per_step if unit == "tokens" else 1) * arm.flops_per_step for arm in arms.values())


def steps_of(arm: PlannedArm, flops: float, name: str, budget_text: str) -> int:
    """Returns the arm's number of updates, rounded; ConfigError if they are fewer than `MIN_STEPS`."""
    steps = round(flops / arm.flops_per_step)
    if steps < MIN_STEPS:
        problem = f"{budget_text} is {steps} updates of arm {name!r}, too few for a run's evaluations"
        fix = f"Pass at least {MIN_STEPS * arm.flops_per_step:.3g}flops"
        raise ConfigError(problem, key="budget", fix=fix)
    return steps


def read_plan(out: Path) -> dict[str, Any]:
    """Returns the recorded plan of the study in `out`. Raises RunFolderError if it is damaged."""
    fix = "Choose another `out`"
    plan = durable.read_record(out / StudyFolder.RECORD, FORMAT, RunFolderError, "a study", fix=fix)
    if missing := {"study", "budget", "fixed", "panel", "store"} - plan.keys():
        problem = f"the record of a study has no {min(missing)!r}"
        raise RunFolderError(problem, where=out / StudyFolder.RECORD, fix=fix)
    return plan


def require_same_plan(recorded: Mapping[str, Any], plan: Mapping[str, Any], out: Path) -> None:
    """Raises RunFolderError, naming what differs, unless a new plan only adds arms to the recorded one."""
    old, new = _with_defaults(recorded["fixed"]), _with_defaults(plan["fixed"])
    new_arms = {f"arms.{name}" for name in new["arms"] if name not in old["arms"]}
    differing = [entry for entry in differences(old, new) if entry[0] not in new_arms]
    raise_if_changed(out, "study", differing, limit=4)


def _with_defaults(fixed: Mapping[str, Any]) -> dict[str, Any]:
    arms = {name: {**arm, "recipe": with_defaults(arm["recipe"])} for name, arm in fixed["arms"].items()}
    for arm in arms.values():  # an objective's file is identified by its digest, not its path
        arm["recipe"]["objective"]["name"] = OBJECTIVES.canonical_name(arm["recipe"]["objective"]["name"])
    return {**fixed, "arms": arms}


def all_jobs(plan: Mapping[str, Any], seeds: Sequence[int]) -> list[Job]:
    """Returns all jobs, seed by seed, so that an interrupted study has complete comparisons."""
    return [Job(arm, seed) for seed in seeds for arm in plan["fixed"]["arms"]]


def seeds_begun(out: Path, plan: Mapping[str, Any]) -> set[int]:
    """Returns the seeds with a run in the study's folder, finished or not."""
    return {seed for arm in plan["fixed"]["arms"] for seed in StudyFolder(out).seeds(arm)}


def job_recipe(plan: Mapping[str, Any], job: Job, threads: int) -> Recipe:
    """Returns the recipe of a job's run, with its seed, steps and threads."""
    arm = plan["fixed"]["arms"][job.arm]
    sections = {
        name: {key: value for key, value in keys.items() if value is not None} for name, keys in arm["recipe"].items()
    }
    sections["training"] |= {"seed": job.seed, "steps": arm["steps"][-1], "threads": threads}
    return recorded_recipe(sections)
