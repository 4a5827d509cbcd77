"""The head `bag`: its terms, its held-out logits in training, and its saved form."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_all_seeds import silent
from torch.nn import functional as F

from electra.artifacts.model import recorded_files
from electra.exchange.load import load
from electra.exchange.weights import read_safetensors, write_weights
from electra.finetuning.heads.bag import BagHead
from electra.finetuning.heads.parts import linear_fit
from electra.finetuning.heads.parts.contract import HeadShape
from electra.finetuning.heads.parts.linear_fit import fit_by_folds
from electra.finetuning.predict import export_tuned, predict
from electra.finetuning.runner import one_seed
from electra.finetuning.runner.all_seeds import finetune
from electra.finetuning.runner.dataset import choose_task
from electra.finetuning.runner.tuned_model import build_head
from electra.finetuning.windows.features import Batch, Windows
from electra.foundation.errors import ConfigError, DamagedModel, ModelError
from electra.testing import toy_task

BEFORE = {"terms": "known", "rarity": "rarity", "weight": "weight"}  # names of a saved head, and now


def windows(texts: list[list[int]], labels: list[int]) -> Windows:
    ids = [np.array(text) for text in texts]
    targets = [np.array(label) for label in labels]
    return Windows(ids, [np.zeros_like(text) for text in ids], np.arange(len(ids)), targets)


def batch(inputs: Windows, *numbers: int) -> Batch:
    """Padded to one longer than the longest."""
    rows = [inputs.input_ids[number] for number in numbers]
    length = 1 + max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])
    document_ids = torch.tensor([[0] * len(row) + [-1] * (length - len(row)) for row in rows])
    return Batch(np.array(numbers), ids, torch.zeros_like(ids), document_ids, None)


TABLE = torch.zeros(1, 32)  # the head reads states alone


def loss(logits: torch.Tensor, gold: torch.Tensor) -> tuple[torch.Tensor, float]:
    return torch.nn.functional.cross_entropy(logits, gold, reduction="sum"), len(gold)


def fitted(modern_folder: Path, inputs: Windows, means: torch.Tensor | None = None) -> BagHead:
    config = load(str(modern_folder), "encoder").config
    bag_head = build_head("bag", HeadShape("classifier", config, 2, "mean"), 1)
    assert isinstance(bag_head, BagHead) and inputs.targets is not None
    count = len(inputs)
    means = torch.zeros(count, 32) if means is None else means
    terms = bag_head.extract_terms(batch(inputs, *range(count)))
    bag_head.fit(means, terms, torch.from_numpy(np.stack(inputs.targets)), loss, inputs.example)
    return bag_head


def test_terms_are_tokens_and_neighbours_of_two_texts(modern_folder: Path) -> None:
    bag_head = fitted(modern_folder, windows([[5, 6, 7], [5, 6, 8], [6, 5], [9, 9]], [0, 1, 0, 1]))
    tokens = [5, 6, (5 + 1) * bag_head.vocab_size + 6]
    assert bag_head.counted.known.tolist() == tokens, "7, 8, 9 and 6 5 are in one text each"
    rarities = [np.log(5 / 4) + 1] * 2 + [np.log(5 / 3) + 1]
    assert bag_head.counted.rarity.tolist() == pytest.approx(rarities)
    bag_head.counted.weight = torch.tensor([[1.0, 10.0, 100.0], [0, 0, 0]])
    torch.nn.init.zeros_(bag_head.wide.bias)
    inputs = batch(windows([[6, 5, 5, 5], [20]], [0, 0]), 0, 1)
    one, other = bag_head.eval()(torch.randn(*inputs.input_ids.shape, 32), inputs, TABLE)[:, 0].tolist()
    assert one == pytest.approx(11 * 2**-0.5), "each term once, a text of length 1"
    assert other == 0, "no known term"


def test_training_uses_the_held_out_logits_of_the_terms(modern_folder: Path) -> None:
    draw = np.random.default_rng(1)
    texts = [[*draw.integers(20, 60, 6)] for _ in range(400)]
    known = fitted(modern_folder, windows(texts, [int(25 in text or 30 in text) for text in texts]))
    all_rows = batch(windows(texts, []), *range(400))
    hidden = torch.randn(*all_rows.input_ids.shape, 32)
    gold = torch.tensor([int(25 in text or 30 in text) for text in texts])
    torch.testing.assert_close(known(hidden, all_rows, TABLE), known.counted.held_out + known.wide.bias)
    assert (known(hidden, all_rows, TABLE).argmax(1) == gold).float().mean() > 0.9
    assert (known.eval()(hidden, all_rows, TABLE).argmax(1) == gold).float().mean() > 0.95

    chance = draw.integers(0, 2, 400)
    memorised = fitted(modern_folder, windows(texts, [*map(int, chance)]))
    cross_entropy = loss(memorised(hidden, all_rows, TABLE), torch.from_numpy(chance))[0] / 400
    assert cross_entropy < 0.75, "labels by chance: the strength is the weakest, the answers near a half"


def test_words_absent_from_training_contribute_by_their_states(modern_folder: Path) -> None:
    """The answer to a text of unknown words is that of its mean state; with known words both count."""
    draw = torch.Generator().manual_seed(1)
    texts = [[20 + number % 40] for number in range(400)]
    states = torch.randn(400, 1, 32, generator=draw)
    labels = (states[:, 0, 3] > 0).long()
    inputs = windows(texts, labels.tolist())
    bag_head = fitted(modern_folder, inputs, states[:, 0])
    known = batch(inputs, *range(400))
    padded = torch.cat([states, torch.full_like(states, 1e6)], 1)  # what is padding is not read
    assert (bag_head(padded, known, TABLE).argmax(1) == labels).float().mean() > 0.8
    unknown = batch(windows([[70 + number % 9] for number in range(400)], []), *range(400))
    assert (bag_head.eval()(padded, unknown, TABLE).argmax(1) == labels).float().mean() > 0.8


def test_with_many_examples_the_strength_is_chosen_on_a_sample(
    modern_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(1)
    texts = [[*draw.integers(20, 60, 6)] for _ in range(400)]
    inputs = windows(texts, [int(25 in text or 30 in text) for text in texts])
    whole = fitted(modern_folder, inputs).counted.held_out
    monkeypatch.setattr(linear_fit, "SELECTION_ROWS", 200)
    some = fitted(modern_folder, inputs).counted.held_out
    assert (some != 0).all(), "every text is answered by the folds without it"
    assert (some.argmax(1) == whole.argmax(1)).float().mean() > 0.95


def test_older_heads_predict_as_before(modern_folder: Path) -> None:
    inputs = windows([[5, 6, 7], [5, 6, 8], [6, 5], [9, 9]], [0, 1, 0, 1])
    bag_head, old = fitted(modern_folder, inputs), fitted(modern_folder, inputs)
    saved = bag_head.state_dict()
    old.counted.weight.zero_()
    del saved["wide.weight"]
    before = {name: saved.pop(f"counted.{now}") for name, now in BEFORE.items()}
    old.load_state_dict({**saved, **before, "bias": saved.pop("wide.bias")})
    all_rows = batch(inputs, *range(4))
    hidden = torch.randn(*all_rows.input_ids.shape, 32)
    torch.testing.assert_close(old.eval()(hidden, all_rows, TABLE), bag_head.eval()(hidden, all_rows, TABLE))


@pytest.mark.slow
def test_the_saved_model_predicts_the_same_for_texts(
    modern_folder: Path, electra_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    for model in (modern_folder, electra_folder):
        out = tmp_path / model.name
        chosen = toy_task.settings(out, sst2_folder, "sst2", head="bag", epochs=1, learning_rate=1e-5)
        results = finetune(str(model), chosen, silent)
        assert results["eval_accuracy"] == 1.0, "the words tell the label, and a tiny rate adds nothing"
        predictions = predict(str(out), sst2_folder / "dev.tsv")
        right = [line.split("\t")[1] for line in (sst2_folder / "dev.tsv").read_text().splitlines()[1:]]
        assert [predictions.task.answer(value) for value in predictions.values] == [
            predictions.task.label_names[int(label)] for label in right
        ]
        assert "counted.held_out" not in load_file(out / "model" / "head.safetensors")
        with pytest.raises(ModelError):
            export_tuned(str(out), tmp_path / "graph")
        head = out / "model" / "head.safetensors"
        content = bytearray(head.read_bytes())
        content[-1] ^= 1
        head.write_bytes(content)
        with pytest.raises(ModelError):
            predict(str(out), sst2_folder / "dev.tsv")


def test_regression_predicts_in_the_unit_of_the_data(
    modern_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    for split in ("train", "dev"):
        lines = (sst2_folder / f"{split}.tsv").read_text().splitlines()[1:]
        numbers = {"0": "10", "1": "50"}
        rows = [f"{text}\t{numbers[label]}" for text, label in (line.split("\t") for line in lines)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(["sentence\tscore", *rows]) + "\n")
    options = {"head": "bag", "epochs": 1, "learning_rate": 1e-5, "text_column": ("sentence",)}
    results = finetune(
        str(modern_folder), toy_task.settings(tmp_path / "out", tmp_path, "regression", **options), silent
    )
    assert results["eval_spearmanr"] > 0.8
    values = np.array(
        [float(value[0]) for value in predict(str(tmp_path / "out"), tmp_path / "dev.tsv").values]
    )
    assert -10 < values.min() < 20 and 40 < values.max() < 70


@pytest.mark.parametrize("task", ["pair", "ner"])
def test_pairs_and_tags_are_refused(
    modern_folder: Path, sst2_folder: Path, tmp_path: Path, task: str
) -> None:
    chosen = toy_task.settings(tmp_path / "out", sst2_folder, task, head="bag")
    with pytest.raises(ConfigError):
        finetune(str(modern_folder), chosen, silent)
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def tuned(modern_folder: Path, sst2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tuned") / "bag"
    finetune(str(modern_folder), toy_task.settings(out, sst2_folder, "sst2", head="bag", epochs=1), silent)
    return out


Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


def changed(tuned: Path, tmp_path: Path, change: Change) -> Path:
    """The model with another head, under a digest that fits it."""
    model = tmp_path / "model"
    shutil.copytree(tuned / "model", model)
    whole = load_file(model / "head.safetensors")
    save_file(change(whole), model / "head.safetensors")
    weights = model / "model.safetensors"
    listed = {name: (model / name).read_bytes() for name in recorded_files(weights) or {}}
    write_weights(weights, read_safetensors(weights), listed)
    return model


@pytest.mark.slow
def test_a_head_of_an_older_version_is_read(tuned: Path, sst2_folder: Path, tmp_path: Path) -> None:
    def older(head: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        del head["wide.weight"]
        before = {name: head.pop(f"counted.{now}") for name, now in BEFORE.items()}
        before["bias"] = head.pop("wide.bias")
        return head | before

    predictions = predict(str(changed(tuned, tmp_path, older)), sst2_folder / "dev.tsv")
    assert len(predictions.values) == len((sst2_folder / "dev.tsv").read_text().splitlines()) - 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"counted.weight": lambda x: x[:, :-1]},
        {"counted.weight": lambda x: x[:1]},
        {"counted.weight": lambda x: x[0]},
        {"counted.rarity": lambda x: x[:-1]},
        {"counted.rarity": lambda x: -x},
        {"counted.known": lambda x: x.flip(0)},
        {"counted.known": torch.zeros_like},
        {"counted.known": lambda x: x[None]},
        {"counted.known": lambda x: x[0]},
        {"counted.known": lambda x: x > 0},
        {"counted.known": lambda x: x.double()},
        {"counted.known": None},
        {"wide.weight": None},
    ],
)
def test_a_damaged_head_is_refused(
    tuned: Path, sst2_folder: Path, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    def damaged(head: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        [(name, change)] = wrong.items()
        tensor = head.pop(name)
        return head if change is None else {**head, name: change(tensor).contiguous()}

    with pytest.raises(ModelError):
        predict(str(changed(tuned, tmp_path, damaged)), sst2_folder / "dev.tsv")


def test_a_model_without_its_head_is_refused(tuned: Path, sst2_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(tuned / "model", tmp_path / "model")
    (tmp_path / "model" / "head.safetensors").unlink()
    with pytest.warns(DamagedModel), pytest.raises(ModelError) as caught:
        predict(str(tmp_path / "model"), sst2_folder / "dev.tsv")
    assert "head.safetensors" in caught.value.where


def test_the_penalty_does_not_grow_with_the_number_of_labels() -> None:
    """Labels of a text are independent in the loss, so each is fitted as if it were alone."""
    draw = np.random.default_rng(3)
    x = draw.normal(size=(200, 4))
    right = torch.tensor(x[:, :1] + draw.normal(size=(200, 1)) > 0, dtype=torch.float64)

    def loss(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, float]:
        total = F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
        return total, targets.numel()

    groups = np.arange(200)
    [one], _ = fit_by_folds(x, right, loss, 1, [0.3], groups=groups)
    many, _ = fit_by_folds(x, right.repeat(1, 10), loss, 10, [0.3], groups=groups)
    assert np.allclose(many, one, atol=1e-3)


def test_trained_separately_the_network_ignores_the_linear_model_in_training(modern_folder: Path) -> None:
    inputs = windows([[2, 9, 3], [2, 10, 3], [2, 9, 10, 3], [2, 10, 9, 3]] * 4, [0, 1, 0, 1] * 4)
    head = fitted(modern_folder, inputs)
    rows, hidden = batch(inputs, 0, 1, 2), torch.randn(3, 5, 32, generator=torch.Generator().manual_seed(0))
    torch.nn.init.normal_(
        head.usual.get_parameter("output.weight"), generator=torch.Generator().manual_seed(1)
    )
    head.usual.dropout_rate = 0.0
    both = head.eval()(hidden, rows, TABLE)
    together = head.train()(hidden, rows, TABLE)
    head.train_separately = True
    alone = head.usual(hidden, rows)
    assert torch.equal(head(hidden, rows, TABLE), alone.float()) and not torch.allclose(together, alone)
    assert torch.equal(head.eval()(hidden, rows, TABLE), both) and not torch.allclose(both, alone)


@pytest.mark.slow
def test_trained_separately_a_resumed_run_is_bit_identical(
    modern_folder: Path, sst2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weights(out: str, **changes: Any) -> dict[str, Any]:
        settings = toy_task.settings(
            tmp_path / out, sst2_folder, "sst2", head="bag", train_separately=True, epochs=1, **changes
        )
        finetune(str(modern_folder), settings, silent)
        return load_file(tmp_path / out / "seeds" / "seed-0" / "model.safetensors")

    whole, (update, count) = weights("whole"), (one_seed.update, 0)

    def stops(*inputs: Any) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return update(*inputs)

    monkeypatch.setattr(one_seed, "update", stops)
    with pytest.raises(KeyboardInterrupt):
        weights("stopped", checkpoint_every=1)
    monkeypatch.setattr(one_seed, "update", update)
    again = weights("stopped", checkpoint_every=1)
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_training_separately_needs_a_hybrid_head(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_task(toy_task.settings(tmp_path / "out", tmp_path, "sst2", train_separately=True))
    assert caught.value.key == "train_separately"
