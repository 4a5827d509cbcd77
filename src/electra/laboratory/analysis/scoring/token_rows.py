"""Rows of token ids: the discriminator's log-odds, and tokens replaced at known positions.

A row holds the ids of one text without special tokens, no more than the model can read. It is read between
[CLS] and [SEP]. Tokens are replaced by a generator's samples, as in training (Clark et al. 2020, section
3.1), or by random tokens. As in the paper, a token counts as replaced if it differs from the original; a
sample that equals the original counts as original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from electra.foundation import seeds
from electra.foundation.arrays import Bools, Floats, Ints
from electra.inference.detection import require_log_odds
from electra.model.precision import to_float64
from electra.objectives.parts.masking import choose

if TYPE_CHECKING:
    from torch import Tensor

    from electra.exchange.load import Loaded
    from electra.model.passes import PaddedBatch


# The paper's shares: tokens that are resampled, and those of them that the generator reads as [MASK].
FRACTION, MASK_SHARE = 0.15, 0.85
LOGITS_AT_ONCE = 1 << 23  # maximum token logits in memory at a time: positions times vocabulary


@dataclass(frozen=True)
class Corrupted:
    """Rows of ids with tokens replaced. All lists have one array [tokens] for each row."""

    rows: list[Ints]
    replaced: list[Bools]
    advantage: list[Floats]  # log p(sample) - log p(original) by the generator that sampled; NaN elsewhere

    @property
    def row_of_token(self) -> Ints:
        """The index of each token's row, over the tokens of all rows."""
        return np.repeat(np.arange(len(self.rows)), [len(row) for row in self.rows])


def log_odds(discriminator: Loaded, rows: Sequence[Ints]) -> list[Floats]:
    """Returns, for each row, the log-odds [tokens] that each token was replaced; ModelError for energies."""
    require_log_odds(discriminator)
    from electra.model.passes import map_rows

    def log_odds_of_batch(batch: PaddedBatch) -> list[Floats]:
        return batch.unpadded(to_float64(discriminator.logits(batch.input_ids, batch.document_ids)))

    framed, pad = with_special_tokens(discriminator, rows), discriminator.tokenizer.specials.pad
    return [values[1:-1] for values in map_rows(framed, log_odds_of_batch, discriminator.device, pad=pad)]


def predict(
    generator: Loaded, rows: Sequence[Ints], shown: Sequence[Ints], chosen: Sequence[Bools], *, seed: int = 0
) -> list[tuple[Ints, Floats, Floats]]:
    """Samples tokens of `rows` at the `chosen` positions (a mask [tokens] for each row).

    Returns, for each row, the samples, their log p and that of the original tokens. The generator reads the
    rows as `shown`. Every row has a key of its own, made from `seed`.
    """
    from electra.model.passes import map_rows

    keys = seeds.keys(seed, "analysis/sample-token", 0, np.arange(len(rows)))

    def predict_batch(batch: PaddedBatch) -> list[tuple[Ints, Floats, Floats]]:
        positions = [np.flatnonzero(chosen[i]) for i in batch.index]
        batch_index = np.repeat(np.arange(len(positions)), [len(row) for row in positions])
        uniforms = [seeds.uniforms(keys[i], len(rows[i]))[chosen[i]] for i in batch.index]
        targets = np.concatenate([rows[i][chosen[i]] for i in batch.index]).astype(np.int64)
        states = generator.encoder(batch.input_ids, document_ids=batch.document_ids)
        hidden_ND = states[batch_index, np.concatenate(positions) + 1]
        columns = _predict(generator, hidden_ND, targets, np.concatenate(uniforms))
        ends = np.cumsum([len(row) for row in positions])[:-1]
        return list(zip(*(np.split(column, ends) for column in columns), strict=True))

    pad = generator.tokenizer.specials.pad
    return list(map_rows(with_special_tokens(generator, shown), predict_batch, generator.device, pad=pad))


def choose_positions(rows: Sequence[Ints], fraction: float, seed: int) -> list[Bools]:
    """Returns masks of a share of each row's positions (at least one), chosen as in training."""
    keys = seeds.keys(seed, "analysis/mask", 0, np.arange(len(rows)))
    return [
        choose(np.zeros((1, len(row)), bool), seeds.uniforms(key, len(row))[None], fraction)[0]
        for key, row in zip(keys, rows, strict=True)
    ]


