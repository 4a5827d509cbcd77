"""Every objective that trains in an unusual way, from the command line to the exported folders, in three
steps.
"""

from __future__ import annotations

import math
from pathlib import Path

import driven
import pytest

from electra.commands.framework.main import main
from electra.exchange.run_folder import network_kinds
from electra.foundation.config import read_toml

pytestmark = pytest.mark.slow

CASES = {
    "two_stage": ["--model.sharing", "none", "--model.generator-width", "1.0"],
    "two_stage-fresh": ["--model.sharing", "none", "--objective.no-initialise"],
    "adversarial": [],
    "adversarial-gumbel": [
        "--training.precision",
        "bf16",
        "--objective.gradient",
        "gumbel",
        "--objective.anneal-from",
        "0.3",
        "--objective.anneal-to",
        "0.7",
    ],
    "adversarial-modern": [
        "--model.encoder",
        "modern",
        "--objective.entropy-weight",
        "0.1",
        "--training.clip-separately",
    ],
    "electric": [],
    "electric-modern": ["--model.encoder", "modern", "--training.precision", "bf16"],
    "sentence": [],
    "coco_lm": [],
    "teams": ["--model.encoder", "modern"],
}
KEPT = {"electric": ["discriminator"], "coco_lm": ["generator"]}  # the others: both networks


@pytest.mark.parametrize("case", CASES)
def test_three_steps_and_an_export(
    case: str, toy_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, out = case.partition("-")[0], tmp_path / "run"
    settings = driven.SETTINGS | {
        "--training.steps": "3",
        "--objective.name": name,
        "--training.device": "cpu",
    }
    given = [word for pair in settings.items() if pair[0] not in CASES[case] for word in pair]
    assert main(["pretrain", "--store", str(toy_store), "--out", str(out), *given, *CASES[case]]) == 0, (
        capsys.readouterr()
    )
    assert network_kinds(out) == KEPT.get(name, ["discriminator", "generator"])
    assert (out / "report.html").is_file() and read_toml(out / "run.toml")["objective"]["name"] == name
    final = driven.rows(out, "eval")[-1]["metrics"]
    assert (
        all(value is None or math.isfinite(value) for value in final.values()) and final["generator_loss"] > 0
    )
    assert ("generator_entropy" in final) == (name == "adversarial")


def test_a_setting_that_does_not_go_with_it_is_one_line(
    toy_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(
        [
            "pretrain",
            "--store",
            str(toy_store),
            "--out",
            str(tmp_path / "run"),
            "--objective.name",
            "two_stage",
            "--budget",
            "3steps",
        ]
    )
    said = capsys.readouterr().err
    assert code == 2 and "It needs --model.sharing none --model.generator-width 1.0" in " ".join(said.split())
