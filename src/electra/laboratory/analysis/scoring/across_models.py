"""Scores sentences with several models, each with the scorers that its networks allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from electra.foundation.arrays import Floats
from electra.foundation.errors import ConfigError
from electra.foundation.progress import part_progress
from electra.laboratory.analysis.contract import Model, Network, Progress
from electra.laboratory.analysis.scoring.scorers import find_scorer, scorers_for, sentence_scores

SCORED_NETWORKS: tuple[Network, ...] = ("discriminator", "generator")


def scores_of(
    models: Sequence[Model], scorers: Sequence[str], texts: Sequence[str], progress: Progress
) -> dict[tuple[str, str], Floats]:
    """Returns, by (model name, scorer name), a score for each text. Equal texts are scored once.

    Args:
        models: The models.
        scorers: Names of scorers; empty for all that a model's networks allow.
        texts: The sentences.
        progress: Receives the current activity and the fraction done.

    Raises:
        ConfigError: A scorer is unknown, or a model has no network for any of the scorers.
        ModelError: A model has neither a discriminator nor a generator.
    """
    distinct = list(dict.fromkeys(texts))
    index = {text: i for i, text in enumerate(distinct)}
    index_of_text = np.array([index[text] for text in texts], np.int64)
    jobs = [
        (model, network, names)
        for model in models
        for network, names in _scorers_by_network(model, scorers).items()
    ]
    scores: dict[tuple[str, str], Floats] = {}
    for i, (model, network, names) in enumerate(jobs):
        share_done = part_progress(progress, f"{model.name}, {network}", i, len(jobs))
        for name, values in sentence_scores(model.network(network), distinct, names, share_done).items():
            scores[model.name, name] = values[index_of_text]
    return scores


def _scorers_by_network(model: Model, scorers: Sequence[str]) -> dict[Network, list[str]]:
    """Returns the scorers to use with each network of the model, at least one in total."""
    scorers_of = {
        network: scorers_for(loaded)
        for network in SCORED_NETWORKS
        if (loaded := model.optional(network)) is not None
    }
    if not scorers_of:
        model.network("discriminator")  # raises, saying what the model is instead
    requested_names = [find_scorer(name).name for name in scorers]
    by_network = {
        network: [name for name in requested_names or names if name in names]
        for network, names in scorers_of.items()
    }
    if not any(by_network.values()):
        problem = f"{model.name} has only {' and '.join(scorers_of)}, which none of these scorers uses"
        raise ConfigError(
            problem,
            where="scorers",
            fix=f"Choose among {', '.join(name for names in scorers_of.values() for name in names)}",
        )
    return {network: names for network, names in by_network.items() if names}
