"""Attention head by head: what each gives in each row, and the table of a measure for each.

Shapes: L layers, H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from electra.foundation.arrays import Floats
from electra.foundation.progress import Share
from electra.laboratory.analysis.contract import Findings, Table
from electra.model import hidden
from electra.model.encoder import Encoder
from electra.model.passes import padded_batches

HEAD = "layer.head"


def weights(
    encoder: Encoder, rows: Sequence[hidden.Row], progress: Share
) -> Iterator[tuple[int, int, Floats]]:
    """(row, layer, its attention weights [H, T, T]) of all rows and layers; T is the row's own length,
    without what filled its batch up.
    """
    done = 0
    for one in padded_batches((row.ids for row in rows), next(encoder.parameters()).device):
        with torch.inference_mode():  # not around the yield: the mode would reach the caller
            layers = hidden.attention_weights(encoder, one.input_ids, one.piece_ids)
        for layer, weights_BHTT in enumerate(layers):
            for line, (i, size) in enumerate(zip(one.index, one.lengths, strict=True)):
                yield int(i), layer, weights_BHTT[line, :, :size, :size].cpu().double().numpy()
        done += len(one.index)
        progress(done / len(rows))


def show(findings: Findings, columns: Mapping[str, Floats]) -> None:
    """A row for each head, of [L, H] values. Encoders of other sizes leave cells empty."""
    sizes = zip(*(values.shape for values in columns.values()), strict=True)
    for layer, head in np.ndindex(*map(max, sizes)):
        for name, values in columns.items():
            there = layer < len(values) and head < len(values[0])
            at = {"measure": name, HEAD: f"{layer + 1}.{head + 1}"}
            findings.add(float(values[layer, head]) if there else None, **at)
    findings.tables.append(Table("Each head", (HEAD,)))
