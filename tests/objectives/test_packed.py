"""Documents that share a row train as if each had a row of its own, for every objective and encoder."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from electra import objectives
from electra.testing import toy


def apart(part: Any) -> Any:
    """The same corrupted tokens, each piece in a row of its own that is filled up with padding."""
    B, T = part.input_ids.shape
    rows = [(row, piece) for row in range(B) for piece in part.piece_ids[row].unique().tolist() if piece >= 0]
    alone = {name: torch.full((len(rows), T), toy.SPECIALS.pad) for name in ("input_ids", "masked_ids")}
    pieces, moved = torch.full((len(rows), T), -1), torch.full((B, T), -1)
    for number, (row, piece) in enumerate(rows):
        columns = (part.piece_ids[row] == piece).nonzero().flatten()
        for name, ids in alone.items():
            ids[number, : len(columns)] = getattr(part, name)[row, columns]
        pieces[number, : len(columns)] = 0
        moved[row, columns] = number * T + torch.arange(len(columns))
    places = moved.flatten()[part.masked_positions]
    if hasattr(part, "mlm_rows"):
        alone["mlm_rows"] = part.mlm_rows[[row for row, _ in rows]]
    return dataclasses.replace(part, **alone, masked_positions=places, piece_ids=pieces, position_ids=None)


@pytest.mark.parametrize("encoder", ["electra", "modern"])
@pytest.mark.parametrize("name", objectives.names())
def test_documents_in_one_row_do_not_see_each_other(name: str, encoder: str) -> None:
    objective = toy.objective(name)
    pair = toy.pair_for(objective, architecture=encoder).double()
    part = objective.corrupt(toy.batches().batch(0, 8), 3, 0.0)
    assert part.piece_ids is not None and int(part.piece_ids.max()) >= 1, "rows of several documents"
    together, alone = objective.forward(pair, part), objective.forward(pair, apart(part))
    for loss, value in together.losses.items():
        assert float(alone.losses[loss].detach()) == pytest.approx(float(value.detach()), rel=1e-6), loss


@pytest.mark.parametrize("name", objectives.names())
def test_a_row_of_one_document_needs_neither_mask_nor_positions(name: str) -> None:
    objective = toy.objective(name)
    pair = toy.pair_for(objective).double()
    batch = toy.batches().batch(0, 8)
    whole = [row for row in range(8) if (batch.piece_ids[row] == 0).all()]
    assert whole, "a document that fills a row"
    row = slice(whole[0], whole[0] + 1)
    part = objective.corrupt(toy.batches().batch(0, 8, row.start, row.stop), 3, 0.0)
    assert part.piece_ids is None and part.position_ids is None
    said = dataclasses.replace(
        part, piece_ids=torch.zeros_like(part.input_ids), position_ids=torch.arange(16)[None]
    )
    for loss, value in objective.forward(pair, part).losses.items():
        assert float(objective.forward(pair, said).losses[loss].detach()) == pytest.approx(
            float(value.detach()), rel=1e-6
        )
