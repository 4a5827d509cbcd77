"""Attention weights head by head, and a table with one row for each head.

Shapes: L layers, H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from electra.foundation.arrays import Floats
from electra.foundation.progress import Share
from electra.laboratory.analysis.contract import Findings
from electra.model import hidden
from electra.model.encoder import Encoder
from electra.model.passes import padded_batches

HEAD = "layer.head"


def weights(
    encoder: Encoder, rows: Sequence[hidden.Row], progress: Share
) -> Iterator[tuple[int, int, Floats]]:
    """Yields (row index, layer index from 0, weights [H, T, T]) for all rows and layers.

    Rows are read in batches of similar length, so they are not in order. T is the row's own length, without
    padding.
    """
    num_done = 0
    for batch in padded_batches((row.ids for row in rows), next(encoder.parameters()).device):
        with torch.inference_mode():  # not around the yield, which would put the caller in this mode
            layers = hidden.attention_weights(encoder, batch.input_ids, batch.document_ids)
        for layer, weights_BHTT in enumerate(layers):
            for b, (row, length) in enumerate(zip(batch.index, batch.lengths, strict=True)):
                yield int(row), layer, weights_BHTT[b, :, :length, :length].cpu().double().numpy()
        num_done += len(batch.index)
        progress(num_done / len(rows))


def add_heads(findings: Findings, columns: Mapping[str, Floats]) -> None:
    """Adds a table with a row for each head.

    Args:
        findings: Receives the numbers and the table.
        columns: Values [L, H] by column heading, one column per encoder and condition. Cells are empty where
            an encoder lacks that layer or head.
    """
    sizes = zip(*(values.shape for values in columns.values()), strict=True)
    for layer, head in np.ndindex(*map(max, sizes)):
        for name, values in columns.items():
            exists = layer < len(values) and head < len(values[0])
            at = {"measure": name, HEAD: f"{layer + 1}.{head + 1}"}
            findings.add(float(values[layer, head]) if exists else None, **at)
    findings.table("Each head", HEAD)
