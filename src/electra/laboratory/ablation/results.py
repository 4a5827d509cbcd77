"""The results of a study, from its run folders: scores by seed, comparisons, and curves along the compute."""

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
from electra.laboratory.ablation.runner import JobStatus
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
# Settings that determine how hard the discriminator's task is: where arms differ here, their AUCs are not
# comparable.
TASK_SETTINGS = {
    "objective": ("name", "generator", "temperature", "disallow_correct"),
    "model": ("size", "layers", "hidden_size", "generator_width", "generator_depth"),
}

Scores = dict[str, dict[int, float]]  # metric -> seed -> value


def gather(plan: Mapping[str, Any], jobs: Sequence[JobStatus]) -> dict[str, Any]:
    """The contents of results.json, from every job that is done.

    Args:
        plan: The contents of study.json.
        jobs: All jobs of the study; those not done are listed as missing or failed.
    """
    study, fixed, panel = plan["study"], plan["fixed"], plan["panel"]
    panel_metrics = [PANEL, *panel["tasks"]] if panel["tasks"] else []
    budgets = []
    for index, share in enumerate(fixed["budgets"]):
        done = [status for status in jobs if status.job.share == share and status.state == "done"]
        scores = {
            arm: _scores([status for status in done if status.job.arm == arm], panel["tasks"])
            for arm in fixed["arms"]
        }
        costs = {
            arm: _costs([status for status in done if status.job.arm == arm], fixed["arms"][arm], index)
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
        "panel": panel["tasks"],
        "primary": primary(
            panel_metrics,
            budgets[-1]["arms"],
            {name: arm_plan["recipe"] for name, arm_plan in fixed["arms"].items()},
        ),
        "complete": all(status.state == "done" for status in jobs),
        "seeds": sorted({status.job.seed for status in jobs}),
        "budgets": budgets,
        "reached": flops_to_baseline(budgets, study["baseline"], PANEL) if panel_metrics else {},
        "curves": {
            arm: _curves(
                [
                    status
                    for status in jobs
                    if status.job.arm == arm and status.job.share == fixed["budgets"][-1]
                ]
            )
            for arm in fixed["arms"]
        },
        "missing": [status.job._asdict() for status in jobs if status.state != "done"],
        "failed": [
            {"job": str(status.job), "problem": status.problem} for status in jobs if status.state == "failed"
        ],
        "arms": {name: arm_plan["recipe"] for name, arm_plan in fixed["arms"].items()},
    }


def primary(panel_metrics: Sequence[str], arms: Mapping[str, Any], recipes: Mapping[str, Any]) -> str | None:
    """The score that decides the study: the panel's, else a pre-training metric comparable across arms.

    None where there is neither.
    """
    if panel_metrics:
        return panel_metrics[0]

    def in_all_arms(metric: str) -> bool:
        return all(metric in arm["scores"] for arm in arms.values())

    if in_all_arms("mlm_loss"):  # measured on the full-size network
        return "mlm_loss"
    settings = [
        {key: recipe[section].get(key) for section, keys in TASK_SETTINGS.items() for key in keys}
        for recipe in recipes.values()
    ]
    return "auc" if in_all_arms("auc") and all(setting == settings[0] for setting in settings) else None


def _scores(done: Sequence[JobStatus], tasks: Mapping[str, Any]) -> Scores:
    scores: Scores = {}
    for status in done:
        seed = status.job.seed
        metrics = panel_scores(RunFolder(status.folder), tasks)
        last = _evaluations(status)[-1:]
        metrics |= {
            name: float(row["metrics"][name])
            for row in last
            for name in PRETRAINING
            if row["metrics"].get(name) is not None
        }
        for name, value in metrics.items():
            scores.setdefault(name, {})[seed] = value
    return scores


def panel_scores(run: RunFolder, tasks: Iterable[str] | None = None) -> dict[str, float]:
    """The mean of a scored run's panel tasks under `PANEL`, and each task's score (`tasks` None: all)."""
    record = durable.read_json(run.score, RunFolderError)["scores"]
    scores = {name: float(record[name]["value"]) for name in (record if tasks is None else tasks)}
    return {PANEL: math.fsum(scores.values()) / len(scores), **scores} if scores else {}


def _costs(done: Sequence[JobStatus], arm: Mapping[str, Any], index: int) -> dict[str, Any]:
    steps = arm["steps"][index]
    rows = [row for row in (_evaluations(status)[-1:] for status in done) if row]
    alarms = sum(
        any(event.name == "collapse" for event in RunFolder(status.folder).ledger().events) for status in done
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
    metrics = [
        name
        for name in (*panel_metrics, *PRETRAINING)
        if any(name in by_metric for by_metric in scores.values())
    ]
    reliabilities = {}
    for metric in metrics:
        by_arm = {arm: by_metric[metric] for arm, by_metric in scores.items() if metric in by_metric}
        compared = {
            arm: compare(values, by_arm.get(baselines[arm], {}))
            for arm, values in by_arm.items()
            if arm != baselines[arm]
        }
        corrected = dict(zip(compared, holm([comparison.p for comparison in compared.values()]), strict=True))
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
        reliabilities[metric] = asdict(reliability(list(by_arm.values()), list(compared.values())))
    return {"share": share, "flops": flops, "arms": arms, "reliability": reliabilities}


def flops_to_baseline(
    budgets: Sequence[Mapping[str, Any]], baseline: str, metric: str
) -> dict[str, float | None]:
    """The FLOPs at which each arm first reaches the baseline's score at the whole budget.

    None for an arm that never does; empty with a single budget.
    """
    level = budgets[-1]["arms"][baseline]["scores"].get(metric)
    if len(budgets) < 2 or level is None:
        return {}
    crossings = {}
    for arm in budgets[-1]["arms"]:
        points = [
            (budget["flops"], budget["arms"][arm]["scores"][metric]["mean"])
            for budget in budgets
            if metric in budget["arms"][arm]["scores"]
        ]
        crossings[arm] = crossing([x for x, _ in points], [y for _, y in points], level["mean"])
    return crossings


def _curves(jobs: Sequence[JobStatus]) -> dict[str, Any]:
    """Held-out metrics of one arm along its FLOPs: the seeds' mean and interval at each evaluation."""
    runs = [_evaluations(status) for status in jobs if status.state == "done"]
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
                end: [getattr(summary, end) for summary in over_seeds.values()]
                for end in ("mean", "low", "high")
            }
    return curves


def _evaluations(status: JobStatus) -> list[dict[str, Any]]:
    return RunFolder(status.folder).ledger().of("eval")


def write(out: Path, results: Mapping[str, Any]) -> None:
    """Write results.json atomically."""
    durable.commit_json(StudyFolder(out).results, results)


def describe(results: Mapping[str, Any]) -> list[str]:
    """The results in a few lines: each arm's main score at the whole budget, and its test."""
    metric, arms = results["primary"], results["budgets"][-1]["arms"]
    if metric is None:
        return ["the arms have no comparable score: pass --eval-data; the page shows each arm's own metrics"]
    lines = []
    for name, arm in arms.items():
        score = arm["scores"].get(metric)
        if score is None:
            continue
        spread = (
            f" sd {score['sd']:.4f} [{score['low']:.4f}, {score['high']:.4f}]"
            if score["sd"] is not None
            else ""
        )
        against = score.get("against_baseline") or {}
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
            f"{name}: {metric.replace('_', ' ')} {score['mean']:.4f}{spread} over {score['n']} seeds{test}{p}"
        )
    return lines
