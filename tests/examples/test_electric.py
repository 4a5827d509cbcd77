"""Electric: the loss recovers a density, the towers see one side each, and noise is noise also where it
guesses right. A network of it is marked wherever it is kept, so that its energies are never read as odds of
replacement.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from driven import toy_store  # noqa: F401
from torch.nn import functional as F

import electra
from electra.data.corpus.store import TokenStore
from electra.foundation.errors import ModelError
from electra.foundation.extensions import OBJECTIVES, trust
from electra.foundation.signals import StopRequest
from electra.inference.detection import detect
from electra.laboratory.analysis.scoring.scorers import token_scores
from electra.laboratory.analysis.scoring.token_rows import log_odds
from electra.testing import ObjectiveContract, toy
from electra.training import loop
from electra.training.assemble import start
from electra.training.distributed import World
from electra.training.finish import finish

ELECTRIC = Path(__file__).parents[2] / "examples" / "electric.py"


@pytest.fixture(autouse=True)
def trusted(no_trusted_code: None) -> None:
    trust(ELECTRIC)


class TestElectric(ObjectiveContract):
    objective = ELECTRIC


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_the_loss_recovers_a_known_density(share: float) -> None:
    """Enumerated: with energies free for each token, the loss over data p and noise q is least where exp(-E)
    = p, normalised.
    """
    noise_logits = OBJECTIVES.load(str(ELECTRIC)).noise_logits
    torch.manual_seed(0)
    p, q = torch.randn(8, dtype=torch.double).softmax(-1), torch.randn(8, dtype=torch.double).softmax(-1)
    energies = torch.zeros(8, dtype=torch.double, requires_grad=True)
    optimizer = torch.optim.LBFGS([energies], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        logits = noise_logits(energies, q.log(), share)
        value = -((1 - share) * p * F.logsigmoid(-logits)).sum() - (share * q * F.logsigmoid(logits)).sum()
        value.backward()
        return value

    optimizer.step(loss)
    assert torch.allclose(torch.exp(-energies.detach()), p, atol=1e-5)


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_each_tower_sees_one_side_and_never_the_token(architecture: str) -> None:
    objective = toy.objective(str(ELECTRIC))
    pair = toy.pair_for(objective, architecture=architecture).eval()
    towers: Any = pair.heads["towers"]
    ids = torch.randint(5, toy.VOCABULARY, (1, 12))
    context = towers(ids, None, None)
    width = context.shape[-1] // 2
    for changed in (0, 5, 11):
        other = ids.clone()
        other[0, changed] = 5 + (other[0, changed] - 4) % (toy.VOCABULARY - 5)
        differs = (towers(other, None, None) != context)[0]
        left, right = differs[:, :width].any(-1), differs[:, width:].any(-1)
        positions = torch.arange(12)
        assert torch.equal(left, positions > changed), "left to right: what comes after it"
        assert torch.equal(right, positions < changed), "right to left: what comes before it"
    assert (context[0, 0, :width] == 0).all() and (context[0, -1, width:] == 0).all(), (
        "zeros beyond the ends, no wrapping around"
    )


def passed(**options: Any) -> tuple[Any, Any, Any, Any]:
    objective = toy.objective(str(ELECTRIC), **options)
    pair = toy.pair_for(objective)
    part = objective.corrupt(toy.batches().batch(0, 32), 3, 1.0)
    return objective, pair, part, objective.forward(pair, part)


def test_a_sample_that_equals_the_original_still_counts_as_noise() -> None:
    objective, _, part, outcome = passed()
    lucky = outcome.observed["sample_correct"]
    assert lucky.any(), "the toy vocabulary is small enough for lucky guesses"
    assert int(outcome.observed["replaced"].sum()) == len(part.masked_positions)
    assert (
        len(outcome.observed["replaced"])
        == part.counts["nce"]
        == part.counts["mlm"]
        == int(objective.candidates(part).sum())
    )


def test_log_odds_are_the_papers_formula() -> None:
    """k q / (k q + (n - k) exp(-E)), with q of the token that stands there, worked out position
    by position.
    """
    objective, pair, part, outcome = passed(mask_fraction=0.3)
    towers = pair.heads["towers"]
    log_p = towers.log_p(towers(part.input_ids, part.position_ids, part.document_ids).flatten(0, 1))
    ids = part.input_ids.flatten().index_copy(0, part.masked_positions, outcome.observed["sampled"])
    q = log_p.exp().gather(1, ids[:, None]).squeeze(1)
    hidden = pair.main.encoder(ids.view_as(part.input_ids), part.position_ids, part.document_ids)
    unnormalised = torch.exp(-pair.main.logits(hidden.flatten(0, 1)))
    expected = (0.3 * q / (0.3 * q + 0.7 * unnormalised))[objective.candidates(part).flatten()]
    assert torch.allclose(outcome.observed["replaced_logits"].sigmoid(), expected, atol=1e-5)
    original = log_p.gather(1, part.input_ids.flatten()[:, None]).squeeze(1)
    assert torch.allclose(outcome.losses["mlm"], -original[objective.candidates(part).flatten()].sum(), rtol=1e-5)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, toy_store: Path) -> Path:  # noqa: F811
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
def test_what_reads_odds_refuses_it_and_scoring_does_not(run_folder: Path) -> None:
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
    assert torch.allclose(torch.from_numpy(scores), -energies, atol=1e-5), "one pass: minus the energy of each token"
    with pytest.raises(ModelError, match="energy"):
        log_odds(loaded, [np.array([7, 8, 9])])
