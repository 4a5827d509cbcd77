"""Model folders with 8-bit or 4-bit weights: what rounding changes, what opens them, what refuses them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from copies import copy_networks, make_included
from safetensors.torch import load_file, save_file

import electra
from electra.artifacts.model_files import INTEGER_WEIGHTS, WEIGHTS, Dtype
from electra.commands.framework.main import main
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.exchange.load import load
from electra.exchange.weights import GROUP, dequantize, quantize
from electra.foundation.errors import ModelError
from electra.model.pair import Pair

ExportPair = Callable[..., tuple[Pair, Path]]
TABLE = "electra.embeddings.word_embeddings.weight"
DENSE = "discriminator_predictions.dense.weight"
IDS = torch.randint(5, 100, (3, 11), generator=torch.Generator().manual_seed(0))


def test_a_weight_changes_by_at_most_half_the_step_of_its_row() -> None:
    exact = torch.randn(30, 65, generator=torch.Generator().manual_seed(1))
    again = dequantize(quantize({"a": exact, "bias": exact[0]}, 8), Path("nowhere"))
    step = exact.abs().amax(1, keepdim=True) / 127
    assert ((again["a"] - exact).abs() <= 0.5001 * step).all() and (again["a"] != exact).any()
    assert torch.equal(again["bias"], exact[0])


@pytest.mark.parametrize("shape", [(7, 64), (30, 384), (1, 128), (2, 3, 128)])
def test_a_4_bit_weight_changes_by_at_most_a_step_and_the_scale_is_the_best_of_several(
    shape: tuple[int, ...],
) -> None:
    exact = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 0.05
    stored = quantize({"a": exact, "bias": exact.flatten()[:9]}, 4)
    assert stored["a"].dtype == torch.uint8 and stored["a"].numel() * 2 == exact.numel()
    assert stored["a.scale"].numel() * GROUP == exact.numel() and torch.equal(stored["bias"], exact.flatten()[:9])
    again = dequantize(stored, Path("nowhere"))["a"]
    groups, found = exact.reshape(-1, GROUP).double(), again.reshape(-1, GROUP).double()
    scale = stored["a.scale"].double().reshape(-1, 1)
    largest = groups.abs().amax(1, keepdim=True)
    # within the range half a scale, above it what the smaller scale cuts off: a quarter of the largest value
    assert ((found - groups).abs() <= torch.maximum(0.501 * scale, 0.26 * largest)).all()
    plain = (largest / 7).half().double()
    simple = (groups / plain).round().clamp(-8, 7) * plain
    errors = [(other - groups).square().sum(1) for other in (found, simple)]
    assert (errors[0] <= errors[1] * 1.0001).all() and (errors[0] < errors[1]).any()
    for row in range(len(groups)):  # each weight at its nearest step
        steps = torch.arange(-8, 8) * scale[row]
        nearest = (steps[None] - groups[row][:, None]).abs().min(1).values
        assert torch.allclose((found[row] - groups[row]).abs(), nearest, rtol=1e-4, atol=1e-9)


def test_4_bits_are_stored_again_without_a_change() -> None:
    exact = torch.randn(200, 64, generator=torch.Generator().manual_seed(2))
    first = quantize({"a": exact}, 4)
    again = quantize(dequantize(first, Path("nowhere")), 4)
    for name in first:
        assert torch.equal(first[name], again[name]), name


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (torch.ones(3, 65), torch.int8),  # no whole groups
        (torch.randn(3, 64) * 1e9, torch.int8),  # too large for a float16 scale
        (torch.randn(3, 64) * 1e-9, torch.int8),  # too small
        (torch.zeros(0, 64), torch.int8),
        (torch.zeros(3, 64), torch.uint8),
        (torch.eye(64), torch.uint8),
    ],
)
def test_what_4_bits_cannot_hold_is_stored_in_8(values: torch.Tensor, kind: torch.dtype) -> None:
    stored = quantize({"a": values}, 4)
    assert stored["a"].dtype == kind
    again = dequantize(stored, Path("nowhere"))["a"]
    assert again.shape == values.shape
    assert ((again - values).abs() <= values.abs().amax() / 100 if values.numel() else again).all()


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_a_shared_table_is_stored_once_and_the_copy_is_for_transformers(
    dtype: Dtype, export_pair: ExportPair, tmp_path: Path
) -> None:
    given, file = export_pair()[1], INTEGER_WEIGHTS[dtype]
    make_included.make(given, tmp_path / "int8", "", dtype)
    stored = load_file(tmp_path / "int8" / "discriminator" / file)
    assert stored[TABLE].dtype in (torch.int8, torch.uint8)
    assert len(stored[f"{TABLE}.scale"]) == len(stored[TABLE])
    assert not [name for name in load_file(tmp_path / "int8" / "generator" / file) if TABLE in name]
    assert not (tmp_path / "int8" / "generator" / "tokenizer.json").exists()
    assert not [finding for finding in electra.verify(tmp_path / "int8") if finding.problem]
    copy_networks(tmp_path / "int8", tmp_path / "again")
    classes = {
        "discriminator": transformers.ElectraForPreTraining,
        "generator": transformers.ElectraForMaskedLM,
    }
    for network, cls in classes.items():
        ours, theirs = load(tmp_path / "int8", network), cls.from_pretrained(tmp_path / "again" / network)  # type: ignore[arg-type]
        with torch.inference_mode():
            torch.testing.assert_close(ours.logits(IDS), theirs.eval()(IDS).logits, rtol=0, atol=1e-5)
    texts = ["the chef cooked", "the meal"]
    vectors = [electra.load(tmp_path / name).embed(texts) for name in ("int8", "again")]
    np.testing.assert_array_equal(*vectors)


SCALE = f"{DENSE}.scale"
DAMAGE: dict[str, Callable[[Any], Any]] = {
    "no scale": lambda tensors: tensors.pop(SCALE),
    "short scale": lambda tensors: tensors.update({SCALE: tensors[SCALE][:-1].clone()}),
    "whole scale": lambda tensors: tensors.update({SCALE: tensors[SCALE].int()}),
    "infinite scale": lambda tensors: tensors[SCALE].view(-1)[0].fill_(torch.inf),
    "no tensor": lambda tensors: tensors.pop(DENSE),
}


@pytest.fixture(scope="module", params=["int8", "int4"])
def stored(request: pytest.FixtureRequest, make_pair: Callable[..., Pair], uncased: Tokenizer) -> tuple[Dtype, Path]:
    folder = request.getfixturevalue("tmp_path_factory").mktemp("stored")
    network = make_pair(vocab_size=uncased.vocab_size, hidden_size=64).main
    export_network(folder, network, uncased, Card("x", "discriminator"), dtype=request.param)
    return request.param, folder


@pytest.mark.parametrize("damage", ["cut", *DAMAGE])
def test_damaged_scales_are_a_one_line_error(
    damage: str, stored: tuple[Dtype, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dtype, folder = stored
    shutil.copytree(folder, tmp_path / dtype)
    file = tmp_path / dtype / INTEGER_WEIGHTS[dtype]
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        tensors = load_file(file)
        DAMAGE[damage](tensors)
        save_file(tensors, file)  # without a digest, so that the scales themselves are looked at
    assert main(["embed", str(tmp_path / dtype), "the chef"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ") and dtype in message and "Traceback" not in message
    assert DENSE in message or damage in ("cut", "no tensor")


def test_a_folder_with_weights_twice_is_refused(export_pair: ExportPair, tmp_path: Path) -> None:
    """One of them would be used without a word, and the files may differ."""
    folder = export_pair()[1] / "discriminator"
    (folder / INTEGER_WEIGHTS["int4"]).write_bytes((folder / WEIGHTS).read_bytes())
    with pytest.raises(ModelError, match=f"{INTEGER_WEIGHTS['int4']} and {WEIGHTS}.* Delete all but the one"):
        load(folder)
    problems = [finding.problem for finding in electra.verify(folder) if finding.problem]
    assert len(problems) == 1 and "Delete" in problems[0]
    (folder / INTEGER_WEIGHTS["int4"]).unlink()
    load(folder)
