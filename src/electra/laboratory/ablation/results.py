"""From the run folders of a study to its results: scores by seed, what they amount to, and curves along the
compute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from electra.artifacts.run import RunFolder
from electra.artifacts.study import StudyFolder, baselines_of
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.laboratory.ablation.runner import Standing
from electra.laboratory.ablation.statistics import compare, crossing, holm, reliability, summarise

FORMAT = 2
PANEL = "panel"  # the mean of the panel's tasks
PRETRAINING = (
    "generator_loss",
    "generator_accuracy",
    "mlm_loss",
    "discriminator_loss",
    "auc",
    "average_precision",
    "gain",
)
# What decides how hard a discriminator's task is: arms that differ here have no AUC in common.
ASKED = {
    "objective": ("name", "generator", "temperature", "disallow_correct"),
    "model": ("size", "layers", "hidden_size", "generator_width", "generator_depth"),
}

Scores = dict[str, dict[int, float]]  # metric -> seed -> value


def gather(plan: Mapping[str, Any], jobs: Sequence[Standing]) -> dict[str, Any]:
    """The contents of results.json, from every job that is done."""
    study, fixed, chosen = plan["study"], plan["fixed"], plan["panel"]
    panel_metrics = [PANEL, *chosen["tasks"]] if chosen["tasks"] else []
    budgets = []
    for index, share in enumerate(fixed["budgets"]):
        done = [progress for progress in jobs if progress.job.share == share and progress.state == "done"]
        scores = {
            arm: _scores([p for p in done if p.job.arm == arm], chosen["tasks"]) for arm in fixed["arms"]
        }
        costs = {
            arm: _costs([p for p in done if p.job.arm == arm], fixed["arms"][arm], index)
            for arm in fixed["arms"]
        }
        budgets.append(
            _budget(
                share,
                share * fixed["flops"],
                scores=scores,
                costs=costs,
                baselines=baselines_of(study),
                panel_metrics=panel_metrics,
            )
        )
    return {
        "format": FORMAT,
        "study": study,
        "recipe": plan["recipe"],
        "budget": plan["budget"],
        "flops": fixed["flops"],
        "data": fixed["data"],
        "panel": chosen["tasks"],
        "primary": primary(
            panel_metrics, budgets[-1]["arms"], {name: one["recipe"] for name, one in fixed["arms"].items()}
        ),
        "complete": all(progress.state == "done" for progress in jobs),
        "seeds": sorted({progress.job.seed for progress in jobs}),
        "budgets": budgets,
        "reached": reached(budgets, study["baseline"], PANEL) if panel_metrics else {},
        "curves": {
            arm: _curves([p for p in jobs if p.job.arm == arm and p.job.share == fixed["budgets"][-1]])
            for arm in fixed["arms"]
        },
        "missing": [progress.job._asdict() for progress in jobs if progress.state != "done"],
        "failed": [
            {"job": str(progress.job), "problem": progress.problem}
            for progress in jobs
            if progress.state == "failed"
        ],
        "arms": {name: one["recipe"] for name, one in fixed["arms"].items()},
    }


def primary(panel_metrics: Sequence[str], arms: Mapping[str, Any], recipes: Mapping[str, Any]) -> str | None:
    """The score that the study is read by: the panel's, else a pre-training metric that means the same in
    every arm.
    """
    if panel_metrics:
        return panel_metrics[0]

    def everywhere(metric: str) -> bool:
        return all(metric in arm["scores"] for arm in arms.values())

    if everywhere("mlm_loss"):  # of the full-size network, at masked positions
        return "mlm_loss"
    asked = [
        {key: recipe[section].get(key) for section, keys in ASKED.items() for key in keys}
        for recipe in recipes.values()
    ]
    return "auc" if everywhere("auc") and all(one == asked[0] for one in asked) else None


def _scores(done: Sequence[Standing], tasks: Mapping[str, Any]) -> Scores:
    scores: Scores = {}
    for progress in done:
        seed = progress.job.seed
        found = panel_scores(RunFolder(progress.folder), tasks)
        last = _evaluations(progress)[-1:]
        found |= {
            name: float(row["metrics"][name])
            for row in last
            for name in PRETRAINING
            if row["metrics"].get(name) is not None
        }
        for name, value in found.items():
            scores.setdefault(name, {})[seed] = value
    return scores


def panel_scores(run: RunFolder, tasks: Iterable[str] | None = None) -> dict[str, float]:
    """Of a run that its panel has scored: each task's (None: all), after their mean."""
    record = durable.read_json(run.score, RunFolderError)["scores"]
    found = {name: float(record[name]["value"]) for name in (record if tasks is None else tasks)}
    return {PANEL: math.fsum(found.values()) / len(found), **found} if found else {}


