"""Sentence scores of every scorer of several models, as far as each has the network for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from electra.analysis.parts.interface import Network, ProbeDataError, Progress
from electra.analysis.parts.models import Model
from electra.analysis.parts.scoring import find_scorer, sentence_scores

NETWORKS: tuple[Network, ...] = ("discriminator", "generator")


def scores_of(
    models: Sequence[Model], scorers: Sequence[str], texts: Sequence[str], progress: Progress
) -> dict[tuple[str, str], npt.NDArray[np.float64]]:
    """(model, scorer) -> a score for each text. Equal texts are read once."""
    distinct = list(dict.fromkeys(texts))
    place = {text: number for number, text in enumerate(distinct)}
    order = np.array([place[text] for text in texts], np.int64)
    jobs = []
    for model in models:
        wanted = [
            (network, names)
            for network in NETWORKS
            if (names := [name for name in scorers if find_scorer(name).network == network]) and model.optional(network) is not None
        ]
        if not wanted:
            model.network(find_scorer(scorers[0]).network if scorers else "discriminator")  # says what the model is instead
            raise ProbeDataError("no scorer was named", where="scorers", fix="Such as scorers=original")
        jobs += [(model, network, names) for network, names in wanted]
    found: dict[tuple[str, str], npt.NDArray[np.float64]] = {}
    for number, (model, network, names) in enumerate(jobs):
        told = _teller(progress, f"{model.name}, {network}", number, len(jobs))
        for name, values in sentence_scores(model.network(network), distinct, names, told).items():
            found[model.name, name] = values[order]
    return found


def _teller(progress: Progress, what: str, number: int, count: int) -> Callable[[int, int], None]:
    """Progress of job `number` of `count`, told as how many rows of how many are done."""
    return lambda done, total: progress(what, (number + done / max(1, total)) / count)
