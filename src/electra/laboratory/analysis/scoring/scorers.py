"""Scores of whole sentences: how acceptable, or how likely, a network finds each sentence.

A *reading* is a value that a network gives each token x_t of a sentence x. A *scorer* is a reading and a way
to reduce the values of all tokens to one number.

    original     log P(original) = log sigmoid(-z_t)   discriminator, one pass; z_t: log-odds of replaced
    odds         log-odds of original = -z_t           discriminator, one pass
    masked       log p(x_t | x without t)              generator, a pass for each token: pseudo-log-likelihood
                                                       (Salazar et al. 2020)
    unmasked     log p(x_t | x)                        generator, one pass: cheap but biased, as the network
                                                       sees x_t

The output z_t of an Electric network (Clark et al. 2020b) is its energy, an unnormalised -log p(x_t | the
rest). For such a model `odds` is the paper's pseudo-log-likelihood in one pass, and `original` is refused as
meaningless. A "generator" is any masked language model.

[CLS] and [SEP] are read but not scored. No text is truncated: a long text is read in overlapping windows, as
in electra.inference.detection. The score of a text does not depend on the other texts, except for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from electra.exchange.configs import LOG_ODDS
from electra.foundation.arrays import Floats, Ints
from electra.foundation.errors import ConfigError, ModelError, nearest
from electra.foundation.progress import Progress
from electra.inference.detection import overlapping_windows
from electra.laboratory.analysis.scoring.token_rows import in_parts

if TYPE_CHECKING:
    from torch import Tensor

    from electra.data.tokenizer_folder import Specials
    from electra.exchange.load import Loaded
    from electra.laboratory.analysis.contract import Model
    from electra.model.passes import PaddedBatch

Network = Literal["discriminator", "generator"]
Reading = Literal["original", "odds", "masked", "unmasked"]
Reduction = Literal["sum", "mean", "min"]

NETWORK_KINDS: tuple[Network, ...] = ("discriminator", "generator")
NETWORKS: dict[Reading, Network] = {
    "original": "discriminator",
    "odds": "discriminator",
    "masked": "generator",
    "unmasked": "generator",
}


@dataclass(frozen=True)
class Scorer:
    """A way to reduce a sentence to one number; higher means more acceptable."""

    name: str
    reading: Reading
    reduction: Reduction
    title: str

    @property
    def network(self) -> Network:
        """The kind of network that the scorer needs."""
        return NETWORKS[self.reading]


SCORERS: dict[str, Scorer] = {
    scorer.name: scorer
    for scorer in (
        Scorer("original", "original", "sum", "sum of log P(original)"),
        Scorer("original-mean", "original", "mean", "mean of log P(original)"),
        Scorer("odds", "odds", "sum", "sum of the log-odds of original"),
        Scorer("odds-mean", "odds", "mean", "mean of the log-odds of original"),
        Scorer("margin", "odds", "min", "the most suspicious token's log-odds of original"),
        Scorer("pll", "masked", "sum", "pseudo-log-likelihood"),
        Scorer("pll-mean", "masked", "mean", "pseudo-log-likelihood per token"),
        Scorer("unmasked", "unmasked", "sum", "log-likelihood in one pass, nothing masked"),
        Scorer("unmasked-mean", "unmasked", "mean", "log-likelihood per token in one pass, nothing masked"),
    )
}


def scorers_for(loaded: Loaded) -> list[str]:
    """Returns the names of all scorers that this network can be used with."""
    return [name for name, scorer in SCORERS.items() if not _obstacle(loaded, scorer.reading)]


def _obstacle(loaded: Loaded, reading: Reading) -> str:
    """Returns why a network cannot give a reading; empty if it can."""
    if loaded.kind != NETWORKS[reading]:
        article = {"discriminator": "a discriminator", "generator": "a generator (a masked language model)"}
        needed = article[NETWORKS[reading]]
        return f"this network is of kind {loaded.kind}, but the reading {reading!r} needs {needed}"
    if reading == "original" and loaded.output != LOG_ODDS:
        return f"the outputs of this model ({loaded.output}) are not log-odds, so it has no P(original)"
    return ""


def require_reading(loaded: Loaded, reading: Reading) -> None:
    """Raises ModelError if the network cannot give a reading."""
    if obstacle := _obstacle(loaded, reading):
        fix = f"Its scorers are {', '.join(scorers_for(loaded))}" if scorers_for(loaded) else ""
        raise ModelError(obstacle, where=loaded.folder, fix=fix)


def find_scorer(name: str) -> Scorer:
    """Returns the scorer of this name; raises ConfigError with a suggestion if there is none."""
    if name not in SCORERS:
        raise ConfigError(f"no scorer named {name!r}", key="scorer", fix=nearest(name, list(SCORERS)))
    return SCORERS[name]


def sentence_scores(loaded: Loaded, texts: Sequence[str], scorers: Sequence[str]) -> dict[str, Floats]:
    """Returns, by scorer, a score for each text (0 for a text without tokens).

    Scorers with the same reading share its passes.

    Raises:
        ConfigError: A scorer is unknown.
        ModelError: The network cannot give a scorer's reading.
    """
    chosen = [find_scorer(name) for name in scorers]
    readings: dict[Reading, list[Floats]] = {}
    for reading in sorted({scorer.reading for scorer in chosen}):
        if reading == "original" and "odds" in readings:  # which is sorted before it: the same pass
            require_reading(loaded, reading)
            readings[reading] = [_log_sigmoid(odds) for odds in readings["odds"]]
        else:
            readings[reading] = token_scores(loaded, texts, reading)
    return {
        scorer.name: np.array([reduce(values, scorer.reduction) for values in readings[scorer.reading]])
        for scorer in chosen
    }


def reduce(values: Floats, reduction: Reduction) -> float:
    """Reduces the values of a sentence's tokens to one number; 0 without tokens."""
    return float(getattr(values, reduction)()) if len(values) else 0.0


