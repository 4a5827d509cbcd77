"""Damage is detected and named."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from electra.commands.framework.main import main
from electra.exchange.load import load
from electra.exchange.verify import verify
from electra.foundation.errors import ModelError
from electra.model.pair import Pair

ExportPair = Callable[..., tuple[Pair, Path]]


def problems(path: Path) -> list[str]:
    return [finding.problem for finding in verify(path) if finding.problem]


def test_every_flipped_bit_of_the_weights_is_found(export_pair: ExportPair) -> None:
    _, folder = export_pair()
    weights = folder / "discriminator" / "model.safetensors"
    good = weights.read_bytes()
    assert problems(folder) == []
    chance = random.Random(0)
    header = 8 + int.from_bytes(good[:8], "little")
    for part in [range(header), range(header, len(good))] * 10:
        position = chance.choice(part)
        bad = bytearray(good)
        bad[position] ^= 1 << chance.randrange(8)
        weights.write_bytes(bad)
        [problem] = problems(folder)
        assert "model.safetensors" in problem or "tensor" in problem
        if position >= header:
            with pytest.raises(ModelError):
                load(folder / "discriminator")
    for length in (0, 7, header, len(good) - 1):
        weights.write_bytes(good[:length])
        assert len(problems(folder)) == 1


def test_model_folder_of_others(export_pair: ExportPair) -> None:
    """Without a recorded digest: shapes, tokenizer, finite numbers."""
    _, folder = export_pair()
    weights = folder / "generator" / "model.safetensors"
    tensors = load_file(weights)
    save_file(tensors, weights)
    assert [finding.what for finding in verify(folder / "generator")] == [
        "model folder (generator, no digests recorded)"
    ]
    tensors["generator_lm_head.bias"][3] = torch.nan
    save_file(tensors, weights)
    assert "tensor generator_lm_head.bias" in problems(folder)[0]
    weights.unlink()
    tensors["generator_lm_head.bias"][3] = 0.0
    save_file(tensors, weights)
    (folder / "generator" / "tokenizer.json").unlink()
    (folder / "generator" / "vocab.txt").unlink()
    assert "tokenizer.json" in problems(folder)[0]


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "vocab.txt", "config.json"])
def test_a_flipped_bit_in_any_other_file_is_found(export_pair: ExportPair, name: str) -> None:
    _, folder = export_pair()
    file = folder / "discriminator" / name
    good = file.read_bytes()
    file.write_bytes(good[:-2] + bytes([good[-2] ^ 1]) + good[-1:])
    assert any(name in problem for problem in problems(folder))
    file.unlink()
    assert any(f"{name}" in problem for problem in problems(folder))
    (folder / "discriminator" / "README.md").write_text("my own card")
    file.write_bytes(good)
    assert problems(folder) == []


@pytest.mark.parametrize("verb", ["detect", "embed"])
def test_the_command_line_says_that_a_file_changed(
    verb: str, export_pair: ExportPair, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = export_pair()[1] / "discriminator"
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + "\n")
    assert main([verb, str(folder), "the chef"]) == 0
    assert f"note: {folder}: tokenizer.json was changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("folder", "spoilt"),
    [("old-run-rtd", "run.toml"), ("old-finetuning", "seeds/seed-0/manifest.json"), ("old-run-rtd", "")],
)
def test_the_files_that_are_compared_are_those_in_which_a_flipped_bit_is_found(
    folder: str, spoilt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file is in one of the two lists; one more letter in it is damage if it is in the first."""
    there = shutil.copytree(Path(__file__).parents[1] / "fixtures" / folder, tmp_path / "folder")
    assert main(["verify", str(there)]) == 0
    *_, first, second = capsys.readouterr().out.splitlines()
    compared, others = (line.partition(": ")[2].partition(": ")[2].split(", ") for line in (first, second))
    files = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    assert {*compared} | {*others} == files and not {*compared} & {*others}
    assert first.split(": ")[1] == f"{len(compared)} files"
    for name in [name for name in compared if not name.endswith("manifest.json")][:: 1 if spoilt else 5]:
        content = (there / name).read_bytes()
        (there / name).write_bytes(content + b" ")
        assert problems(there), name
        (there / name).write_bytes(content)
    (there / spoilt).write_bytes(b"{") if spoilt.endswith(".json") else None
    assert main(["verify", str(there)]) == int(spoilt.endswith(".json"))
