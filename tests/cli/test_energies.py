"""An Electric network is marked as one wherever it is kept, so that its energies are never read as odds of
replacement.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import electra
from electra.commands.parts.train import finish
from electra.data.store import TokenStore
from electra.exchange.load import load
from electra.foundation.errors import ModelError
from electra.foundation.extensions import trust
from electra.foundation.signals import StopRequest
from electra.inference.detection import detect
from electra.laboratory.analysis.scoring.scorers import token_scores
from electra.laboratory.analysis.scoring.token_rows import log_odds
from electra.testing import toy
from electra.training import loop
from electra.training.distributed import World
from electra.training.start import start

ELECTRIC = Path(__file__).parents[2] / "examples" / "electric.py"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, toy_store: Path) -> Path:
    folder = tmp_path_factory.mktemp("electric") / "run"
    store = TokenStore.open(toy_store)
    trust(ELECTRIC)
    recipe = toy.recipe(objective={"name": str(ELECTRIC)}, training={"steps": 3})
    with (
        pytest.MonkeyPatch.context() as patch,
        start(recipe, folder, store, World()) as run,
        StopRequest() as stop,
    ):
        patch.setattr("electra.pages.figures.missing", lambda: "written without figures")
        assert loop.train(run, stop)
        store.tokenizer.save(folder / "tokenizer")
        finish(run)
    return folder


def test_detect_refuses_it_and_scoring_does_not(run_folder: Path) -> None:
    loaded, generator = electra.load(run_folder).pair()
    assert generator is None and loaded is not None
    with pytest.raises(ModelError, match="energy"):
        next(detect(loaded, ["the cat sees the sea ."]))
    assert all(
        row["p_replaced"] is None
        for example in json.loads((run_folder / "examples.json").read_text())
        for row in example["rows"]
    )
    [scores] = token_scores(loaded, ["the cat sees the sea ."], "odds")
    specials = loaded.tokenizer.specials
    ids = loaded.tokenizer.encode("the cat sees the sea .").ids
    assert ids[0] == specials.cls
    energies = loaded.logits(torch.tensor([ids]))[0, 1:-1].detach().double()
    assert torch.allclose(torch.from_numpy(scores), -energies, atol=1e-5), (
        "one pass: minus the energy of each token"
    )


def test_probes_that_read_odds_of_replacement_refuse_it(run_folder: Path) -> None:
    loaded = load(run_folder, "discriminator")
    with pytest.raises(ModelError, match="energy"):
        log_odds(loaded, [np.array([7, 8, 9])])
