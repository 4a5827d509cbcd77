"""electra bench: what it measures adds up, and what it is asked wrongly it says."""

from __future__ import annotations

import json

import pytest

from electra.commands.framework.main import main
from electra.testing import toy
from electra.training import bench


@pytest.mark.slow
def test_a_measurement_adds_up() -> None:
    row = bench.measure(toy.recipe(), vocab_size=100, seconds=0.01)
    assert row["tokens_per_s_best"] >= row["tokens_per_s_median"] > 0
    assert 0 < row["mfu"] < 1
    assert row["steps"] >= bench.MIN_STEPS and row["peak_rss_mib"] > 50
    step = 8 * 16 / row["tokens_per_s_median"]
    assert all(seconds >= 0 for seconds in row["parts"].values())
    assert (
        step / 20 < sum(row["parts"].values()) < 20 * step
    )  # other steps of the same kind, on a machine that others use
    assert {"generator", "discriminator", "data", "optimizer"} <= set(row["parts"])


@pytest.mark.slow
def test_flops_are_those_of_the_matrix_products() -> None:
    """The counted products of a discriminator's layers, forward and backward, are in the total."""
    small = bench.measure(toy.recipe(), vocab_size=100, seconds=0.01)["flops_per_token"]
    large = bench.measure(toy.recipe(model={"size": "mini"}), vocab_size=100, seconds=0.01)["flops_per_token"]
    hidden, layers = 128, 4
    of_layers = 3 * 2 * layers * (4 * hidden * hidden + 8 * hidden * hidden)
    assert of_layers < small < 2 * of_layers
    assert 3 < large / small < 4.5


@pytest.mark.slow
def test_json_ends_with_the_keys_that_scripts_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    command = "bench --recipe budget-tiny --batch-size 2 --length 16 --seconds 0.05 --vocab-size 100 --json"
    assert main(command.split()) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"tokens_per_s_median", "tokens_per_s_best", "peak_rss_mib", "mfu"} <= set(row)
    assert (row["batch"], row["length"]) == (2, 16)


@pytest.mark.slow
def test_settings_are_compared_in_processes_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    command = "bench --batch-size 2 --length 16 --seconds 0.05 --vocab-size 100 --processes 1 2 --json"
    assert main(command.split()) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["processes"] for row in rows] == [1, 2]
    assert rows[1]["parts"]["reduction"] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        "--batch-size 3 --processes 2",
        "--seconds 0",
        "--rounds 0",
        "--recipe nonesuch",
        "--size huge --seconds 0.01",
    ],
)
def test_a_wrong_setting_is_one_line(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *wrong.split(), "--vocab-size", "100"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
