"""A custom objective: which tokens have changed places?

    electra pretrain --objective.name examples/shuffled_tokens.py --corpus texts/ --out runs/shuffled \\
        --budget 30m
    electra pretrain --objective.name examples/shuffled_tokens.py --help    # lists the options below

In every row some tokens trade places. A network reads the row and predicts, at every position, whether the
token is original. No generator is trained. Only word order helps, because every wrong token comes from
elsewhere in the same row.

The file of an objective defines a frozen dataclass `Config`, whose fields are its options, and a class
`Objective`. `tests/examples/test_example_files.py` shows how to run electra's own tests on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from electra.data.corpus.batches import Batch
from electra.foundation.errors import ConfigError
from electra.model.pair import Discriminator, Pair
from electra.objectives.parts import interface, masking
from electra.objectives.parts.detector_output import detect
from electra.objectives.parts.interface import CorruptedBatch, Outcome


@dataclass(frozen=True)
class Config:
    """Options of the objective."""

    mask_fraction: float = 0.15
    """Fraction of each row's non-special tokens that trade places."""
    final_mask_fraction: float | None = None
    """Fraction at the end of training, if it changes linearly (default: constant)."""
    reach: float | None = None
    """About how many of the chosen places a token may move, to test local order (default: any)."""

    def __post_init__(self) -> None:
        if self.reach is not None and self.reach <= 0:
            raise ConfigError(f"must be above 0, not {self.reach}", where="objective.reach")


class Objective(interface.Objective):
    """Binary cross-entropy over all real tokens.

    Departures from the source: the network is trained from scratch rather than refined from a masked language
    model, and a token that lands where the same token was counts as original.
    """

    auxiliary = False  # the discriminator is trained alone
    source = "Panda et al. 2021, Shuffled-token Detection for Refining Pre-trained RoBERTa"
    config: Config

    @property
    def weights(self) -> dict[str, float]:
        return {"shuffled": 1.0}  # total loss = sum over names of weight * summed loss / count

    def corrupt(self, batch: Batch, seed: int, progress: float) -> CorruptedBatch:
        """Draws all random numbers on the host, from keys of the examples.

        So the result does not depend on how a batch is divided over processes, and is the same in a resumed
        run.
        """
        fraction = masking.scheduled(self.config.mask_fraction, self.config.final_mask_fraction, progress)
        masked = masking.mask_batch(
            self,
            batch,
            seed,
            fraction=fraction,
            counted={"shuffled": False},  # one term for every real token
        )
        shuffled = masked.input_ids.flatten().clone()
        shuffled[masked.masked_positions] = masked.targets[self._order(masked, batch.input_ids.shape[1])]
        return replace(masked, masked_ids=shuffled.view_as(masked.input_ids))

    def _order(self, masked: CorruptedBatch, length: int) -> torch.Tensor:
        """Returns, for each chosen place [M], the index of the place in its row that gives its new token."""
        rows, places = masked.masked_positions.numpy() // length, np.arange(len(masked.targets))
        draws, reach = masked.uniforms.numpy(), self.config.reach
        return torch.from_numpy(np.lexsort((draws if reach is None else places + reach * draws, rows)))

    def forward(self, pair: Pair, corrupted: CorruptedBatch) -> Outcome:
        """Returns losses as sums; the counts that divide them come with the batch."""
        assert isinstance(pair.main, Discriminator)
        detection = detect(pair.main, corrupted, corrupted.masked_ids)
        return Outcome({"shuffled": detection.loss()}, detection.observed())
