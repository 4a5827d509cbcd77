"""What networks say of rows of token ids: the discriminator's log-odds, the generator's predictions where
tokens are hidden.

A row holds the ids of one text without special tokens, no longer than the model reads; it is read between
[CLS] and [SEP]. Only rows of one length go through a network together, so nothing is padded and no row's
numbers depend on its company.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from electra import seeds
from electra.interop.detection import refuse_energies

if TYPE_CHECKING:
    from electra.interop.load import Loaded

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

POSITIONS_AT_ONCE = 4096  # positions in one forward pass
LOGITS_AT_ONCE = 1 << 23  # token logits held at a time


@dataclass(frozen=True)
class Predictions:
    """A generator's say at the chosen positions of one row, in their order."""

    sampled: Ints
    log_sampled: Floats  # log p of the sample
    log_truth: Floats  # log p of the token that stood there
    entropy: Floats  # of its distribution, nats


def log_odds(discriminator: Loaded, rows: Sequence[Ints]) -> list[Floats]:
    """For each token of each row, the log-odds that it was replaced."""
    refuse_energies(discriminator)
    import torch

    found: list[Floats] = [np.zeros(0)] * len(rows)
    for group in batches(rows):
        with torch.inference_mode():
            logits = discriminator.logits(torch.from_numpy(framed(discriminator, [rows[i] for i in group])))
        for index, values in zip(group, logits.double().cpu().numpy(), strict=True):
            found[index] = values[1:-1]
    return found


def predict(
    generator: Loaded,
    rows: Sequence[Ints],
    shown: Sequence[Ints],
    chosen: Sequence[Bools],
    *,
    seed: int = 0,
) -> list[Predictions]:
    """The generator reads `shown` and predicts, and samples, at the `chosen` positions of `rows`. Row i draws
    from its own key.
    """
    import torch

    found: list[Predictions] = [Predictions(np.zeros(0, np.int64), *[np.zeros(0)] * 3)] * len(rows)
    for group in batches(rows):
        places = np.stack([chosen[i] for i in group])
        counts = places.sum(1)
        keys = seeds.keys(seed, "analysis/sample-token", 0, np.asarray(group))
        uniforms = seeds.uniforms(keys, places.shape[1])[places]
        targets = np.stack([rows[i] for i in group])[places]
        with torch.inference_mode():
            ids = torch.from_numpy(framed(generator, [shown[i] for i in group]))
            device = next(generator.encoder.parameters()).device
            hidden = generator.encoder(ids.to(device))[:, 1:-1][torch.from_numpy(places).to(device)]
            parts = _predict(generator, hidden, targets, uniforms)
        split = np.cumsum(counts)[:-1]
        for index, *values in zip(group, *(np.split(part, split) for part in parts), strict=True):
            found[index] = Predictions(*values)
    return found


def uncertainty(
    generator: Loaded, rows: Sequence[Ints], *, fraction: float = 0.15, seed: int = 0
) -> tuple[list[Floats], list[Floats]]:
    """(log p of the token, entropy) at every token of every row, each predicted once while hidden together
    with a share of its row.

    The positions of a row fall at random into 1 / fraction parts, and one part is hidden at a time: the
    generator works under the conditions it was trained in, at the price of a few passes instead of one for
    each token.
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
        for index, found in enumerate(predict(generator, rows, shown, hidden, seed=seed)):
            log_p[index][hidden[index]], entropy[index][hidden[index]] = found.log_truth, found.entropy
    return log_p, entropy


def batches(rows: Sequence[Ints]) -> Iterator[list[int]]:
    """Row numbers in groups of one length, the longest first; empty rows are left out."""
    lengths: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if len(row):
            lengths[len(row)].append(index)
    for length in sorted(lengths, reverse=True):
        size = max(1, POSITIONS_AT_ONCE // (length + 2))
        for start in range(0, len(lengths[length]), size):
            yield lengths[length][start : start + size]


def framed(loaded: Loaded, rows: Sequence[Ints]) -> Ints:
    """[B, T + 2] rows of one length between [CLS] and [SEP]."""
    specials = loaded.tokenizer.specials
    return np.pad(
        np.stack(rows).astype(np.int64),
        ((0, 0), (1, 1)),
        constant_values=((0, 0), (specials.cls, specials.sep)),
    )


def room(*networks: Loaded) -> int:
    """How many tokens all of these networks can read beside [CLS] and [SEP]."""
    return min(loaded.config.max_positions for loaded in networks) - 2


def _predict(
    generator: Loaded, hidden_ND: object, targets: Ints, uniforms: Floats
) -> tuple[Ints, Floats, Floats, Floats]:
    """(samples, their log p, log p of the targets, entropy) at each hidden state, a part of the positions at
    a time.
    """
    import torch

    from electra.objectives.parts.vocabulary import sample

    assert isinstance(hidden_ND, torch.Tensor)
    samples: list[Ints] = [np.zeros(0, np.int64)]
    numbers: list[Floats] = [np.zeros((0, 3))]
    size = max(1, LOGITS_AT_ONCE // generator.config.vocab_size)
    for start in range(0, len(targets), size):
        part = slice(start, start + size)
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
        numbers.append(torch.stack(columns, 1).double().cpu().numpy())
    log_drawn, log_truth, entropy = np.concatenate(numbers).T
    return np.concatenate(samples), log_drawn, log_truth, entropy
