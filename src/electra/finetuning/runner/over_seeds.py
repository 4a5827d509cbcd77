"""The numbers of several seeds: mean, standard deviation, median, and the seed whose model is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from electra.artifacts.tuning import SeedFolder, chance_note
from electra.finetuning.metrics.scores import summary

FROZEN = "frozen encoder"  # the head `frozen` on the encoder as it is given
STARTS = "which starts from counting (a model with it cannot be exported to ONNX)"


@dataclass(frozen=True)
class FinishedSeed:
    seed: int
    folder: SeedFolder
    results: dict[str, Any]

    def score(self, metric: str) -> float | None:
        score: float | None = self.results["eval"][metric]
        return score


def scores_over_seeds(finished: Sequence[FinishedSeed], metrics: Sequence[str]) -> dict[str, Any]:
    """Flat keys, as scripts around transformers read them: `eval_f1` is the mean, `eval_f1_sd`, ..."""
    flat: dict[str, Any] = {}
    scored = [{"eval": one.results["eval"], **one.results["others"]} for one in finished]
    for split, first in scored[0].items():
        for name in (name for name in ("loss", *metrics) if name in first):
            values, key = [one[split].get(name) for one in scored], f"{split}_{name}"
            numbers = summary(values)
            flat |= {key: numbers["mean"], f"{key}_sd": numbers["sd"], f"{key}_median": numbers["median"]}
            flat[f"{key}_by_seed"] = values
            if numbers["mean"] is None:
                flat[f"{key}_reason"] = first["reasons"].get(name) or "not defined for every seed"
    return flat


def choose(finished: Sequence[FinishedSeed], primary: str, keep: str) -> FinishedSeed:
    """The best seed by the primary metric, or the middle one (the lower of two); undefined is lowest."""
    ranked = sorted(
        finished,
        key=lambda one: (one.score(primary) is not None, one.score(primary) or 0.0, -one.seed),
    )
    return ranked[-1] if keep == "best" else ranked[(len(ranked) - 1) // 2]


def headline(results: dict[str, Any], metric: str) -> str:
    name = f"eval_{metric}"
    if (number := results[name]) is None:
        return f"dev {metric}: undefined ({results[f'{name}_reason']})"
    if (count := len(results["seeds"])) == 1:
        return f"dev {metric}: {number:.4f}"
    spread = f"sd {results[f'{name}_sd']:.4f}, median {results[f'{name}_median']:.4f}"
    return f"dev {metric}: {number:.4f}, the mean of {count} seeds; {spread}"


def compared(results: Mapping[str, Any], head: str = "") -> Iterator[str]:
    """What the floors and the untrained twin score on dev, and whether one of them is ahead.

    head: one that starts from counting, to be suggested where that is.
    """
    key = f"eval_{results['primary_metric']}"
    others = {**results.get("floors", {}), "fresh weights": results.get("untrained", {})}
    known = {name: found[key] for name, found in others.items() if found.get(key) is not None}
    if not known:
        return
    listed = ", ".join(f"{name} {value:.4f}" for name, value in known.items())
    yield f"dev {results['primary_metric']} to compare: {listed}"
    own, ahead = results[key], max(known, key=lambda name: known[name])
    if ahead == FROZEN and (own is None or own <= known[ahead]):
        told = f"the {ahead} does as well or better: --head frozen makes that model in seconds"
        yield told + chance_note(results)
    elif own is None or own <= known[ahead]:
        told = f"{ahead} does as well or better: on these data the encoder is not worth its cost yet"
        yield told + chance_note(results) + (f"; try --head {head}, {STARTS}" if head else "")