def token_scores(loaded: Loaded, texts: Sequence[str], reading: Reading) -> list[Floats]:
    """Returns the reading of each token of each text, without [CLS] and [SEP].

    Raises ModelError if the network cannot give this reading.
    """
    require_reading(loaded, reading)
    from electra.model.passes import map_rows

    tokens = [row.astype(np.int64) for row in loaded.tokenizer.encode_corpus(texts)]
    values, specials = [np.zeros(len(ids)) for ids in tokens], loaded.tokenizer.specials
    windows = list(_windows(tokens, loaded.config.max_positions - 2, specials))
    items = [item for window in windows for item in window.items(reading == "masked")]

    def network(padded: PaddedBatch) -> list[Floats]:
        batch = [items[i] for i in padded.index]
        return (_masked_values if reading == "masked" else _unmasked_values)(loaded, padded, batch, reading)

    rows = (
        window.masked(span, specials.mask) if reading == "masked" else window.ids for window, span in items
    )
    scored = map_rows(rows, network, loaded.device, pad=specials.pad)
    for (window, span), value in zip(items, scored, strict=True):
        values[window.text][span] = value
    return values


@dataclass(frozen=True)
class Window:
    """A part of a text as a network reads it."""

    text: int  # index of the text
    start: int  # index in the text of the window's first token
    ids: Ints  # with [CLS] and [SEP]
    keep: range  # the text's tokens that are scored in this window

    def items(self, masking: bool) -> list[Item]:
        """Returns the window's rows: itself, or one for each token to mask."""
        if masking:
            return [(self, slice(token, token + 1)) for token in self.keep]
        return [(self, slice(self.keep.start, self.keep.stop))]

    def places(self, span: slice) -> slice:
        """Returns where in `ids` a span of the text's tokens is."""
        return slice(span.start - self.start + 1, span.stop - self.start + 1)

    def masked(self, span: slice, mask: int) -> Ints:
        """Returns the ids with those of the span masked."""
        ids = self.ids.copy()
        ids[self.places(span)] = mask
        return ids


