"""Held-out metrics of all networks, and the test for a collapsed discriminator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from electra.data.batches import Batches
from electra.model.pair import Pair
from electra.model.precision import autocast
from electra.objectives import mlm
from electra.objectives.parts.interface import Objective

SEED = 0  # held-out masks and samples are the same for every run, whatever its seed
LOSSES = {
    "mlm": "generator_loss",
    "sampler": "sampler_loss",
    "states": "states_loss",
    "vectors": "vectors_loss",
    "relations": "relations_loss",
}
MEANS = {
    "top1_correct": "generator_accuracy",
    "sample_correct": "sample_accuracy",
    "entropy": "generator_entropy",
}


class EvaluationStopped(Exception):
    """Raised when an evaluation is stopped; it has no side effects and can be repeated."""


class NotFinite(Exception):
    """Raised when a loss or an output of the networks is not finite."""


def evaluate(
    pair: Pair,
    objective: Objective,
    heldout: Batches,
    *,
    rows: int,
    mask_fraction: float,
    batch_size: int,
    device: torch.device,
    precision: str,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, float | None]:
    """Returns mean losses and metrics over the first `rows` held-out rows; None for undefined metrics.

    Masks and samples are the same for every run. A full-size masked language model is also evaluated with
    every masked position shown as [MASK] (`mlm_loss`, `mlm_accuracy`), whatever objective trained it.

    Args:
        pair: The networks.
        objective: The objective.
        heldout: The held-out rows.
        rows: Number of rows to score.
        mask_fraction: Mask fraction, whatever it is in training.
        batch_size: Rows per forward pass.
        device: Where to compute.
        precision: "bf16" or "fp32".
        stop: Called before each batch; True interrupts the evaluation.

    Raises:
        EvaluationStopped: if `stop` returned True.
        NotFinite: if a loss or an output is not finite.
    """

    def score(objective: Objective, pair: Pair) -> tuple[dict[str, float], dict[str, npt.NDArray[Any]]]:
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        observed: dict[str, list[npt.NDArray[Any]]] = {}
        num_rows = min(rows, heldout.num_blocks)
        for index in range(-(-num_rows // batch_size)):
            if stop():
                raise EvaluationStopped
            batch = heldout.batch(index, batch_size, stop=min(batch_size, num_rows - index * batch_size))
            corrupted = objective.corrupt(batch, SEED, 1.0)
            with torch.no_grad(), autocast(device, precision):
                outcome = objective.forward(pair, corrupted.to(device))
            for name, value in outcome.losses.items():
                sums[name] = sums.get(name, 0.0) + float(value.detach())
                counts[name] = counts.get(name, 0) + corrupted.counts[name]
            for name, values in outcome.observed.items():
                observed.setdefault(name, []).append(values.cpu().numpy())
        means = {name: sums[name] / max(1, counts[name]) for name in sums}
        arrays = {name: np.concatenate(batches) for name, batches in observed.items()}
        outputs = [np.array(list(means.values())), *arrays.values()]
        if not all(np.isfinite(values).all() for values in outputs):
            raise NotFinite
        return means, arrays

    was_training = pair.training
    pair.eval()
    try:
        metrics = summarize(*score(objective.for_evaluation(mask_fraction), pair))
        language_model = objective.language_model(pair)
        if language_model is not None:
            mlm_config = mlm.Config(mask_fraction=mask_fraction, mask_share=1.0, random_share=0.0)
            losses, observed = score(
                mlm.Objective(mlm_config, vocab_size=objective.vocab_size, specials=objective.specials),
                Pair(language_model),
            )
            metrics |= {"mlm_loss": losses["mlm"], "mlm_accuracy": _mean(observed["top1_correct"])}
    finally:
        pair.train(was_training)
    return metrics


def summarize(losses: dict[str, float], observed: dict[str, npt.NDArray[Any]]) -> dict[str, float | None]:
    """Returns metrics under their names in metrics.jsonl; None for undefined ones.

    Args:
        losses: Mean losses, by the objective's names.
        observed: Values per scored token, by the objective's names.
    """
    metrics: dict[str, float | None] = {LOSSES[name]: losses[name] for name in LOSSES if name in losses}
    metrics |= {MEANS[name]: _mean(observed[name]) for name in MEANS if name in observed}
    if "replaced_logits" in observed:
        metrics |= detection_metrics(observed["replaced_logits"], observed["replaced"])
    return metrics


def detection_metrics(logits: npt.NDArray[Any], replaced: npt.NDArray[Any]) -> dict[str, float | None]:
    """Returns the detection metrics of logits [N] and labels [N], true where the token was replaced.

    Losses and entropies are in nats. `gain` is the entropy of the base rate minus the loss: 0 for a model
    that knows only the base rate. A metric is None where it is undefined, such as the AUC of a single class.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    logits, replaced = logits.astype(np.float64), replaced.astype(bool)
    flagged = logits > 0
    hits, num_flagged, num_replaced = int((flagged & replaced).sum()), int(flagged.sum()), int(replaced.sum())
    base_rate = num_replaced / max(1, len(replaced))
    entropy = -sum(p * np.log(p) for p in (base_rate, 1 - base_rate) if p > 0)
    loss = _mean(np.logaddexp(0, logits) - logits * replaced)
    has_both_classes = 0 < num_replaced < len(replaced)
    precision = hits / num_flagged if num_flagged else None
    recall = hits / num_replaced if num_replaced else None
    return {
        "discriminator_loss": loss,
        "accuracy": _mean(flagged == replaced),
        "precision": precision,
        "recall": recall,
        "f1": 2 * hits / (num_flagged + num_replaced) if num_flagged + num_replaced else None,
        "average_precision": float(average_precision_score(replaced, logits)) if has_both_classes else None,
        "auc": float(roc_auc_score(replaced, logits)) if has_both_classes else None,
        "best_f1_threshold": best_threshold(logits, replaced) if has_both_classes else None,
        "base_rate": base_rate,
        "base_rate_entropy": float(entropy),
        "gain": float(entropy) - loss if loss is not None else None,
    }


def best_threshold(logits: npt.NDArray[Any], replaced: npt.NDArray[Any]) -> float:
    """Returns the threshold on P(replaced) with the highest F1, from logits [N] and labels [N].

    In log-odds it lies halfway between the last flagged token and the next.
    """
    order = np.argsort(-logits, kind="stable")
    ranked, hits = logits[order], np.cumsum(replaced[order])
    f1 = 2 * hits / (np.arange(1, len(ranked) + 1) + hits[-1])
    f1[:-1][ranked[1:] == ranked[:-1]] = 0  # equal logits are flagged together
    last_flagged = int(f1.argmax())
    next_logit = ranked[min(last_flagged + 1, len(ranked) - 1)]
    return float(1 / (1 + np.exp(-(ranked[last_flagged] + next_logit) / 2)))


def has_collapsed(metrics: dict[str, float | None]) -> bool:
    """Whether the discriminator predicts "original" nearly everywhere and knows little but the base rate.

    False if the metrics that show it are undefined.
    """
    recall, gain = metrics.get("recall"), metrics.get("gain")
    return recall is not None and gain is not None and recall < 0.01 and gain < 0.005


def _mean(values: npt.NDArray[Any]) -> float | None:
    return float(values.mean()) if values.size else None
