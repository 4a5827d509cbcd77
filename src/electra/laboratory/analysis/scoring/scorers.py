"""Scores of whole sentences and of words: how acceptable, or how likely, a network finds them.

A *reading* is a value that a network gives each token x_t of a sentence x. A *scorer* is a reading and a way
to reduce the values of all tokens to one number.

    original     log P(original) = log sigmoid(-z_t)   discriminator, one pass; z_t: log-odds of replaced
    odds         log-odds of original = -z_t           discriminator, one pass
    masked       log p(x_t | x without t)              generator, a pass for each token: pseudo-log-likelihood
                                                       (Salazar et al. 2020)
    unmasked     log p(x_t | x)                        generator, one pass: cheap but biased, as the network
                                                       sees x_t

The output z_t of an Electric network (Clark et al. 2020b) is its energy, an unnormalised -log p(x_t | the
rest), so `original` is refused as meaningless. A "generator" is any masked language model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy.special import log_expit

from electra.exchange.configs import LOG_ODDS
from electra.foundation.arrays import Floats, Ints
from electra.foundation.errors import ConfigError, ModelError, nearest
from electra.foundation.progress import Progress
from electra.inference.detection import overlapping_windows, tokenize
from electra.laboratory.analysis.scoring.token_rows import in_parts

if TYPE_CHECKING:
    from torch import Tensor

    from electra.data.corpus.tokenizer import Tokenizer
    from electra.exchange.load import Loaded
    from electra.laboratory.analysis.contract import StudiedModel
    from electra.model.passes import PaddedBatch

Network = Literal["discriminator", "generator"]
Reading = Literal["original", "odds", "masked", "unmasked"]

NETWORK_KINDS: tuple[Network, ...] = ("discriminator", "generator")
NETWORKS: dict[Reading, Network] = {
    "original": "discriminator",
    "odds": "discriminator",
    "masked": "generator",
    "unmasked": "generator",
}


class Scorer(NamedTuple):
    """A way to reduce a sentence to one number; higher means more acceptable."""

    reading: Reading
    reduction: Literal["sum", "mean", "min"]
    title: str


SCORERS = {
    "original": Scorer("original", "sum", "sum of log P(original)"),
    "original-mean": Scorer("original", "mean", "mean of log P(original)"),
    "odds": Scorer("odds", "sum", "sum of the log-odds of original"),
    "odds-mean": Scorer("odds", "mean", "mean of the log-odds of original"),
    "margin": Scorer("odds", "min", "the most suspicious token's log-odds of original"),
    "pll": Scorer("masked", "sum", "pseudo-log-likelihood"),
    "pll-mean": Scorer("masked", "mean", "pseudo-log-likelihood per token"),
    "unmasked": Scorer("unmasked", "sum", "log-likelihood in one pass, nothing masked"),
    "unmasked-mean": Scorer("unmasked", "mean", "log-likelihood per token in one pass, nothing masked"),
}


def scorers_for(loaded: Loaded) -> list[str]:
    """Returns the names of all scorers that this network can be used with."""
    return [name for name, scorer in SCORERS.items() if not _obstacle(loaded, scorer.reading)]


def _obstacle(loaded: Loaded, reading: Reading) -> str:
    """Returns why a network cannot give a reading; empty if it can."""
    if loaded.kind != (needed := NETWORKS[reading]):
        return f"this network is of kind {loaded.kind}, but the reading {reading!r} needs a {needed}"
    if reading == "original" and loaded.output != LOG_ODDS:
        return f"the outputs of this model ({loaded.output}) are not log-odds, so it has no P(original)"
    return ""


def find_scorer(name: str) -> Scorer:
    """Returns the scorer of this name; raises ConfigError with a suggestion if there is none."""
    if name not in SCORERS:
        raise ConfigError(f"no scorer named {name!r}", key="scorer", fix=nearest(name, list(SCORERS)))
    return SCORERS[name]


def sentence_scores(loaded: Loaded, texts: Sequence[str], scorers: Sequence[str]) -> dict[str, Floats]:
    """Returns, by scorer, a score for each text (0 without tokens); those of one reading share its passes."""
    chosen = {name: find_scorer(name) for name in scorers}
    values: dict[Reading, list[Floats]] = {}
    for reading in sorted({each.reading for each in chosen.values()}):
        is_same_pass = reading == "original" and "odds" in values and not _obstacle(loaded, reading)
        values[reading] = list(map(log_expit, values["odds"])) if is_same_pass else token_scores(loaded, texts, reading)

    def reduce(tokens: Floats, reduction: str) -> float:
        return float(getattr(tokens, reduction)()) if len(tokens) else 0.0

    return {
        name: np.array([reduce(tokens, each.reduction) for tokens in values[each.reading]])
        for name, each in chosen.items()
    }


class _Row(NamedTuple):
    """A row of a batch, and the tokens to score in it."""

    text: int  # index of the text
    tokens: slice  # the tokens, in the text
    places: Ints  # and in the row
    ids: Ints  # as the network reads the row, with [CLS] and [SEP]
    targets: Ints  # the ids of the tokens


def token_scores(loaded: Loaded, texts: Sequence[str], reading: Reading) -> list[Floats]:
    """Returns the reading of each token of each text, without [CLS] and [SEP]; ModelError if it has none."""
    if obstacle := _obstacle(loaded, reading):
        fix = f"Its scorers are {', '.join(scorers_for(loaded))}" if scorers_for(loaded) else ""
        raise ModelError(obstacle, where=loaded.folder, fix=fix)
    from electra.model.passes import map_rows

    tokens = [row.astype(np.int64) for row in loaded.tokenizer.encode_corpus(texts)]
    rows = [row for text, ids in enumerate(tokens) for row in _rows(loaded, text, ids, reading == "masked")]

    def network(padded: PaddedBatch) -> list[Floats]:
        batch = [rows[i] for i in padded.index]
        lengths, places = [len(row.places) for row in batch], np.concatenate([row.places for row in batch])
        at = np.repeat(np.arange(len(batch)), lengths), places
        if NETWORKS[reading] == "discriminator":
            values = -loaded.logits(padded.input_ids, padded.document_ids).cpu().double().numpy()[at]
        else:  # the head, the costliest part, runs only on the tokens to score
            states = loaded.encoder(padded.input_ids, document_ids=padded.document_ids)[at]
            values = _log_probabilities(loaded, states, np.concatenate([row.targets for row in batch]))
        return np.split(values, np.cumsum(lengths)[:-1])

    values = [np.zeros(len(ids)) for ids in tokens]
    scored = map_rows((row.ids for row in rows), network, loaded.device, pad=loaded.tokenizer.specials.pad)
    for row, value in zip(rows, scored, strict=True):
        values[row.text][row.tokens] = value
    return list(map(log_expit, values)) if reading == "original" else values


def _rows(loaded: Loaded, text: int, ids: Ints, masking: bool) -> Iterator[_Row]:
    """Yields a row for each window of a text, or, if `masking`, for each token, which it masks."""
    specials = loaded.tokenizer.specials
    for start, stop, keep_from, keep_to in overlapping_windows(len(ids), loaded.config.max_positions - 2):
        window = np.concatenate([[specials.cls], ids[start:stop], [specials.sep]])
        kept = range(keep_from, keep_to)
        parts = [range(i, i + 1) for i in kept] if masking else [kept]
        for part in parts:
            row, places = window.copy(), np.array(part, np.int64) - start + 1
            if masking:
                row[places] = specials.mask
            yield _Row(text, slice(part.start, part.stop), places, row, window[places])


def _log_probabilities(loaded: Loaded, hidden_ND: Tensor, targets_N: Ints) -> Floats:
    """Returns log p [N] of each target by the generator's head, computed in parts to limit memory."""
    import torch

    parts = [torch.zeros(0)]
    for part in in_parts(len(targets_N), loaded.config.vocab_size):
        logits = loaded.token_logits(hidden_ND[part]).float()
        targets = torch.from_numpy(targets_N[part]).to(logits.device)
        parts.append((logits.gather(-1, targets[:, None])[:, 0] - logits.logsumexp(-1)).cpu())
    log_p: Floats = torch.cat(parts).double().numpy()
    return log_p


