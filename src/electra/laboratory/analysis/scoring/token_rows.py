"""Network outputs for rows of token ids: the discriminator's log-odds and the generator's predictions.

A row holds the ids of one text without special tokens, no more than the model can read. It is read between
[CLS] and [SEP].
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

if TYPE_CHECKING:
    from torch import Tensor

    from electra.exchange.load import Loaded
    from electra.model.passes import PaddedBatch


LOGITS_AT_ONCE = 1 << 23  # maximum token logits in memory at a time: positions times vocabulary


@dataclass(frozen=True)
class Predictions:
    """A generator's predictions at the chosen positions of one row, in order."""

    sampled: Ints
    log_sampled: Floats  # log p of the sample
    log_truth: Floats  # log p of the original token


def log_odds(discriminator: Loaded, rows: Sequence[Ints]) -> list[Floats]:
    """Returns, for each row, the log-odds [tokens] that each token was replaced.

    Raises:
        ModelError: The discriminator's outputs are energies, not log-odds.
    """
    require_log_odds(discriminator)
    from electra.model.passes import map_rows

    def log_odds_of_batch(batch: PaddedBatch) -> list[Floats]:
        return batch.unpadded(to_float64(discriminator.logits(batch.input_ids, batch.document_ids)))

    pad = discriminator.tokenizer.specials.pad
    return [
        values[1:-1]
        for values in map_rows(
            with_special_tokens(discriminator, rows), log_odds_of_batch, discriminator.device, pad=pad
        )
    ]


def predict(
    generator: Loaded,
    rows: Sequence[Ints],
    shown: Sequence[Ints],
    chosen: Sequence[Bools],
    *,
    seed: int = 0,
) -> list[Predictions]:
    """Predicts and samples tokens at the `chosen` positions of rows that the generator reads as `shown`.

    Args:
        generator: The generator or masked language model.
        rows: The original rows.
        shown: The rows as the generator reads them.
        chosen: For each row, a mask [tokens] of the positions to predict.
        seed: Seed of the samples; every row has its own key.
    """
    from electra.model.passes import map_rows

    keys = seeds.keys(seed, "analysis/sample-token", 0, np.arange(len(rows)))

    def predict_batch(batch: PaddedBatch) -> list[Predictions]:
        positions = [np.flatnonzero(chosen[i]) for i in batch.index]
        batch_index = np.repeat(np.arange(len(positions)), [len(row) for row in positions])
        uniforms = [seeds.uniforms(keys[i], len(rows[i]))[chosen[i]] for i in batch.index]
        targets = np.concatenate([rows[i][chosen[i]] for i in batch.index]).astype(np.int64)
        states = generator.encoder(batch.input_ids, document_ids=batch.document_ids)
        hidden_ND = states[batch_index, np.concatenate(positions) + 1]
        columns = _predict(generator, hidden_ND, targets, np.concatenate(uniforms))
        ends = np.cumsum([len(row) for row in positions])[:-1]
        by_row = zip(*(np.split(column, ends) for column in columns), strict=True)
        return [Predictions(*values) for values in by_row]

    pad = generator.tokenizer.specials.pad
    return list(map_rows(with_special_tokens(generator, shown), predict_batch, generator.device, pad=pad))


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


def _predict(
    generator: Loaded, hidden_ND: Tensor, targets: Ints, uniforms: Floats
) -> tuple[Ints, Floats, Floats]:
    """Returns samples, their log p and log p of the targets at each hidden state."""
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
        columns = (
            log_p.gather(1, drawn_ids[:, None])[:, 0],
            log_p.gather(1, target_ids[:, None])[:, 0],
        )
        samples.append(drawn_ids.cpu().numpy())
        numbers.append(torch.stack(columns, 1).cpu().double().numpy())
    log_drawn, log_truth = np.concatenate(numbers).T
    return np.concatenate(samples), log_drawn, log_truth
