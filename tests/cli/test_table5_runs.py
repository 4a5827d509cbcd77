"""The arms of Table 5 and the options of generators and masks, from the command line to show, detect and
export, in three steps.
"""

from __future__ import annotations

from pathlib import Path

import driven
import pytest

from electra.commands.framework.main import main
from electra.exchange.run_folder import network_kinds
from electra.foundation.config import read_toml

pytestmark = pytest.mark.slow

BOTH = ["discriminator", "generator"]
CASES = {
    "electra_15": ([], BOTH),
    "replace_mlm": (["--objective.masking", "span"], ["generator"]),
    "replace_mlm-modern": (["--model.encoder", "modern", "--objective.no-sampling-dropout"], ["generator"]),
    "all_tokens_mlm": (["--objective.masking", "whole_word"], ["generator"]),
    "all_tokens_mlm-modern": (
        ["--model.encoder", "modern", "--model.sharing", "disentangled"],
        ["generator"],
    ),
    "mlm": (["--objective.masking", "frequency"], ["generator"]),
    "rtd-unigram": (["--objective.generator", "unigram", "--objective.disallow-correct"], ["discriminator"]),
    "rtd-disentangled": (["--model.sharing", "disentangled", "--objective.label-smoothing", "0.1"], BOTH),
}


@pytest.mark.parametrize("case", CASES)
def test_three_steps_then_the_commands_that_use_the_run(
    case: str, toy_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, out = case.partition("-")[0], tmp_path / "run"
    options, kept = CASES[case]
    settings = driven.SETTINGS | {
        "--training.steps": "3",
        "--objective.name": name,
        "--training.device": "cpu",
    }
    given = [word for pair in settings.items() for word in pair]
    assert main(["pretrain", "--store", str(toy_store), "--out", str(out), *given, *options]) == 0, (
        capsys.readouterr()
    )
    assert network_kinds(out) == kept and read_toml(out / "run.toml")["objective"]["name"] == name
    metrics = driven.rows(out, "eval")[-1]["metrics"]
    assert ("mlm_loss" in metrics) == ("discriminator" not in kept)
    assert ("sampler_loss" in metrics) == (name in ("replace_mlm", "all_tokens_mlm"))
    assert (out / "report.html").is_file()
    card = (out / kept[0] / "README.md").read_text()
    assert ("as a masked language model (objective `" in card) == ("discriminator" not in kept)

    capsys.readouterr()
    assert main(["show", str(out), "the cat sees the sea"]) == 0
    assert "Original" in capsys.readouterr().out
    code = main(["detect", str(out), "the cat sees the sea", "--device", "cpu"])
    said = capsys.readouterr()
    if "discriminator" in kept:
        assert code == 0, said.err
    else:
        assert code == 2 and f"this run has no discriminator (its objective is {name})" in " ".join(
            said.err.split()
        )
    for network in kept:
        finished, checkpoint = tmp_path / f"finished-{network}", tmp_path / f"checkpoint-{network}"
        assert main(["export", str(out), "--network", network, "--out", str(finished)]) == 0
        assert main(["export", str(out), "--network", network, "--out", str(checkpoint), "--step", "3"]) == 0
        assert (finished / "model.safetensors").read_bytes() == (
            checkpoint / "model.safetensors"
        ).read_bytes()
