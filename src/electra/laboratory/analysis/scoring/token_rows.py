"""Network outputs for rows of token ids: the discriminator's log-odds and the generator's predictions.

A row holds the ids of one text without special tokens, no longer than the model reads; it is read between
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


LOGITS_AT_ONCE = 1 << 23  # token logits in memory at a time: positions times vocabulary


@dataclass(frozen=True)
class Predictions:
    """A generator's predictions at the chosen positions of one row, in their order."""

    sampled: Ints
    log_sampled: Floats  # log p of the sample
    log_truth: Floats  # log p of the original token
    entropy: Floats  # entropy of the predicted distribution, in nats


def log_odds(discriminator: Loaded, rows: Sequence[Ints]) -> list[Floats]:
    """For each row, the log-odds [tokens] that each token was replaced."""
    require_log_odds(discriminator)
    from electra.model.passes import map_rows

    def log_odds_of_batch(batch: PaddedBatch) -> list[Floats]:
        return batch.unpadded(to_float64(discriminator.logits(batch.input_ids, batch.piece_ids)))

    pad = discriminator.tokenizer.specials.pad
    return [
        values[1:-1]
        for values in map_rows(framed(discriminator, rows), log_odds_of_batch, discriminator.device, pad=pad)
    ]


def predict(
    generator: Loaded,
    rows: Sequence[Ints],
    shown: Sequence[Ints],
    chosen: Sequence[Bools],
    *,
    seed: int = 0,
) -> list[Predictions]:
    """Let the generator read `shown`, and predict and sample at the `chosen` positions.

    Args:
        generator: The generator or masked language model.
        rows: The original rows.
        shown: The rows as the generator reads them.
        chosen: Masks of the positions to predict.
        seed: Seed of the samples; every row has its own key.
    """
    from electra.model.passes import map_rows

    keys = seeds.keys(seed, "analysis/sample-token", 0, np.arange(len(rows)))

    def predict_batch(batch: PaddedBatch) -> list[Predictions]:
        places = [np.flatnonzero(chosen[i]) for i in batch.index]
        lines = np.repeat(np.arange(len(places)), [len(row) for row in places])
        uniforms = [seeds.uniforms(keys[i], len(rows[i]))[chosen[i]] for i in batch.index]
        targets = np.concatenate([rows[i][chosen[i]] for i in batch.index]).astype(np.int64)
        states = generator.encoder(batch.input_ids, piece_ids=batch.piece_ids)
        parts = _predict(
            generator, states[lines, np.concatenate(places) + 1], targets, np.concatenate(uniforms)
        )
        split = np.cumsum([len(row) for row in places])[:-1]
        return [
            Predictions(*values) for values in zip(*(np.split(part, split) for part in parts), strict=True)
        ]

    pad = generator.tokenizer.specials.pad
    return list(map_rows(framed(generator, shown), predict_batch, generator.device, pad=pad))


def uncertainty(
    generator: Loaded, rows: Sequence[Ints], *, fraction: float = 0.15, seed: int = 0
) -> tuple[list[Floats], list[Floats]]:
    """(log p of the token, entropy) at every token of every row, each predicted while masked.

    The positions of a row fall at random into 1 / fraction parts, and one part is masked at a time. So the
    generator works under the conditions of its training, in a few passes instead of one for each token.
    """
    parts = max(2, round(1 / fraction))
    keys = seeds.keys(seed, "analysis/folds", 0, np.arange(len(rows)))
    fold = [
        np.argsort(seeds.uniforms(key, len(row)), kind="stable") % parts
        for key, row in zip(keys, rows, strict=True)
    ]
    log_p, entropy = [np.zeros(len(row)) for row in rows], [np.zeros(len(row)) for row in rows]
    for part in range(parts):
        hidden = [members == part for members in fold]
        shown = [
            np.where(where, generator.tokenizer.specials.mask, row)
            for where, row in zip(hidden, rows, strict=True)
        ]
        for index, predictions in enumerate(predict(generator, rows, shown, hidden, seed=seed)):
            log_p[index][hidden[index]], entropy[index][hidden[index]] = (
                predictions.log_truth,
                predictions.entropy,
            )
    return log_p, entropy


def framed(loaded: Loaded, rows: Sequence[Ints]) -> Iterator[Ints]:
    """Each row between [CLS] and [SEP]."""
    specials = loaded.tokenizer.specials
    return (np.concatenate([[specials.cls], row, [specials.sep]]).astype(np.int64) for row in rows)


def in_parts(count: int, vocab_size: int) -> Iterator[slice]:
    """Slices of the positions 0 to `count`, each as large as the memory for its logits allows."""
    size = max(1, LOGITS_AT_ONCE // vocab_size)
    return (slice(start, start + size) for start in range(0, count, size))


def max_row_length(*networks: Loaded) -> int:
    """How many tokens all of these networks can read, besides [CLS] and [SEP]."""
    return min(loaded.config.max_positions for loaded in networks) - 2


def _predict(
    generator: Loaded, hidden_ND: Tensor, targets: Ints, uniforms: Floats
) -> tuple[Ints, Floats, Floats, Floats]:
    """(samples, their log p, log p of the targets, entropy) at each hidden state, in parts."""
    import torch

    from electra.objectives.parts.vocabulary import sample

    samples: list[Ints] = [np.zeros(0, np.int64)]
    numbers: list[Floats] = [np.zeros((0, 3))]
    for part in in_parts(len(targets), generator.config.vocab_size):
        logits = generator.token_logits(hidden_ND[part]).float()
        log_p = logits.log_softmax(-1)
        p = log_p.exp()
        drawn = sample(p, torch.from_numpy(uniforms[part]).to(p.device))
        truth = torch.from_numpy(targets[part]).to(p.device)
        columns = (
            log_p.gather(1, drawn[:, None])[:, 0],
            log_p.gather(1, truth[:, None])[:, 0],
            -(p * log_p).sum(-1),
        )
        samples.append(drawn.cpu().numpy())
        numbers.append(torch.stack(columns, 1).cpu().double().numpy())
    log_drawn, log_truth, entropy = np.concatenate(numbers).T
    return np.concatenate(samples), log_drawn, log_truth, entropy
