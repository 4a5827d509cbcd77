"""The results of a study, from its run folders: scores by seed, comparisons, and curves over FLOPs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra.artifacts.evaluation_files import baselines_of
from electra.artifacts.run_files import RunFolder
from electra.laboratory.ablation.runs import Floor, StudyRun
from electra.laboratory.ablation.statistics import compare, holm, summarise

FORMAT = 2
PANEL = "panel"  # the mean of the panel's tasks
PRETRAINING = (
    *("generator_loss", "generator_accuracy", "mlm_loss", "discriminator_loss"),
    *("auc", "average_precision", "gain"),
)
# Settings that determine how hard the discriminator's task is: if arms differ in one, their AUCs are not
# comparable.
TASK_SETTINGS = {
    "objective": ("name", "generator", "temperature", "disallow_correct"),
    "model": ("size", "layers", "hidden_size", "generator_width", "generator_depth"),
}

Scores = dict[str, dict[int, float]]  # metric -> seed -> value


def study_results(
    plan: Mapping[str, Any],
    runs: Sequence[StudyRun],
    failures: Mapping[str, object] | None = None,
    floors: Sequence[Floor] = (),
) -> dict[str, Any]:
    """Returns the contents of results.json, from what is finished of all runs and floors."""
    study, fixed, panel, failures = plan["study"], plan["fixed"], plan["panel"], failures or {}
    panel_metrics = [PANEL, *panel["tasks"]] if panel["tasks"] else []
    recipes = {arm: planned["recipe"] for arm, planned in fixed["arms"].items()}
    finished = [run for run in runs if run.is_finished()]
    missing = [run for run in runs if run not in finished]
    means = [(_with_mean(floor.scores(), panel["tasks"]), floor.arms) for floor in floors]
    untrained = {arm: mean for mean, arms in means for arm in arms}
    done = {arm: [run for run in finished if run.job.arm == arm] for arm in recipes}
    arms = _compare_arms(
        {arm: _scores(done[arm], panel["tasks"]) for arm in recipes},
        {arm: _costs(done[arm], fixed["arms"][arm]) for arm in recipes},
        baselines_of(study),
        panel_metrics,
    )
    return {
        "format": FORMAT,
        "study": study,
        "recipe": plan["recipe"],
        "budget": plan["budget"],
        "flops": fixed["flops"],
        "data": fixed["data"],
        "panel": panel["tasks"],
        "primary": primary_metric(panel_metrics, arms, recipes),
        "complete": not missing,
        "seeds": sorted({run.job.seed for run in runs}),
        "budgets": [{"share": 1.0, "flops": fixed["flops"], "arms": arms}],
        "at_start": {arm: _at_start(done[arm]) | untrained.get(arm, {}) for arm in recipes},
        **({"notes": panel["notes"]} if panel.get("notes") else {}),
        "curves": {arm: _curves(done[arm]) for arm in recipes},
        "missing": [run.job._asdict() for run in missing],
        "failed": [{"job": run.name, "problem": str(failures[run.name])} for run in missing if run.name in failures],
        "arms": recipes,
    }


def primary_metric(panel_metrics: Sequence[str], arms: Mapping[str, Any], recipes: Mapping[str, Any]) -> str | None:
    """Returns the score that decides the study: the panel's mean, or a metric comparable across arms."""
    if panel_metrics:
        return panel_metrics[0]
    in_all_arms = set.intersection(*(set(arm["scores"]) for arm in arms.values()))
    if "mlm_loss" in in_all_arms:  # measured on the full-size network
        return "mlm_loss"
    settings = [
        {key: recipe[section].get(key) for section, keys in TASK_SETTINGS.items() for key in keys}
        for recipe in recipes.values()
    ]
    return "auc" if "auc" in in_all_arms and all(setting == settings[0] for setting in settings) else None


def _scores(done: Sequence[StudyRun], tasks: Mapping[str, Any]) -> Scores:
    scores: Scores = {}
    for run in done:
        metrics = _with_mean(run.scores(), tasks)
        for row in _evaluations(run)[-1:]:
            held_out = row["metrics"]
            metrics |= {name: float(held_out[name]) for name in PRETRAINING if held_out.get(name) is not None}
        for name, value in metrics.items():
            scores.setdefault(name, {})[run.job.seed] = value
    return scores


def _with_mean(found: Mapping[str, float], tasks: Iterable[str]) -> dict[str, float]:
    scores = {name: found[name] for name in tasks if name in found}
    return {PANEL: math.fsum(scores.values()) / len(scores), **scores} if scores else {}


