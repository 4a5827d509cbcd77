"""Held-out metrics of all networks, and the test for a collapsed discriminator."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from electra.foundation.errors import RunFailed
from electra.foundation.signals import Stop
from electra.model.pair import Pair
from electra.model.precision import autocast
from electra.objectives import mlm
from electra.objectives.parts.interface import Objective
from electra.training.run import RunState

LOWER_RATE = "Lower `training.learning_rate`, or use `training.precision=fp32`"
SEED = 0  # held-out masks and samples are the same for every run, whatever its seed
LOSSES = {
    "mlm": "generator_loss",
    "sampler": "sampler_loss",
    "states": "states_loss",
    "vectors": "vectors_loss",
}
MEANS = {
    "top1_correct": "generator_accuracy",
    "sample_correct": "sample_accuracy",
    "entropy": "generator_entropy",
}


def evaluate(run: RunState, stop: Stop) -> dict[str, float | None]:
    """Returns mean losses and metrics over the held-out rows; None for undefined metrics.

    It has no side effects, so an evaluation that is stopped can be repeated.

    Masks and samples are the same for every run. A full-size masked language model is also evaluated with
    every masked position shown as [MASK] (`mlm_loss`, `mlm_accuracy`), whatever objective trained it. Raises
    InterruptedError if `stop` returned True before a batch, and RunFailed if a loss or an output is not
    finite.
    """
    pair, objective, fraction = run.pair, run.objective, run.recipe.evaluation.mask_fraction
    was_training = pair.training
    pair.eval()
    try:
        metrics = summarize(*_score(run, objective.for_evaluation(fraction), pair, stop))
        language_model = objective.language_model(pair)
        if language_model is not None:
            config = mlm.Config(mask_fraction=fraction, mask_share=1.0, random_share=0.0)
            plain = mlm.Objective(config, vocab_size=objective.vocab_size, specials=objective.specials)
            losses, observed = _score(run, plain, Pair(language_model), stop)
            metrics |= {"mlm_loss": losses["mlm"], "mlm_accuracy": _mean(observed["top1_correct"])}
    finally:
        pair.train(was_training)
    return metrics


def _score(
    run: RunState, objective: Objective, pair: Pair, stop: Stop
) -> tuple[dict[str, float], dict[str, npt.NDArray[Any]]]:
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    observed: dict[str, list[npt.NDArray[Any]]] = {}
    size, num_rows = run.micro_batch_size, min(run.recipe.evaluation.rows, run.heldout.num_blocks)
    for index in range(-(-num_rows // size)):
        if stop():
            raise InterruptedError
        batch = run.heldout.batch(index, size, stop=min(size, num_rows - index * size))
        corrupted = objective.corrupt(batch, SEED, 1.0)
        with torch.no_grad(), autocast(run.device, run.precision):
            outcome = objective.forward(pair, corrupted.to(run.device))
        for name, value in outcome.losses.items():
            sums[name] = sums.get(name, 0.0) + float(value.detach())
            counts[name] = counts.get(name, 0) + corrupted.counts[name]
        for name, values in outcome.observed.items():
            observed.setdefault(name, []).append(values.cpu().numpy())
    means = {name: sums[name] / max(1, counts[name]) for name in sums}
    arrays = {name: np.concatenate(batches) for name, batches in observed.items()}
    if not all(np.isfinite(values).all() for values in (np.array(list(means.values())), *arrays.values())):
        problem = f"the held-out losses are not finite at step {run.step}"
        raise RunFailed(problem, where=run.folder, fix=LOWER_RATE)
    return means, arrays


def summarize(losses: dict[str, float], observed: dict[str, npt.NDArray[Any]]) -> dict[str, float | None]:
    """Returns metrics under their names in metrics.jsonl; None for undefined ones."""
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
    """Whether the discriminator predicts "original" nearly everywhere and knows little but the base rate."""
    recall, gain = metrics.get("recall"), metrics.get("gain")
    return recall is not None and gain is not None and recall < 0.01 and gain < 0.005


def _mean(values: npt.NDArray[Any]) -> float | None:
    return float(values.mean()) if values.size else None