Item = tuple[Window, slice]
"""A row of a batch: a window, and which of the text's tokens to score in it."""


def _windows(tokens: Sequence[Ints], size: int, specials: Specials) -> Iterator[Window]:
    for text, ids in enumerate(tokens):
        for start, stop, keep_from, keep_to in overlapping_windows(len(ids), size):
            row = np.concatenate([[specials.cls], ids[start:stop], [specials.sep]])
            yield Window(text, start, row, range(keep_from, keep_to))


def _masked_values(loaded: Loaded, padded: PaddedBatch, batch: Sequence[Item], _: Reading) -> list[Floats]:
    """Returns log p of the masked token in each row. The head, the costliest part, runs only on these."""
    import torch

    positions = np.array([window.places(span).start for window, span in batch])
    targets = np.array([window.ids[position] for (window, _), position in zip(batch, positions, strict=True)])
    states = loaded.encoder(padded.input_ids, document_ids=padded.document_ids)
    chosen = states[np.arange(len(batch)), positions]
    return np.split(_log_probabilities(loaded, chosen, torch.from_numpy(targets)), len(batch))


def _unmasked_values(
    loaded: Loaded, padded: PaddedBatch, batch: Sequence[Item], reading: Reading
) -> list[Floats]:
    """Returns the values of each row's scored tokens from one pass over the unchanged rows."""
    if reading == "unmasked":
        states = loaded.encoder(padded.input_ids, document_ids=padded.document_ids).flatten(0, 1)
        flat = _log_probabilities(loaded, states, padded.input_ids.flatten())
        values = flat.reshape(padded.input_ids.shape)
    else:
        odds = -loaded.logits(padded.input_ids, padded.document_ids).cpu().double().numpy()
        values = _log_sigmoid(odds) if reading == "original" else odds
    return [row[window.places(span)] for row, (window, span) in zip(values, batch, strict=True)]


def _log_sigmoid(odds: Floats) -> Floats:
    return np.asarray(-np.logaddexp(0.0, -odds))


def _log_probabilities(loaded: Loaded, hidden_ND: Tensor, targets_N: Tensor) -> Floats:
    """Returns log p [N] of each target by the generator's head, computed in parts to limit memory."""
    import torch

    parts = []
    for part in in_parts(len(targets_N), loaded.config.vocab_size):
        states, targets = hidden_ND[part], targets_N[part].to(hidden_ND.device)
        logits = loaded.token_logits(states).float()
        parts.append(logits.gather(-1, targets[:, None])[:, 0] - logits.logsumexp(-1))
    log_p: Floats = torch.cat(parts).cpu().double().numpy()
    return log_p


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
    distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    index_of_text = np.array([distinct[text] for text in texts], np.int64)
    jobs = [(model, *job) for model in models for job in _scorers_by_network(model, scorers).items()]
    scores: dict[tuple[str, str], Floats] = {}
    for i, (model, network, names) in enumerate(jobs):
        progress(f"{model.name}, {network}", i / len(jobs))
        scored = sentence_scores(model.network(network), list(distinct), names)
        scores |= {(model.name, name): values[index_of_text] for name, values in scored.items()}
    return scores


def _scorers_by_network(model: Model, scorers: Sequence[str]) -> dict[Network, list[str]]:
    """Returns the scorers to use with each network of the model, at least one in total."""
    usable = {
        network: scorers_for(loaded)
        for network in NETWORK_KINDS
        if (loaded := model.optional(network)) is not None
    }
    if not usable:
        model.network("discriminator")  # raises, saying what the model is instead
    requested = [find_scorer(name).name for name in scorers]
    chosen = {
        network: [name for name in requested or names if name in names] for network, names in usable.items()
    }
    if not any(chosen.values()):
        problem = f"{model.name} has only {' and '.join(usable)}, which none of these scorers uses"
        fix = f"Choose among {', '.join(name for names in usable.values() for name in names)}"
        raise ConfigError(problem, where="scorers", fix=fix)
    return {network: names for network, names in chosen.items() if names}
