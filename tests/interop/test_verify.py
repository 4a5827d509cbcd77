"""Damage is found and named."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from electra import durable
from electra.errors import RunFolderError
from electra.interop.verify import verify
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
    for position in [
        *(chance.randrange(header) for _ in range(10)),
        *(chance.randrange(header, len(good)) for _ in range(10)),
    ]:
        bad = bytearray(good)
        bad[position] ^= 1 << chance.randrange(8)
        weights.write_bytes(bad)
        [problem] = problems(folder)
        assert "model.safetensors" in problem or "tensor" in problem
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
        "model folder (generator, without a recorded digest)"
    ]
    tensors["generator_lm_head.bias"][3] = torch.nan
    save_file(tensors, weights)
    assert "tensor generator_lm_head.bias holds values that are not finite" in problems(folder)[0]
    weights.unlink()
    tensors["generator_lm_head.bias"][3] = 0.0
    save_file(tensors, weights)
    (folder / "generator" / "tokenizer.json").unlink()
    (folder / "generator" / "vocab.txt").unlink()
    assert "tokenizer.json" in problems(folder)[0]


def test_run_with_checkpoints(tmp_path: Path, export_pair: ExportPair) -> None:
    run = tmp_path / "run"
    for step in (1, 2):
        durable.commit_directory(
            run / "checkpoints" / f"step-{step:08d}", {"model.safetensors": b"x" * 50, "state.json": b"{}"}
        )
    (run / "run.toml").write_text("[model]\n")
    export_pair()[1].joinpath("discriminator").rename(run / "discriminator")
    assert [(finding.path.name, finding.problem) for finding in verify(run)] == [
        ("run.toml", ""), ("step-00000002", ""), ("step-00000001", ""), ("discriminator", "")
    ]  # fmt: skip
    (run / "checkpoints" / "step-00000001" / "model.safetensors").write_bytes(b"y" * 50)
    assert problems(run) == ["model.safetensors is damaged (its SHA-256 differs)"]
    assert problems(run / "checkpoints" / "step-00000002") == []
    (run / "checkpoints" / "step-00000002" / "manifest.json").unlink()
    assert problems(run / "checkpoints" / "step-00000002") == ["manifest.json is missing"]
    (run / "run.toml").write_text("[model")
    assert "not valid TOML" in problems(run)[0]
    (run / "store").mkdir()
    assert any("store" in problem for problem in problems(run))


def test_fine_tuning(tmp_path: Path, export_pair: ExportPair) -> None:
    _, folder = export_pair()
    (folder / "discriminator").rename(tmp_path / "model")
    (tmp_path / "finetune.json").write_text("{}")
    for seed in (2, 10):
        durable.commit_directory(
            tmp_path / "seeds" / f"seed-{seed}", {"results.json": b"{}", "model.safetensors": b"weights"}
        )
    assert [finding.path.name for finding in verify(tmp_path)] == [
        "finetune.json",
        "seed-2",
        "seed-10",
        "model",
    ]
    assert problems(tmp_path) == []
    (tmp_path / "seeds" / "seed-10" / "results.json").write_text("{ }")
    assert problems(tmp_path) == ["results.json has 3 bytes instead of 2"]


def test_nothing_to_verify(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not a folder that electra wrote"):
        list(verify(tmp_path))
    with pytest.raises(RunFolderError, match="no such folder"):
        list(verify(tmp_path / "none"))
