"""A run of the schedule wsd grows: it ends with the bits of the one that was meant to be longer."""

import re
from dataclasses import replace
from pathlib import Path

import driven
import pytest
import torch
from safetensors.torch import load_file

import electra
from electra.artifacts.run_files import RunFolder
from electra.commands.framework.main import main
from electra.data.corpus.store import TokenStore
from electra.foundation.config import RECIPES
from electra.foundation.errors import ConfigError
from electra.training.assemble import build_objective
from electra.training.distributed import World
from electra.training.extend import keep_milestone
from electra.training.request import compose
from electra.training.schedule import multiplier, plateau_end, progress

SMALL = {
    "training.schedule": "wsd",
    "training.warmup_steps": 2,
    "training.length": 16,
    "training.batch_size": 8,
    "training.precision": "fp32",
    "training.threads": 1,
    "training.log_every": 1,
    "training.evaluate_every": 5,
    "training.checkpoint_every": 4,
    "evaluation.rows": 8,
    "objective.mask_fraction": 0.5,
    "objective.final_mask_fraction": 0.15,
}

WHOLE = {"model.sharing": "none", "model.generator_width": 1.0, "model.generator_depth": 1.0}


def train(store: Path, out: Path, steps: int, **changes: object) -> electra.Run:
    return electra.pretrain(store, out=out, budget=f"{steps}steps", overrides=SMALL | changes, recipe="tiny")


def weights(run: Path, network: str = "discriminator") -> dict[str, torch.Tensor]:
    return load_file(run / network / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_rate_rises_stays_and_falls() -> None:
    rates = [multiplier(step, 10, 0.2, "wsd", 0.3) for step in range(11)]
    assert rates == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 1, 2 / 3, 1 / 3, 0])
    assert plateau_end(10, 0.3) == 7
    assert [progress(step, 10, "wsd", 0.3) for step in (0, 7, 10)] == [0, 0, 1]
    assert progress(5, 10, "linear", 0.3) == 0.5


@pytest.mark.slow
def test_an_extended_run_has_the_bits_of_the_long_one(toy_store: Path, tmp_path: Path) -> None:
    short = train(toy_store, tmp_path / "short", 10)
    before = weights(short.path)
    long = train(toy_store, tmp_path / "long", 20)
    longer = electra.extend(short, budget="20steps")
    assert longer.total_steps == 20 and longer.status == "finished"
    for network in ("discriminator", "generator"):
        assert same(weights(longer.path, network), weights(long.path, network))
    milestone = longer.path / "milestones" / "step-00000010"
    assert same(weights(milestone), before)
    steps = [row["step"] for row in longer.metrics if row["kind"] == "train"]
    assert steps == list(range(1, 21))
    assert electra.load(milestone).detect(["the cat sees the house ."])
    again = electra.extend(short, budget="20steps")  # complete: nothing to do
    assert same(weights(again.path), weights(long.path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "budget", "fact"),
    [("linear", "20steps", "--init"), ("wsd", "8steps", "10"), ("wsd", "9x", "9x")],
)
def test_a_run_that_cannot_be_extended_is_refused_and_unchanged(
    schedule: str, budget: str, fact: str, toy_store: Path, tmp_path: Path
) -> None:
    run = train(toy_store, tmp_path / "run", 10, **{"training.schedule": schedule})
    before = weights(run.path)
    with pytest.raises(ConfigError, match=fact):
        electra.extend(run, budget=budget)
    assert run.total_steps == 10 and run.status == "finished" and same(weights(run.path), before)


def test_wsd_is_refused_for_objectives_in_phases(toy_store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training.schedule"):
        electra.pretrain(
            toy_store,
            out=tmp_path / "run",
            budget="10steps",
            overrides={"training.schedule": "wsd", "objective.name": "two_stage"} | WHOLE,
            recipe="tiny",
        )


def test_a_milestone_left_by_a_killed_extension_is_replaced(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for content in ("first", "second"):
        (tmp_path / "discriminator").mkdir()
        (tmp_path / "discriminator" / "model.safetensors").write_text(content)
        keep_milestone(folder, 10)
    kept = folder.milestone(10).path / "discriminator" / "model.safetensors"
    assert kept.read_text() == "second" and not (tmp_path / "discriminator").exists()


def test_the_page_says_which_recipes_can_be_extended(toy_store: Path) -> None:
    """In both of its tables, as does the schedule that a run of the recipe gets."""
    page = (Path(__file__).parents[2] / "docs" / "which-recipe.md").read_text()
    rows = re.findall(r"^\|(.*`.*)\| (yes|no) \|$", page, re.M)
    said = [(name, answer) for row, answer in rows for name in re.findall(r"`(?:--recipe )?([\w-]+)`", row)]
    names = {path.stem for path in RECIPES.glob("*.toml")}
    assert {name for name, _ in said} == names and len(said) == len(names) + 3
    store = TokenStore.open(toy_store)
    for name, answer in said:
        changes = {"objective.teacher": "tiny-en"} if name == "distil" else {"training.length": 16}
        recipe = compose(name, {**changes, "model.size": "tiny", "training.steps": 10})
        if name == "distil":  # its teacher has another tokenizer than this store
            recipe = replace(recipe, objective={"name": "mlm"})
        _, made = build_objective(recipe, store, World())
        assert (made.training.schedule == "wsd") == (answer == "yes"), name


@pytest.mark.parametrize(("schedule", "can"), [("wsd", True), ("linear", False), ("reference", False)])
def test_a_run_says_at_its_start_and_before_it_whether_it_can_be_extended(
    schedule: str, can: bool, toy_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = driven.command(toy_store, tmp_path / "run", **{"training.schedule": schedule, "training.steps": "10"})
    assert main([*words, "--dry-run"]) == 0
    assert ("cannot be extended" in capsys.readouterr().out) != can
    assert main(words) == 0
    started = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("started"))
    assert ("cannot be extended" in started) != can
    before = sorted((tmp_path / "run").rglob("*"))
    assert main(["extend", str(tmp_path / "run"), "--budget", "30steps", "--dry-run"]) == (0 if can else 2)
    assert ("30 (" in capsys.readouterr().out) == can and sorted((tmp_path / "run").rglob("*")) == before