def scores_of(
    models: Sequence[StudiedModel], scorers: Sequence[str], texts: Sequence[str], progress: Progress
) -> dict[tuple[str, str], Floats]:
    """Returns, by (model name, scorer name), a score for each text. Equal texts are scored once.

    Without `scorers`, all that a model's networks allow are used. Raises ConfigError if a scorer is unknown,
    or a model has no network for any of them; ModelError if it has neither a discriminator nor a generator.
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


def _scorers_by_network(model: StudiedModel, scorers: Sequence[str]) -> dict[Network, list[str]]:
    """Returns the scorers to use with each network of the model, at least one in total."""
    networks = {kind: network for kind in NETWORK_KINDS if (network := model.optional(kind)) is not None}
    if not networks:
        model.network("discriminator")  # raises, saying what the model is instead
    usable = {kind: scorers_for(network) for kind, network in networks.items()}
    for name in scorers:
        find_scorer(name)  # raises if there is none
    chosen = {kind: [name for name in scorers or names if name in names] for kind, names in usable.items()}
    if not any(chosen.values()):
        problem = f"{model.name} has only {' and '.join(usable)}, which none of these scorers uses"
        fix = f"Choose among {', '.join(name for names in usable.values() for name in names)}"
        raise ConfigError(problem, where="scorers", fix=fix)
    return {kind: names for kind, names in chosen.items() if names}


def word_ids(tokenizer: Tokenizer, words: Sequence[str]) -> Ints:
    """Returns the index of each token's word, for words joined by spaces."""
    return word_ids_at(words, tokenize(tokenizer, " ".join(words)).offsets)


def word_ids_at(words: Sequence[str], offsets: Iterable[tuple[int, int]]) -> Ints:
    """Returns the index of each token's word, from the tokens' offsets in the words joined by spaces.

    A token belongs to the word with its last character: some tokenizers let a token begin with a space.
    """
    ends = np.cumsum([len(word) + 1 for word in words])
    last_character = np.array([max(end - 1, 0) for _, end in offsets], np.int64)
    return np.searchsorted(ends, last_character, side="right").astype(np.int64)


def word_suspicion(loaded: Loaded, texts: Sequence[Sequence[str]], reading: Reading) -> list[Floats]:
    """Returns, for each sentence given as words, the suspicion [words] of each word's most suspicious token.

    The suspicion of a token is its reading, negated: odds become log-odds of "replaced", log p becomes
    surprisal. A word without tokens gets NaN. Raises ModelError if the network cannot give this reading.
    """
    per_token = token_scores(loaded, [" ".join(words) for words in texts], reading)
    suspicions = []
    for words, values in zip(texts, per_token, strict=True):
        ids, by_word = word_ids(loaded.tokenizer, words), np.full(len(words), np.nan)
        assert len(ids) == len(values), "the two tokenisations differ"
        np.fmax.at(by_word, ids, -values)
        suspicions.append(by_word)
    return suspicions
