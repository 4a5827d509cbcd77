"""Sentence scores of every scorer of several models, as far as each has the network for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from electra.foundation.arrays import Floats
from electra.foundation.errors import ConfigError
from electra.foundation.progress import part_progress
from electra.laboratory.analysis.contract import Model, Network, Progress
from electra.laboratory.analysis.scoring.scorers import find_scorer, scorers_for, sentence_scores

NETWORKS: tuple[Network, ...] = ("discriminator", "generator")


def scores_of(
    models: Sequence[Model], scorers: Sequence[str], texts: Sequence[str], progress: Progress
) -> dict[tuple[str, str], Floats]:
    """(model, scorer) -> a score for each text, equal ones read once; by default all possible scorers."""
    distinct = list(dict.fromkeys(texts))
    place = {text: number for number, text in enumerate(distinct)}
    order = np.array([place[text] for text in texts], np.int64)
    jobs = [(model, network, names) for model in models for network, names in _wanted(model, scorers).items()]
    found: dict[tuple[str, str], Floats] = {}
    for number, (model, network, names) in enumerate(jobs):
        told = part_progress(progress, f"{model.name}, {network}", number, len(jobs))
        for name, values in sentence_scores(model.network(network), distinct, names, told).items():
            found[model.name, name] = values[order]
    return found


def _wanted(model: Model, scorers: Sequence[str]) -> dict[Network, list[str]]:
    """Which scorers to ask each network of the model for: one at least."""
    usable = {
        network: scorers_for(loaded)
        for network in NETWORKS
        if (loaded := model.optional(network)) is not None
    }
    if not usable:
        model.network("discriminator")  # raises, saying what the model is instead
    asked = [find_scorer(name).name for name in scorers]
    wanted = {
        network: [name for name in asked or names if name in names] for network, names in usable.items()
    }
    if not any(wanted.values()):
        what = f"{model.name} has {' and '.join(usable)} only, and none of these scorers reads that"
        raise ConfigError(
            what,
            where="scorers",
            fix=f"Choose among {', '.join(name for names in usable.values() for name in names)}",
        )
    return {network: names for network, names in wanted.items() if names}
