"""Choosing the positions to mask, and what stands there instead (paper section 3.1; BERT's split between mask, random and kept).

Departure from the published code: positions are drawn without replacement, so exactly the asked share is masked, and never a
special token. Everything here is numpy on the host, drawn from keys of the examples: nothing depends on batch layout or device.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from electra import seeds
from electra.data.batches import Batch
from electra.objectives.parts.interface import Corrupted


def scheduled(start: float, final: float | None, progress: float) -> float:
    """A rate that moves linearly from `start` to `final` (None: stays)."""
    return start if final is None else start + (final - start) * min(max(progress, 0.0), 1.0)


def choose(special: npt.NDArray[np.bool_], uniforms: npt.NDArray[np.float64], fraction: float) -> npt.NDArray[np.bool_]:
    """Mark round(fraction x candidates) positions of each row, at least one where there is a candidate. Shapes [B, T]."""
    num_candidates = (~special).sum(axis=1)
    num_masked = np.minimum(np.maximum(np.rint(num_candidates * fraction).astype(np.int64), 1), num_candidates)
    order = np.argsort(np.where(special, 2.0, uniforms), axis=1, kind="stable")
    chosen = np.zeros_like(special)
    np.put_along_axis(chosen, order, np.arange(special.shape[1]) < num_masked[:, None], axis=1)
    return chosen


def mask_batch(
    batch: Batch,
    seed: int,
    *,
    fraction: float,
    mask_share: float,
    random_share: float,
    mask_id: int,
    vocab_size: int,
    special_ids: list[int],
    counted: dict[str, bool],
) -> Corrupted:
    """Corrupt a batch for a masked language model.

    Of the chosen positions, `mask_share` show [MASK], `random_share` a uniformly random ordinary token, the rest what they are.
    `counted` names the losses: True for one term a masked slot, False for one term a real token.
    """
    T = batch.input_ids.shape[1]
    uniforms = seeds.uniforms(seeds.keys(seed, "mask", 0, batch.examples), 2 * T)
    chosen = choose(batch.special, uniforms[:, :T], fraction)
    kind = uniforms[:, T:]
    masked_ids = np.where(chosen & (kind < mask_share), mask_id, batch.input_ids)
    if random_share > 0:
        ordinary = np.setdiff1d(np.arange(vocab_size), special_ids)
        draws = seeds.uniforms(seeds.keys(seed, "random-token", 0, batch.examples), T)
        random_ids = ordinary[(draws * len(ordinary)).astype(np.int64)]
        masked_ids = np.where(chosen & (kind >= mask_share) & (kind < mask_share + random_share), random_ids, masked_ids)
    positions = np.flatnonzero(chosen)
    sample_uniforms = seeds.uniforms(seeds.keys(seed, "sample", 0, batch.examples), T)
    num_real = int((batch.piece_ids >= 0).sum())
    return Corrupted(
        input_ids=torch.from_numpy(batch.input_ids),
        masked_ids=torch.from_numpy(masked_ids),
        masked_positions=torch.from_numpy(positions),
        targets=torch.from_numpy(batch.input_ids.reshape(-1)[positions]),
        uniforms=torch.from_numpy(sample_uniforms.reshape(-1)[positions]),
        position_ids=torch.from_numpy(batch.position_ids) if batch.packed else None,
        piece_ids=torch.from_numpy(batch.piece_ids) if batch.packed else None,
        counts={name: len(positions) if at_masked else num_real for name, at_masked in counted.items()},
    )
