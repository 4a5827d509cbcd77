"""What a study will do, decided before anything is trained: every arm's recipe, its FLOPs an update, and so
its number of updates.

Every arm gets the same training FLOPs. A budget of FLOPs is that number; of tokens or steps, what the arm
whose tokens or steps are dearest needs for them, so that every arm gets at least that many; of time, what the
baseline arm gets through on this machine. The plan is recorded in study.json, which is what the worker
processes read. A study goes on with the plan it began with, or not at all; arms may be added.

    OUT/  study.json   results.json   report.html   figures/   tokenizer/
          arms/ARM/seed-1/             a run folder as electra pretrain makes it, and score.json: the panel's
          scores arms/ARM/budget-0.25/seed-1/ the same at a quarter of the budget
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from electra.artifacts.session import refuse_differences
from electra.artifacts.study import StudyFolder
from electra.data.store import TokenStore
from electra.foundation import durable
from electra.foundation.config import differences
from electra.foundation.errors import ConfigError, ElectraError, RunFolderError
from electra.foundation.extensions import OBJECTIVES
from electra.laboratory.ablation.study import Arm, Study, arm_recipe
from electra.training import budget
from electra.training.distributed import World
from electra.training.recipe import Recipe, make_recipe
from electra.training.record import with_defaults
from electra.training.rehearsal import seconds_per_step
from electra.training.run import build_run

FORMAT = 1
MIN_STEPS = 10  # one for each held-out evaluation of a run


class Job(NamedTuple):
    """One run: an arm, a share of the budget, a seed."""

    arm: str
    share: float
    seed: int

    def folder(self, out: Path) -> Path:
        return StudyFolder(out).run(self.arm, self.share, self.seed).path

    def __str__(self) -> str:
        at = "" if self.share == 1 else f" at {self.share:g} of the budget"
        return f"{self.arm}{at}, seed {self.seed}"


@dataclass(frozen=True)
class Planned:
    """One arm: its recipe and what an update of it costs."""

    recipe: Recipe
    flops_per_step: float
    tokens_per_step: int


def make_plan(
    study: Study,
    store: TokenStore,
    out: Path,
    *,
    recipe: str,
    budget_text: str | None,
    threads: int,
    panel: dict[str, Any],
) -> dict[str, Any]:
    """The contents of study.json; refuses when `out` holds another study."""
    recorded = read_plan(out) if StudyFolder.is_at(out) else None
    planned = {name: _planned(study, arm, store, recipe, threads) for name, arm in study.arms.items()}
    asked = budget_text or _own_budget(recipe)
    flops = None if recorded is None or recorded["budget"] != asked else float(recorded["fixed"]["flops"])
    if flops is None:
        flops = budget_in_flops(asked, planned, planned[study.baseline], store)
    fixed = {
        "flops": flops,
        "data": store.digest,
        "tokenizer": store.tokenizer_digest,
        "budgets": list(study.budgets),
        "arms": {
            name: {
                "recipe": one.recipe.to_sections(),
                "flops_per_step": one.flops_per_step,
                "tokens_per_step": one.tokens_per_step,
                "steps": steps_of(one, flops, study.budgets, name, asked),
                **OBJECTIVES.identity(one.recipe.objective["name"]),
            }
            for name, one in planned.items()
        },
    }
    shown = {
        "arms": {
            name: {key: getattr(arm, key) for key in ("title", "at", "series", "paper", "baseline")}
            for name, arm in study.arms.items()
        }
    }
    shown |= {key: getattr(study, key) for key in ("name", "title", "question", "axis", "baseline")} | {
        "paper": asdict(study.paper)
    }
    whole = {
        "format": FORMAT,
        "study": shown,
        "recipe": recipe,
        "budget": asked,
        "fixed": fixed,
        "panel": panel,
    }
    plan: dict[str, Any] = json.loads(
        json.dumps({**whole, "store": str(store.path.resolve())})
    )  # as it will be read again: tuples are lists
    if recorded is not None:
        refuse_changes(recorded, plan, out)
    return plan


def _own_budget(recipe: str) -> str:
    from electra.foundation.config import find_recipe, read_toml

    training = read_toml(find_recipe(recipe)).get("training", {})
    if "budget" in training:
        return str(training["budget"])
    if "steps" in training:
        return f"{training['steps']}steps"
    raise ConfigError(
        "the recipe has none of its own",
        key="budget",
        fix="Give one, such as 2e14flops, 10Mtokens or 30m",
    )


def _planned(study: Study, arm: Arm, store: TokenStore, recipe: str, threads: int) -> Planned:
    """Build the arm once, which checks all of its recipe, and ask what an update costs."""
    try:
        made = arm_recipe(study, arm, recipe)
        run = build_run(
            replace(made, training=replace(made.training, threads=threads)), Path("."), store, World()
        )
    except ElectraError as error:
        error.where = ": ".join(part for part in (f"{study.name}, arm {arm.name}", error.where) if part)
        raise
    return Planned(made, run.flops_per_step, run.tokens_per_step)


def budget_in_flops(text: str, planned: Mapping[str, Planned], baseline: Planned, store: TokenStore) -> float:
    """The FLOPs that every arm gets."""
    amount, unit = budget.parse(text)
    if unit == "flops":
        return amount
    if unit == "seconds":
        seconds = seconds_per_step(build_run(baseline.recipe, Path("."), store, World()))
        return amount / seconds * baseline.flops_per_step
    return max(
        amount / (one.tokens_per_step if unit == "tokens" else 1) * one.flops_per_step
        for one in planned.values()
    )


def steps_of(one: Planned, flops: float, shares: Sequence[float], name: str, asked: str) -> list[int]:
    """Updates at each share of the budget: as many whole ones as come nearest to its FLOPs."""
    steps = [round(share * flops / one.flops_per_step) for share in shares]
    if min(steps) < MIN_STEPS:
        share = "" if min(shares) == 1 else f" ({min(shares):g} of it at the smallest)"
        raise ConfigError(
            f"{asked}{share} pays for {min(steps)} updates of arm {name!r}, too few for the {MIN_STEPS}"
            " held-out evaluations of a run",
            key="budget",
            fix=f"Give at least {MIN_STEPS * one.flops_per_step / min(shares):.3g}flops",
        )
    return steps


def read_plan(out: Path) -> dict[str, Any]:
    fix = "Choose another `out`"
    plan = durable.read_record(out / StudyFolder.RECORD, FORMAT, RunFolderError, "a study", fix=fix)
    missing = [key for key in ("study", "budget", "fixed", "panel", "store") if key not in plan]
    if missing:
        raise RunFolderError(
            f"the record of a study has no {missing[0]!r}", where=out / StudyFolder.RECORD, fix=fix
        )
    return plan


def refuse_changes(recorded: Mapping[str, Any], plan: Mapping[str, Any], out: Path) -> None:
    old, now = ({**side["fixed"], "arms": _with_defaults(side["fixed"]["arms"])} for side in (recorded, plan))
    changed = differences(old, now)
    new = {f"arms.{name}" for name in plan["fixed"]["arms"] if name not in recorded["fixed"]["arms"]}
    changed = [entry for entry in changed if entry[0] not in new]
    refuse_differences(out, "study", changed, most=4)


def _with_defaults(arms: Mapping[str, Any]) -> dict[str, Any]:
    whole = {name: {**arm, "recipe": with_defaults(arm["recipe"])} for name, arm in arms.items()}
    for arm in whole.values():  # wherever the file of an objective lies: its digest tells a change
        arm["recipe"]["objective"]["name"] = OBJECTIVES.name_of(arm["recipe"]["objective"]["name"])
    return whole


def all_jobs(plan: Mapping[str, Any], seeds: Sequence[int]) -> list[Job]:
    """Seed by seed, so that a study that is stopped has whole comparisons; the small budgets first."""
    shares, arms = plan["fixed"]["budgets"], plan["fixed"]["arms"]
    return [Job(arm, share, seed) for seed in seeds for share in shares for arm in arms]


def seeds_begun(out: Path, plan: Mapping[str, Any]) -> set[int]:
    """The seeds that the study's folder holds runs of, finished or not."""
    study, fixed = StudyFolder(out), plan["fixed"]
    return {
        seed for arm in fixed["arms"] for share in (1, *fixed["budgets"]) for seed in study.seeds(arm, share)
    }


def job_recipe(plan: Mapping[str, Any], job: Job, threads: int) -> Recipe:
    """What the run of a job is made from."""
    arm = plan["fixed"]["arms"][job.arm]
    sections = {
        name: {key: value for key, value in keys.items() if value is not None}
        for name, keys in arm["recipe"].items()
    }
    steps = arm["steps"][plan["fixed"]["budgets"].index(job.share)]
    sections["training"] |= {"seed": job.seed, "steps": steps, "threads": threads}
    return make_recipe(sections)
