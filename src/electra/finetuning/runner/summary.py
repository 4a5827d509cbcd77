"""Summarises the scores of several seeds, chooses the one that is saved, and compares it with baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from electra.artifacts.finetuning import SeedFolder, baseline_results, chance_note
from electra.finetuning.metrics.scores import summary

FROZEN = "frozen encoder"  # the baseline that fits the head `frozen` to the pre-trained encoder


@dataclass(frozen=True)
class FinishedSeed:
    """A finished seed: its number, folder and results.json."""

    seed: int
    folder: SeedFolder
    results: dict[str, Any]

    def score(self, metric: str) -> float | None:
        """Returns the dev score of a metric; None if it is undefined."""
        score: float | None = self.results["eval"][metric]
        return score


def result_name(split: str) -> str:
    """Returns the name of a split in the keys of results: "eval" for dev, as in transformers' scripts."""
    return "eval" if split == "dev" else split


def scores_over_seeds(finished: Sequence[FinishedSeed], metrics: Sequence[str]) -> dict[str, Any]:
    """Returns statistics under flat keys: `eval_f1` (mean), `eval_f1_sd`, ...

    The endings are `_sd`, `_median`, `_by_seed` and, if a score is undefined, `_reason`. At least one seed is
    needed.
    """
    statistics: dict[str, Any] = {}
    by_seed = [{"eval": seed.results["eval"], **seed.results["others"]} for seed in finished]
    for split, first_scores in by_seed[0].items():
        for name in (name for name in ("loss", *metrics) if name in first_scores):
            values, key = [seed_scores[split].get(name) for seed_scores in by_seed], f"{split}_{name}"
            summary_values = summary(values)
            statistics |= {
                key: summary_values["mean"],
                f"{key}_sd": summary_values["sd"],
                f"{key}_median": summary_values["median"],
            }
            statistics[f"{key}_by_seed"] = values
            if summary_values["mean"] is None:
                statistics[f"{key}_reason"] = (
                    first_scores["reasons"].get(name) or "not defined for every seed"
                )
    return statistics


def choose_seed(finished: Sequence[FinishedSeed], primary: str, keep: str) -> FinishedSeed:
    """Returns the seed with the "best" or the "median" dev score; undefined scores rank lowest.

    Of seeds with equal scores, the one with the lower number ranks higher. The median of an even number of
    seeds is the lower of the middle two.
    """
    ranked = sorted(
        finished,
        key=lambda seed: (seed.score(primary) is not None, seed.score(primary) or 0.0, -seed.seed),
    )
    return ranked[-1] if keep == "best" else ranked[(len(ranked) - 1) // 2]


def headline(results: dict[str, Any], metric: str) -> str:
    """Returns a line with the dev score of a metric over the seeds, from the contents of all_results.json."""
    key = f"eval_{metric}"
    if (mean := results[key]) is None:
        return f"dev {metric}: undefined ({results[f'{key}_reason']})"
    if (count := len(results["seeds"])) == 1:
        return f"dev {metric}: {mean:.4f}"
    spread = f"sd {results[f'{key}_sd']:.4f}, median {results[f'{key}_median']:.4f}"
    return f"dev {metric}: {mean:.4f}, the mean of {count} seeds; {spread}"


def compare_with_baselines(results: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line with the baselines' dev scores, and a note if the model does not beat the best of them.

    Yields nothing if no baseline has a dev score. `results` are the contents of all_results.json.
    """
    key = f"eval_{results['primary_metric']}"
    baselines = baseline_results(results).items()
    dev_scores = {name: scores[key] for name, scores in baselines if scores.get(key) is not None}
    if not dev_scores:
        return
    listed = ", ".join(f"{name} {value:.4f}" for name, value in dev_scores.items())
    yield f"dev {results['primary_metric']} of the baselines: {listed}"
    score, best_name = results[key], max(dev_scores, key=lambda name: dev_scores[name])
    if score is None or score <= dev_scores[best_name]:
        note = f"the baseline {best_name!r} scores as well as this model, or better, on dev"
        advice = "; --head frozen trains that model in seconds" if best_name == FROZEN else ""
        yield f"{note}{chance_note(results)}{advice}"
