"""Titles and meanings of held-out metrics (metrics.toml), their baselines and possible ranges."""

import tomllib
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

METRICS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FALL = 0.02  # below its maximum: a curve that falls
PLOTTED = [key for key, metric in METRICS.items() if metric.get("plotted")]


def title(key: str) -> str:
    """Returns a readable name: 'auc' is 'AUC', and an undescribed 'top_five' is 'Top five'."""
    return METRICS[key]["title"] if key in METRICS else key.replace("_", " ").strip().capitalize()


def meaning(key: str) -> str:
    """Returns the meaning of a metric in a sentence; empty if it is not described."""
    return METRICS[key]["meaning"] if key in METRICS else ""


def meaning_of_curve(key: str, *curves: Sequence[float | None]) -> str:
    """Returns the meaning of a metric, and why it falls if one of its curves over the training does."""
    known = [[value for value in curve if value is not None] for curve in curves]
    falls = any(curve and curve[-1] < max(curve) - FALL for curve in known)
    if key not in ("auc", "average_precision", "gain") or not falls:
        return meaning(key)
    return f"{meaning(key)} It falls while the generator improves: its words are then harder to detect."


def baseline(key: str, values: Mapping[str, float | None]) -> float | None:
    """Returns the score of a model that knows only the base rate, from the metrics of one evaluation."""
    level = METRICS.get(key, {}).get("baseline")
    return values.get(level) if isinstance(level, str) else level


def clip_interval(metric: str, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Returns an interval clipped to the values that the metric, judged by its name, can take."""
    least = -1.0 if metric.endswith(("correlation", "pearson", "spearman", "spearmanr")) else 0.0
    most = inf if metric.endswith(("loss", "entropy", "mae")) else 1.0
    if metric == "gain":
        least, most = -inf, inf
    return None if low is None else max(low, least), None if high is None else min(high, most)
