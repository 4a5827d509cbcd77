"""The head `frozen`: the encoder is not trained, and the linear model is scikit-learn's."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contracts import toy_task
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression

from electra.exchange.load import load
from electra.finetuning import linear_fit
from electra.finetuning.heads import frozen
from electra.finetuning.predict import open_predictor
from electra.finetuning.score import choose_head
from electra.finetuning.settings import Settings
from electra.finetuning.train import prepared
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.train.one_seed import train_seed
from electra.foundation.errors import ConfigError, DamagedModel
from electra.inference.embedding import embed

COLOURS = ("red", "green", "blue")


def frozen_settings(folder: Path, task: str) -> Settings:
    return toy_task.settings(folder / "out", folder / "data", task, head="frozen", epochs=None, learning_rate=None)


def write_rows(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])
    return rows


def three_classes(folder: Path, name: str, count: int) -> list[tuple[str, ...]]:
    """Texts whose second word is their label."""
    others = toy_task.OTHER * count
    whose = "a" if name == "dev" else "my"  # no text is in both
    ends = [f"{others[i // len(toy_task.OTHER)]} town {i % 3}" for i in range(count)]  # all different
    rows = [(f"a {others[i]} film of {whose} {ends[i]}", COLOURS[i % 3]) for i in range(count)]
    return write_rows(folder / f"{name}.csv", ("text", "label"), rows)


def pairs(folder: Path, name: str, count: int) -> list[tuple[str, ...]]:
    """Pairs of texts that are about the same colour or not."""
    rows, others = [], toy_task.OTHER * count
    for i in range(count):
        first, second = COLOURS[i % 3], COLOURS[i % 3 if i % 2 else (i + 1) % 3]
        whose = "a" if name == "dev" else "my"
        texts = f"a {first} {others[i]} film of {whose} town {i}", f"the town was {second} {others[i % 4]}"
        rows.append((*texts, ("other", "same")[i % 2]))
    return write_rows(folder / f"{name}.csv", ("text_a", "text_b", "label"), rows)


@pytest.mark.parametrize("encoder", ["modern_folder", "electra_folder"])
@pytest.mark.parametrize(("task", "write"), [("classification", three_classes), ("pair", pairs)])
def test_probabilities_are_those_of_logistic_regression_on_the_mean_of_the_states(
    task: str, write: Any, encoder: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Of the two texts of a pair: on the differences and products of their vectors."""
    model = str(request.getfixturevalue(encoder))
    train, dev = write(tmp_path / "data", "train", 90), write(tmp_path / "data", "dev", 12)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {"STRENGTHS": (30.0,), "ITERATIONS": 2000, "TOLERANCE": 0.0}.items():
            patched.setattr(linear_fit, name, value)
        assert finetune(model, frozen_settings(tmp_path, task))["steps"] == 0
    loaded = load(model, "encoder")

    def features(rows: list[tuple[str, ...]]) -> np.ndarray:
        u, *v = (embed(loaded, list(texts), "mean").astype(float) for texts in [*zip(*rows, strict=True)][:-1])
        return np.hstack([abs(u - v[0]), u * v[0]]) if v else u

    x, y = features(train), features(dev)
    mean = x.mean(0)
    scale = np.sqrt(np.square(x - mean).sum(1).mean())
    # Of two classes scikit-learn penalises one vector, and ours two that are half as long.
    expected = LogisticRegression(C=30.0 if task == "classification" else 60.0, max_iter=10_000, tol=1e-8)
    expected.fit((x - mean) / scale, [row[-1] for row in train])
    answers = open_predictor(str(tmp_path / "out"))(tmp_path / "data/dev.csv")
    order = [answers.task.label_names.index(label) for label in expected.classes_]
    probabilities = np.stack(answers.values)[:, order]
    # In float32 the loss, about 1, is known to 1e-7: a fit stops where it is 1e-7 above its minimum. The
    # curvature is at least 1 / (C N) = 1 / 2700, so two fits are at most sqrt(2e-7 * 2700) = .02 apart, and
    # probabilities a quarter of that times the length of a text's vector, about 1.
    np.testing.assert_allclose(probabilities, expected.predict_proba((y - mean) / scale), atol=5e-3)


