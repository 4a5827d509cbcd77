"""Every objective and its unusual options, from the command line to show, detect and export."""

from __future__ import annotations

import math
from pathlib import Path

import driven
import pytest

from electra.commands.framework.main import main
from electra.exchange.run_folder import network_kinds
from electra.foundation.config import read_toml

BOTH, GENERATOR, DISCRIMINATOR = ["discriminator", "generator"], ["generator"], ["discriminator"]
MODERN = "--model.encoder modern"
CASES = {  # name of the objective, what else is typed -> networks of the run
    "two_stage": ("--model.sharing none --model.generator-width 1.0", BOTH),
    "adversarial": ("", BOTH),
    "adversarial gumbel": (
        "--training.precision bf16 --objective.gradient gumbel --objective.anneal-from 0.3"
        " --objective.anneal-to 0.7",
        BOTH,
    ),
    "adversarial modern": (MODERN, BOTH),
    "sentence": ("", BOTH),
    "coco_lm": ("", GENERATOR),
    "electra_15": ("", BOTH),
    "replace_mlm": ("--objective.masking frequency", GENERATOR),
    "all_tokens_mlm": ("--objective.masking whole_word", GENERATOR),
    "mlm": ("--objective.masking frequency", GENERATOR),
    "rtd unigram": ("--objective.generator unigram --objective.disallow-correct", DISCRIMINATOR),
    "rtd disentangled": ("--model.sharing disentangled", BOTH),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_three_steps_then_the_commands_that_use_the_run(
    case: str, toy_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, out = case.partition(" ")[0], tmp_path / "run"
    typed, kept = CASES[case]
    changes = {"training.steps": "3", "objective.name": name, "training.device": "cpu"}
    words = driven.command(toy_store, out, **changes)
    for flag in {*typed.split()} & {*words}:
        del words[words.index(flag) : words.index(flag) + 2]
    assert main([*words, *typed.split()]) == 0, capsys.readouterr()
    assert network_kinds(out) == kept and read_toml(out / "run.toml")["objective"]["name"] == name
    assert (out / "report.html").is_file()
    metrics = driven.rows(out, "eval")[-1]["metrics"]
    assert all(value is None or math.isfinite(value) for value in metrics.values())
    assert ("generator_entropy" in metrics) == (name == "adversarial")
    assert ("mlm_loss" in metrics) == (kept == GENERATOR)
    assert ("sampler_loss" in metrics) == (name in ("replace_mlm", "all_tokens_mlm", "coco_lm"))

    capsys.readouterr()
    assert main(["show", str(out), "the cat sees the sea"]) == 0
    assert "Original" in capsys.readouterr().out
    code = main(["detect", str(out), "the cat sees the sea", "--device", "cpu"])
    assert code == (0 if "discriminator" in kept else 2), capsys.readouterr()
    for network in kept:
        finished, checkpoint = tmp_path / f"finished-{network}", tmp_path / f"checkpoint-{network}"
        assert main(["export", str(out), "--network", network, "--out", str(finished)]) == 0
        assert main(["export", str(out), "--network", network, "--out", str(checkpoint), "--step", "3"]) == 0
        first, second = (folder / "model.safetensors" for folder in (finished, checkpoint))
        assert first.read_bytes() == second.read_bytes()


def test_a_setting_that_does_not_go_with_it_is_one_line(
    toy_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pretrain", "--store", str(toy_store), "--out", str(tmp_path / "run"), "--budget", "3steps"]
    assert main([*words, "--objective.name", "two_stage"]) == 2
    error = capsys.readouterr().err
    assert "--model.sharing none --model.generator-width 1.0" in error and error.count("\n") == 1
