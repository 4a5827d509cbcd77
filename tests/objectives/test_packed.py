"""Documents that share a row train as if each had a row of its own, for every objective and encoder."""

import dataclasses
from typing import Any

import pytest
import torch

from electra.foundation.extensions import OBJECTIVES
from electra.testing import toy


def apart(part: Any) -> Any:
    """The same corrupted tokens, each document in a row of its own that is filled up with padding."""
    B, T = part.input_ids.shape
    numbered = torch.stack([torch.arange(B)[:, None].expand(B, T), part.document_ids], -1).flatten(0, 1)
    rows = [(row, document) for row, document in numbered.unique(dim=0).tolist() if document >= 0]
    alone = {name: torch.full((len(rows), T), toy.SPECIALS.pad) for name in ("input_ids", "masked_ids")}
    document_ids, moved = torch.full((len(rows), T), -1), torch.full((B, T), -1)
    for number, (row, document) in enumerate(rows):
        columns = (part.document_ids[row] == document).nonzero().flatten()
        for name, ids in alone.items():
            ids[number, : len(columns)] = getattr(part, name)[row, columns]
        document_ids[number, : len(columns)] = 0
        moved[row, columns] = number * T + torch.arange(len(columns))
    places = moved.flatten()[part.masked_positions]
    if hasattr(part, "mlm_rows"):
        alone["mlm_rows"] = part.mlm_rows[[row for row, _ in rows]]
    return dataclasses.replace(part, **alone, masked_positions=places, document_ids=document_ids, position_ids=None)


@pytest.mark.parametrize("encoder", ["electra", "modern"])
@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_documents_in_one_row_do_not_see_each_other(name: str, encoder: str) -> None:
    objective = toy.objective(name)
    pair = toy.pair_for(objective, architecture=encoder).double()
    part = objective.corrupt(toy.batches().batch(0, 8), 3, 0.0)
    assert part.document_ids is not None and int(part.document_ids.max()) >= 1, "rows of several documents"
    together, alone = objective.forward(pair, part), objective.forward(pair, apart(part))
    for loss, value in together.losses.items():
        assert float(alone.losses[loss].detach()) == pytest.approx(float(value.detach()), rel=1e-6), loss