def _costs(done: Sequence[StudyRun], arm: Mapping[str, Any]) -> dict[str, Any]:
    steps = arm["steps"][-1]
    ledgers = [RunFolder(run.folder).ledger() for run in done]
    seconds = [row["seconds"] for ledger in ledgers for row in ledger.rows_of_kind("eval")[-1:]]
    return {
        "steps": steps,
        "tokens": steps * arm["tokens_per_step"],
        "flops": steps * arm["flops_per_step"],
        "flops_per_step": arm["flops_per_step"],
        "seconds": math.fsum(seconds) / len(seconds) if seconds else None,
        "runs": len(done),
        "collapsed": sum(any(event.name == "collapse" for event in ledger.events) for ledger in ledgers),
    }


def _compare_arms(
    scores: Mapping[str, Scores],
    costs: Mapping[str, Any],
    baselines: Mapping[str, str],
    panel_metrics: Sequence[str],
) -> dict[str, Any]:
    arms: dict[str, Any] = {arm: {**costs[arm], "scores": {}} for arm in scores}
    measured = {metric for by_metric in scores.values() for metric in by_metric}
    for metric in (name for name in (*panel_metrics, *PRETRAINING) if name in measured):
        by_arm = {arm: by_metric[metric] for arm, by_metric in scores.items() if metric in by_metric}
        others = {arm: values for arm, values in by_arm.items() if arm != baselines[arm]}
        compared = {arm: compare(each, by_arm.get(baselines[arm], {})) for arm, each in others.items()}
        corrected = dict(zip(compared, holm([each["p"] for each in compared.values()]), strict=True))
        for arm, values in by_arm.items():
            by_seed = {str(seed): value for seed, value in sorted(values.items())}
            record = {"by_seed": by_seed, **summarise(list(values.values()))}
            if arm in compared:
                test = {"arm": baselines[arm], "p_holm": corrected[arm]}
                record["against_baseline"] = compared[arm] | test
            arms[arm]["scores"][metric] = record
    return arms


def _curves(done: Sequence[StudyRun]) -> dict[str, Any]:
    rows = [row for run in done for row in _evaluations(run) if row["step"]]
    curves: dict[str, Any] = {}
    for name in PRETRAINING:
        points: dict[float, list[float]] = {}
        for row in rows:
            if row["metrics"].get(name) is not None:
                points.setdefault(float(row["flops"]), []).append(float(row["metrics"][name]))
        whole = {at: summarise(values) for at, values in sorted(points.items()) if len(values) == len(done)}
        if whole:
            ends = {end: [s[end] for s in whole.values()] for end in ("mean", "low", "high")}
            curves[name] = {"flops": list(whole)} | ends
    return curves


def _at_start(done: Sequence[StudyRun]) -> dict[str, float]:
    """Returns an arm's held-out metrics before the first update, a floor: means over its seeds."""
    rows = [row["metrics"] for run in done for row in _evaluations(run)[:1] if not row["step"]]
    names = [name for name in PRETRAINING if rows and all(row.get(name) is not None for row in rows)]
    return {name: math.fsum(row[name] for row in rows) / len(rows) for name in names}


def _evaluations(run: StudyRun) -> list[dict[str, Any]]:
    return RunFolder(run.folder).ledger().rows_of_kind("eval")


def summary_lines(results: Mapping[str, Any]) -> list[str]:
    """Returns a line on each arm: its main score, and its test against the baseline."""
    metric, arms = results["primary"], results["budgets"][-1]["arms"]
    if metric is None:
        return ["the arms have no comparable score: pass --eval-data; the page shows each arm's own metrics"]
    lines = []
    scores = {name: arm["scores"][metric] for name, arm in arms.items() if metric in arm["scores"]}
    for name, score in scores.items():
        line = f"{name}: {metric.replace('_', ' ')} {score['mean']:.4f}"
        if score["sd"] is not None:
            line += f" sd {score['sd']:.4f} [{score['low']:.4f}, {score['high']:.4f}]"
        at_start = results["at_start"][name].get(metric)
        line += f" (seeds: {score['n']}{'' if at_start is None else f'; before training {at_start:.4f}'})"
        test = score.get("against_baseline") or {}
        if test.get("difference") is not None:
            line += f"  {test['difference']:+.4f} against {test['arm']}"
        if test.get("p") is not None:
            line += f", p {test['p']:.3g} ({test['p_holm']:.3g} after Holm)"
        lines.append(line)
    return lines