def by_generator(generator: Loaded, rows: Sequence[Ints], *, fraction: float = FRACTION, seed: int = 0) -> Corrupted:
    """Returns the rows with a random share of their tokens replaced by the generator's samples."""
    chosen_masks = choose_positions(rows, fraction, seed)
    keys = seeds.keys(seed, "analysis/hide", 0, np.arange(len(rows)))
    mask = generator.tokenizer.specials.mask
    shown_rows = [
        np.where(is_chosen & (seeds.uniforms(key, len(row)) < MASK_SHARE), mask, row)
        for key, row, is_chosen in zip(keys, rows, chosen_masks, strict=True)
    ]
    predictions = predict(generator, rows, shown_rows, chosen_masks, seed=seed)
    new_rows, advantage = [row.copy() for row in rows], [np.full(len(row), np.nan) for row in rows]
    for row, gain, is_chosen, predicted in zip(new_rows, advantage, chosen_masks, predictions, strict=True):
        row[is_chosen], log_sampled, log_truth = predicted
        gain[is_chosen] = log_sampled - log_truth
    return Corrupted(new_rows, [a != b for a, b in zip(new_rows, rows, strict=True)], advantage)


def by_frequency(rows: Sequence[Ints], frequency: Floats, *, fraction: float = FRACTION, seed: int = 0) -> Corrupted:
    """Returns the rows with a share of their tokens replaced by draws in proportion to `frequency` [V]."""
    cumulative = np.cumsum(frequency)
    keys = seeds.keys(seed, "analysis/draw", 0, np.arange(len(rows)))
    new_rows = []
    for key, row, is_chosen in zip(keys, rows, choose_positions(rows, fraction, seed), strict=True):
        drawn_ids = np.searchsorted(cumulative, seeds.uniforms(key, len(row)) * cumulative[-1], side="right")
        new_rows.append(np.where(is_chosen, drawn_ids, row))
    replaced = [a != b for a, b in zip(new_rows, rows, strict=True)]
    return Corrupted(new_rows, replaced, [np.full(len(row), np.nan) for row in rows])


def with_special_tokens(loaded: Loaded, rows: Sequence[Ints]) -> Iterator[Ints]:
    """Yields each row between [CLS] and [SEP]."""
    specials = loaded.tokenizer.specials
    return (np.concatenate([[specials.cls], row, [specials.sep]]).astype(np.int64) for row in rows)


def in_parts(count: int, vocab_size: int) -> Iterator[slice]:
    """Yields slices of the positions below `count`, each as large as `LOGITS_AT_ONCE` allows."""
    size = max(1, LOGITS_AT_ONCE // vocab_size)
    return (slice(start, start + size) for start in range(0, count, size))


def max_row_length(*networks: Loaded) -> int:
    """Returns how many tokens all of these networks can read in addition to [CLS] and [SEP]."""
    return min(loaded.config.max_positions for loaded in networks) - 2


def _predict(generator: Loaded, hidden_ND: Tensor, targets: Ints, uniforms: Floats) -> tuple[Ints, Floats, Floats]:
    import torch

    from electra.objectives.parts.vocabulary import sample

    samples: list[Ints] = [np.zeros(0, np.int64)]
    numbers: list[Floats] = [np.zeros((0, 2))]
    for part in in_parts(len(targets), generator.config.vocab_size):
        logits = generator.token_logits(hidden_ND[part]).float()
        log_p = logits.log_softmax(-1)
        p = log_p.exp()
        drawn_ids = sample(p, torch.from_numpy(uniforms[part]).to(p.device))
        target_ids = torch.from_numpy(targets[part]).to(p.device)
        samples.append(drawn_ids.cpu().numpy())
        numbers.append(log_p.gather(1, torch.stack([drawn_ids, target_ids], 1)).cpu().double().numpy())
    log_drawn, log_truth = np.concatenate(numbers).T
    return np.concatenate(samples), log_drawn, log_truth
