"""Compares a result with its baselines, and advises on what to try if one of them is as good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from electra.artifacts.finetuning import baseline_results, chance_note
from electra.finetuning.runner.tuning import Finetuning

FROZEN = "frozen encoder"  # the baseline that fits the head `frozen` to the pre-trained encoder
HYBRID_HEADS = {1: "bag", 2: "compare"}  # by the number of texts in an example


def hybrid_head(tuning: Finetuning) -> str:
    """Returns the name of the hybrid head for the task; "" if there is none or the user chose one."""
    if tuning.task.head != "classifier" or tuning.settings.head in HYBRID_HEADS.values():
        return ""
    return HYBRID_HEADS.get(len(tuning.splits["dev"].examples[0].texts), "")


def compare_with_baselines(results: Mapping[str, Any], head: str = "") -> Iterator[str]:
    """Yields a line with the baselines' dev scores, and a note if the model does not beat the best of them.

    Yields nothing if no baseline has a dev score.

    Args:
        results: the contents of all_results.json.
        head: a hybrid head to suggest in the note; "" for none.
    """
    key = f"eval_{results['primary_metric']}"
    baselines = baseline_results(results).items()
    dev_scores = {name: scores[key] for name, scores in baselines if scores.get(key) is not None}
    if not dev_scores:
        return
    listed = ", ".join(f"{name} {value:.4f}" for name, value in dev_scores.items())
    yield f"dev {results['primary_metric']} of the baselines: {listed}"
    score, best_name = results[key], max(dev_scores, key=lambda name: dev_scores[name])
    if score is not None and score > dev_scores[best_name]:
        return
    note = f"the baseline {best_name!r} scores as well as this model, or better, on dev{chance_note(results)}"
    if best_name == FROZEN:
        yield f"{note}; --head frozen trains that model in seconds"
    else:
        advice = f"; try --head {head} (a model with it cannot be exported to ONNX)" if head else ""
        yield note + advice
