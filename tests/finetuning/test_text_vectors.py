"""Models of text vectors: the losses, and saved folders that give the scored vectors."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from electra.artifacts.model import POOLING
from electra.data.tables import open_table
from electra.exchange.load import load
from electra.finetuning.runner.finetune import finetune
from electra.finetuning.tasks import load_task
from electra.foundation.errors import ConfigError
from electra.inference.embedding import embed
from electra.testing import toy_task


def cosines(folder: Path, rows: list[dict[str, str]]) -> list[float]:
    vectors = embed(
        load(folder, "encoder"), [row[name] for row in rows for name in ("sentence1", "sentence2")]
    )
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return [float(a @ b) for a, b in zip(unit[::2], unit[1::2], strict=True)]


def said(out: Path) -> list[float]:
    with open(out / "seeds" / "seed-0" / "dev.tsv", encoding="utf-8", newline="") as file:
        return [float(row["score"]) for row in csv.DictReader(file, delimiter="\t")]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.slow
def test_the_saved_folder_gives_the_vectors_that_were_scored(
    modern_folder: Path, regression_folder: Path, tmp_path: Path, pooling: str
) -> None:
    settings = toy_task.settings(
        tmp_path / "out",
        regression_folder,
        "similarity",
        search="2",
        epochs=None,
        pooling=pooling,
        limit_train=40,
    )
    results = finetune(str(modern_folder), settings)
    rows = [dict(row) for _, row in open_table(regression_folder / "dev.csv").rows]
    np.testing.assert_allclose(cosines(tmp_path / "out" / "model", rows), said(tmp_path / "out"), atol=1e-5)
    assert results["pooling"] == pooling and results["eval_loss"] is None
    again = toy_task.settings(tmp_path / "again", regression_folder, "similarity", epochs=1, limit_train=32)
    assert finetune(str(tmp_path / "out"), again)["pooling"] == pooling  # as the model it starts from says


@pytest.mark.slow
def test_sentence_transformers_opens_it(modern_folder: Path, regression_folder: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="needs the extra `sentences`")
    settings = toy_task.settings(
        tmp_path / "out", regression_folder, "similarity", epochs=1, pooling="cls", limit_train=32
    )
    finetune(str(modern_folder), settings)
    folder, texts = tmp_path / "out" / "model", ["a fine film", "my grim town of old"]
    theirs = library.SentenceTransformer(str(folder), device="cpu").encode(texts)
    np.testing.assert_allclose(theirs, embed(load(folder, "encoder"), texts), atol=1e-5)
    assert (folder / POOLING).is_file() and not (folder / "head.safetensors").exists()


@pytest.mark.slow
def test_training_makes_vectors_of_similar_texts_similar(modern_folder: Path, tmp_path: Path) -> None:
    """Pairs are alike where both have a good word, or both a bad one."""
    draw = random.Random(5)
    for split, size in (("train", 300), ("dev", 60)):
        lines = ["sentence1,sentence2,score"]
        for i in range(size):
            a, b = i % 2, i // 2 % 2
            lines.append(f"{toy_task.sentence(draw, a, 5)},{toy_task.sentence(draw, b, 5)},{5 * (a == b)}")
        (tmp_path / f"{split}.csv").write_text("\n".join(lines) + "\n")
    found = {}
    for rate in (1e-9, 3e-3):
        settings = toy_task.settings(
            tmp_path / f"out-{rate}", tmp_path, "similarity", epochs=3, learning_rate=rate
        )
        found[rate] = finetune(str(modern_folder), settings)["eval_spearmanr"]
    assert found[3e-3] > 0.7 and found[1e-9] < 0.3


def test_contrastive_training_needs_only_texts(
    electra_folder: Path, regression_folder: Path, tmp_path: Path
) -> None:
    draw = random.Random(1)
    lines = [toy_task.sentence(draw, i % 2) for i in range(40)]
    (tmp_path / "texts.txt").write_text("\n".join([*lines[:20], "", *lines[20:]]) + "\n")
    options = {"epochs": 1, "batch_size": 8}
    settings = toy_task.settings(tmp_path / "out", tmp_path / "texts.txt", "contrastive", **options)
    results = finetune(str(electra_folder), settings)
    assert results["train_samples"] == 36 and results["steps"] == 5  # of 8 texts, not of 4
    assert results["eval_spearmanr"] is None and "no scores" in results["eval_spearmanr_reason"]
    dev = regression_folder / "dev.csv"
    settings = toy_task.settings(
        tmp_path / "scored", tmp_path / "texts.txt", "contrastive", dev=dev, **options
    )
    assert -1 < finetune(str(electra_folder), settings)["eval_spearmanr"] < 1
    rows = [dict(row) for _, row in open_table(dev).rows]
    np.testing.assert_allclose(
        cosines(tmp_path / "scored" / "model", rows), said(tmp_path / "scored"), atol=1e-5
    )


def test_the_losses_are_the_published_ones() -> None:
    vectors = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    unit = (vectors / vectors.norm(dim=1, keepdim=True)).double().numpy()
    first, second, gold = unit[::2], unit[1::2], [3.0, 1.0, 1.0]
    scores = [float(a @ b) / 0.05 for a, b in zip(first, second, strict=True)]
    wrong = sum(math.exp(scores[j] - scores[i]) for i in range(3) for j in range(3) if gold[i] > gold[j])
    loss, count = load_task("similarity").loss(vectors, torch.tensor(gold).repeat_interleave(2))
    assert float(loss) == pytest.approx(math.log(1 + wrong), rel=1e-5) and count == 1
    each = [
        -math.log(math.exp(scores[i]) / sum(math.exp(float(first[i] @ b) / 0.05) for b in second))
        for i in range(3)
    ]
    loss, count = load_task("contrastive").loss(vectors, torch.zeros(6))
    assert float(loss) == pytest.approx(sum(each), rel=1e-5) and count == 3


@pytest.mark.parametrize(
    "changes", [{"head": "linear"}, {"class_weights": "balanced"}], ids=["head", "weights"]
)
def test_options_that_do_not_apply_are_refused(
    modern_folder: Path, regression_folder: Path, tmp_path: Path, changes: dict[str, str]
) -> None:
    settings = toy_task.settings(tmp_path / "out", regression_folder, "similarity", **changes)
    with pytest.raises(ConfigError) as caught:
        finetune(str(modern_folder), settings)
    assert caught.value.key in changes
    assert not (tmp_path / "out").exists()


def test_contrastive_training_reads_texts_beside_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nthe cat,good\nthe dog,bad\n")
    (tmp_path / "b.csv").write_text("sentence1,sentence2,score\na,b,0.5\nc,d,1\n")
    task = load_task("contrastive")
    assert [example.gold for example in task.read(tmp_path / "a.csv").examples] == [None, None]
    assert [example.gold for example in task.read(tmp_path / "b.csv").examples] == ["0.5", "1"]