def _costs(done: Sequence[Standing], arm: Mapping[str, Any], index: int) -> dict[str, Any]:
    steps = arm["steps"][index]
    rows = [row for row in (_evaluations(progress)[-1:] for progress in done) if row]
    alarms = sum(
        any(event.name == "collapse" for event in RunFolder(progress.folder).ledger().events)
        for progress in done
    )
    seconds = [row[0]["seconds"] for row in rows]
    return {
        "steps": steps,
        "tokens": steps * arm["tokens_per_step"],
        "flops": steps * arm["flops_per_step"],
        "flops_per_step": arm["flops_per_step"],
        "seconds": math.fsum(seconds) / len(seconds) if seconds else None,
        "runs": len(done),
        "collapsed": alarms,
    }


def _budget(
    share: float,
    flops: float,
    *,
    scores: Mapping[str, Scores],
    costs: Mapping[str, Any],
    baselines: Mapping[str, str],
    panel_metrics: Sequence[str],
) -> dict[str, Any]:
    """One share of the budget: each arm's scores, tested against its baseline's, and their reliability."""
    arms: dict[str, Any] = {arm: {**costs[arm], "scores": {}} for arm in scores}
    metrics = [name for name in (*panel_metrics, *PRETRAINING) if any(name in one for one in scores.values())]
    trust = {}
    for metric in metrics:
        by_arm = {arm: one[metric] for arm, one in scores.items() if metric in one}
        compared = {
            arm: compare(values, by_arm.get(baselines[arm], {}))
            for arm, values in by_arm.items()
            if arm != baselines[arm]
        }
        corrected = dict(zip(compared, holm([one.p for one in compared.values()]), strict=True))
        for arm, values in by_arm.items():
            record: dict[str, Any] = {
                "by_seed": {str(seed): value for seed, value in sorted(values.items())},
                **asdict(summarise(list(values.values()))),
            }
            if arm in compared:
                record["against_baseline"] = asdict(compared[arm]) | {
                    "arm": baselines[arm],
                    "p_holm": corrected[arm],
                }
            arms[arm]["scores"][metric] = record
        trust[metric] = asdict(reliability(list(by_arm.values()), list(compared.values())))
    return {"share": share, "flops": flops, "arms": arms, "reliability": trust}


def reached(budgets: Sequence[Mapping[str, Any]], baseline: str, metric: str) -> dict[str, float | None]:
    """The FLOPs at which each arm first reaches the baseline's score at the whole budget."""
    level = budgets[-1]["arms"][baseline]["scores"].get(metric)
    if len(budgets) < 2 or level is None:
        return {}
    found = {}
    for arm in budgets[-1]["arms"]:
        points = [
            (one["flops"], one["arms"][arm]["scores"][metric]["mean"])
            for one in budgets
            if metric in one["arms"][arm]["scores"]
        ]
        found[arm] = crossing([x for x, _ in points], [y for _, y in points], level["mean"])
    return found


def _curves(jobs: Sequence[Standing]) -> dict[str, Any]:
    """Held-out metrics of one arm along its FLOPs: at each evaluation the seeds' mean and its interval."""
    runs = [_evaluations(progress) for progress in jobs if progress.state == "done"]
    curves: dict[str, Any] = {}
    for name in PRETRAINING:
        points: dict[float, list[float]] = {}
        for row in (row for run in runs for row in run):
            if row["metrics"].get(name) is not None and row["step"]:
                points.setdefault(float(row["flops"]), []).append(float(row["metrics"][name]))
        over_seeds = {
            flops: summarise(values) for flops, values in sorted(points.items()) if len(values) == len(runs)
        }
        if over_seeds:
            curves[name] = {"flops": list(over_seeds)} | {
                end: [getattr(one, end) for one in over_seeds.values()] for end in ("mean", "low", "high")
            }
    return curves


def _evaluations(progress: Standing) -> list[dict[str, Any]]:
    return RunFolder(progress.folder).ledger().of("eval")


def write(out: Path, results: Mapping[str, Any]) -> None:
    durable.commit_json(StudyFolder(out).results, results)


def describe(results: Mapping[str, Any]) -> list[str]:
    """The results in a few lines, for the terminal: each arm's main score at the whole budget."""
    metric, arms = results["primary"], results["budgets"][-1]["arms"]
    if metric is None:
        return ["no score that all arms have: give --eval-data, and see the page for each arm's own metrics"]
    lines = []
    for name, arm in arms.items():
        one = arm["scores"].get(metric)
        if one is None:
            continue
        spread = f" sd {one['sd']:.4f} [{one['low']:.4f}, {one['high']:.4f}]" if one["sd"] is not None else ""
        against = one.get("against_baseline") or {}
        test = (
            f"  {against['difference']:+.4f} against {against['arm']}"
            if against.get("difference") is not None
            else ""
        )
        p = (
            f", p {against['p']:.3g} ({against['p_holm']:.3g} after Holm)"
            if against.get("p") is not None
            else ""
        )
        lines.append(
            f"{name}: {metric.replace('_', ' ')} {one['mean']:.4f}{spread} over {one['n']} seeds{test}{p}"
        )
    return lines