def test_a_pair_classifier_of_an_older_version_still_reads_both_texts_together(
    tmp_path: Path, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs(tmp_path / "data", "train", 40)
    rows = pairs(tmp_path / "data", "dev", 12)
    settings = frozen_settings(tmp_path, "pair")
    with monkeypatch.context() as older:
        older.setattr(frozen.Frozen, "separates_pairs", False)
        finetune(str(modern_folder), settings)
    loaded = load(str(modern_folder), "encoder")
    head = load_file(tmp_path / "out/model/head.safetensors")
    assert head["output.weight"].shape == (2, loaded.config.hidden_size)
    answers = open_predictor(str(tmp_path / "out"))(tmp_path / "data/dev.csv")
    first, second, _ = rows[0]
    ids = torch.tensor([loaded.tokenizer.encode(first, second).ids])
    with torch.inference_mode():
        logits = loaded.encoder(ids).mean(1) @ head["output.weight"].T + head["output.bias"]
    assert np.allclose(answers.values[0], logits.softmax(-1)[0], atol=1e-4)


def test_a_tokenizer_that_does_not_end_a_pair_with_the_separator_is_refused(
    tmp_path: Path, modern_folder: Path
) -> None:
    shutil.copytree(modern_folder, tmp_path / "model")
    tokenizer = json.loads((tmp_path / "model/tokenizer.json").read_text())
    template = tokenizer["post_processor"]
    template["pair"] = template["pair"][:2] + template["pair"][3:]  # [CLS] a b [SEP]
    (tmp_path / "model/tokenizer.json").write_text(json.dumps(tokenizer))
    pairs(tmp_path / "data", "train", 40)
    settings = frozen_settings(tmp_path, "pair")
    with pytest.warns(DamagedModel), pytest.raises(ConfigError, match="tokenizer"):
        finetune(str(tmp_path / "model"), settings)


@pytest.mark.parametrize(
    ("pair", "texts"),
    [
        ([2, 5, 6, 3, 7, 3], ([2, 5, 6, 3], [2, 7, 3])),
        ([0, 5, 2, 2, 7, 8, 2], ([0, 5, 2], [0, 7, 8, 2])),  # RoBERTa
        ([2, 5, 3, 3], ([2, 5, 3], [2, 3])),  # the second text is empty
        ([2, 3, 7, 3], ([2, 3], [2, 7, 3])),
        ([0, 5, 2, 2, 2], ([0, 5, 2], [0, 2])),
    ],
)
def test_a_pair_is_split_into_its_texts(pair: list[int], texts: tuple[list[int], list[int]]) -> None:
    assert tuple(list(ids) for ids in frozen.split_pair(np.array(pair))) == texts


@pytest.mark.parametrize("wins", ["frozen", "counts", "fine-tuned", "neither"])
def test_the_automatic_head_is_the_better_one_on_a_part_of_train(
    wins: str, tmp_path: Path, modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "MIN_UPDATES", 20)
    held_out, better = list[int](), wins.replace("neither", "frozen")  # which costs less
    linear_answers = choose_head.linear_answers

    def linear(trials: Any) -> dict[str, dict[int, Any]]:
        return {
            head: of_head if head == wins else dict.fromkeys(of_head, np.eye(3)[0])
            for head, of_head in linear_answers(trials).items()
        }

    def trained(of_head: Any, seed: int, folder: None) -> tuple[Any, Any]:
        held_out.append(len(of_head.splits["dev"].examples))
        model, state = train_seed(of_head, seed, folder)
        if wins != "fine-tuned":
            with torch.no_grad():
                model.head.rescale(0.0, 0.0)  # always the first label
        return model, state

    monkeypatch.setattr(choose_head, "linear_answers", linear)
    monkeypatch.setattr(choose_head, "train_seed", trained)
    for name, count in (("train", 60), ("dev", 15)):
        three_classes(tmp_path / "data", name, count)
    settings = replace(frozen_settings(tmp_path, "classification"), head="auto", layer_decay=None)
    results = finetune(str(modern_folder), settings)
    assert held_out == [12] * 5 and results["head"] == better.replace("fine-tuned", "transformers")
    [note] = [note for note in results["notes"] if note.startswith(f"head: {better}, ")]
    assert note.count("+-") == 4, "each score has a standard error"
    assert ("chance" in note) is (wins == "neither")
    resumed = replace(settings, seeds=2)
    again = finetune(str(modern_folder), resumed)
    assert [again[key] for key in ("head", "notes")] == [results[key] for key in ("head", "notes")]
    trained_longer = replace(settings, out=tmp_path / "longer", epochs=0.5)
    assert finetune(str(modern_folder), trained_longer)["head"] == "transformers"
    assert len(held_out) == 5, "chosen once"


def test_what_would_train_the_encoder_is_refused(tmp_path: Path, modern_folder: Path) -> None:
    three_classes(tmp_path / "data", "train", 30)
    with pytest.raises(ConfigError, match="nothing is trained") as caught:
        finetune(str(modern_folder), replace(frozen_settings(tmp_path, "classification"), epochs=1.0))
    assert caught.value.key == "epochs" and not (tmp_path / "out").exists()


def test_tags_are_learned_without_training_the_encoder(tmp_path: Path, modern_folder: Path) -> None:
    data = toy_task.write_tagging(tmp_path / "data", train=100, dev=20)
    settings = toy_task.settings(tmp_path / "out", data, "tagging", head="frozen", epochs=None, baselines=True)
    results = finetune(str(modern_folder), settings)
    assert results["steps"] == 0
    assert results["eval_accuracy"] > results["baselines"]["majority"]["eval_accuracy"]
