"""An Electric network is marked as one wherever it is kept, so that its energies are never read as odds of
replacement.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import electra
from electra.commands.framework.main import main
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


@pytest.mark.slow
def test_every_form_of_the_network_declares_its_outputs(run_folder: Path, tmp_path: Path) -> None:
    settings = json.loads((run_folder / "discriminator" / "config.json").read_text())
    assert settings["discriminator_output"] == "energy"
    assert "energy of its token" in (run_folder / "discriminator" / "README.md").read_text()
    assert load(run_folder, "discriminator").output == "energy"
    assert load(run_folder, "discriminator", step=3).output == "energy", "a checkpoint, by run.toml"
    assert main(["export", str(run_folder / "discriminator"), "--out", str(tmp_path / "again")]) == 0
    assert load(tmp_path / "again", "discriminator").output == "energy", "an export of an export"


@pytest.mark.slow
def test_worked_examples_are_held_out_text_and_no_card_quotes_it(run_folder: Path, toy_store: Path) -> None:
    """Cards are published; `show` stays here, so its default sentence is the run's own."""
    store = TokenStore.open(toy_store)
    ids = store.heldout.tokens.tolist()
    texts = [example["text"] for example in json.loads((run_folder / "examples.json").read_text())]
    assert len(texts) == 2
    for text in texts:
        own = store.tokenizer.encode(text).ids[1:-1]
        assert any(ids[start : start + len(own)] == own for start in range(len(ids)))
    for card in run_folder.rglob("README.md"):
        assert not any(text in card.read_text() for text in [*texts, "chef"])
    shown = electra.show(run_folder)
    assert [row["Original"] for row in shown] == [
        store.tokenizer.readable(id_) for id_ in store.tokenizer.encode(texts[0]).ids[1:-1]
    ]
    (run_folder / "examples.json").rename(run_folder / "aside.json")
    assert [row["Original"] for row in electra.show(run_folder)][-1] == store.tokenizer.readable(
        store.tokenizer.encode("meal").ids[-2]
    )
    (run_folder / "aside.json").rename(run_folder / "examples.json")


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


def test_any_other_discriminator_needs_no_mark(run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    shutil.copytree(run_folder / "discriminator", folder)
    settings = json.loads((folder / "config.json").read_text())
    del settings["discriminator_output"]
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(load_file(folder / "model.safetensors"), folder / "model.safetensors")  # as others save it
    assert load(folder, "discriminator").output == "log-odds"
    assert len(next(detect(load(folder, "discriminator"), ["the cat"])).words) == 2


def test_probes_that_read_odds_of_replacement_refuse_it(run_folder: Path) -> None:
    loaded = load(run_folder, "discriminator")
    with pytest.raises(ModelError, match="energy"):
        log_odds(loaded, [np.array([7, 8, 9])])
