"""Fine-tuning end to end on toy tasks: training, scores, saved models and the files written."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from contracts import toy_task
from plain_loop import groups_with_decay, losses_of, write_start

from electra.exchange.load import load
from electra.finetuning.finetuned_model import FinetunedModel
from electra.finetuning.predict import open_predictor
from electra.finetuning.score.evaluate import evaluate, run_model
from electra.finetuning.settings import Settings
from electra.finetuning.train import one_seed as training
from electra.finetuning.train.all_seeds import finetune, scores_over_seeds
from electra.finetuning.train.dataset import choose_task, read_dataset
from electra.finetuning.train.one_seed import build_model, parameter_groups, train_seed
from electra.finetuning.train.prepared import Finetuning, prepare, resolve
from electra.finetuning.windows.features import Tokens, collate, epoch_order
from electra.foundation.errors import Interrupted, RunFailed


def tuning_for(model: Path, settings: Settings) -> Finetuning:
    loaded, dataset = load(model, "encoder"), read_dataset(settings, choose_task(settings))
    return prepare(resolve(settings, dataset, loaded.config), dataset, loaded)[0]


def read_tsv(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def transformers_logits(folder: Path, texts: list[tuple[str, ...]]) -> torch.Tensor:
    """One text at a time: nothing can depend on padding."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = [tokenizer(*text, return_tensors="pt", truncation=True) for text in texts]
    with torch.no_grad():
        return torch.cat([model(**each).logits for each in inputs])


def test_training_learns_and_the_saved_model_predicts_the_same(classified: Path, sst2_folder: Path) -> None:
    from transformers import AutoConfig

    results = json.loads((classified / "all_results.json").read_text())
    by_seed = results["eval_accuracy_by_seed"]
    assert results["eval_accuracy"] == pytest.approx(np.mean(by_seed)) and np.mean(by_seed) > 0.95
    assert results["eval_accuracy_median"] == pytest.approx(np.median(by_seed))
    assert results["eval_accuracy_sd"] == pytest.approx(np.std(by_seed, ddof=1))
    assert [results[f"{split}_samples"] for split in ("train", "eval", "test")] == [300, 60, 20]
    assert results["seeds"] == [0, 1] and results["kept_seed"] == int(np.argmax(by_seed))

    kept_seed = classified / "seeds" / f"seed-{results['kept_seed']}"
    rows, dev = read_tsv(sst2_folder / "dev.tsv"), read_tsv(kept_seed / "dev.tsv")
    gold = [("negative", "positive")[int(row["label"])] for row in rows]
    correct = [row["label"] == label for row, label in zip(dev, gold, strict=True)]
    assert np.mean(correct) == pytest.approx(by_seed[results["kept_seed"]])
    assert [row["id"] for row in read_tsv(kept_seed / "test.tsv")] == [str(100 + i) for i in range(20)]

    assert AutoConfig.from_pretrained(classified / "model").id2label == {0: "negative", 1: "positive"}
    reference = transformers_logits(classified / "model", [(row["sentence"],) for row in rows]).softmax(-1)
    ours = torch.tensor([[float(row["p(negative)"]), float(row["p(positive)"])] for row in dev])
    torch.testing.assert_close(reference, ours, atol=1e-5, rtol=0)
    for name in (str(classified), str(classified / "model")):
        header, *predicted = open_predictor(name)(sst2_folder / "dev.tsv").rows()
        assert [header, *predicted] == [tuple(dev[0]), *(tuple(row.values()) for row in dev)]
    assert "after epoch 1: accuracy" in (classified / "log.txt").read_text()


def test_a_pair_regression_predicts_in_the_unit_of_the_data(measured: Path, regression_folder: Path) -> None:
    predictions = open_predictor(str(measured))(regression_folder / "dev.csv")
    texts = [example.texts for example in predictions.examples]
    reference = transformers_logits(measured / "model", texts).squeeze(-1).double().numpy()
    np.testing.assert_allclose(np.concatenate(predictions.values), reference, atol=1e-4)
    gold = [1 + 2.5 * (i % 2 + i // 2 % 2) for i in range(60)]
    pearson = json.loads((measured / "all_results.json").read_text())["eval_pearson"]
    assert np.corrcoef(reference, gold)[0, 1] == pytest.approx(pearson, abs=1e-4) and pearson > 0.9
    assert np.abs(reference - gold).mean() < 0.8
    dev = read_tsv(measured / "seeds/seed-0/dev.tsv")
    np.testing.assert_allclose([float(row["score"]) for row in dev], reference, atol=1e-4)
    assert json.loads((measured / "model/config.json").read_text())["problem_type"] == "regression"


@pytest.mark.parametrize(("architecture", "pooling"), [("electra", "cls"), ("modern", "cls"), ("modern", "mean")])
@pytest.mark.usefixtures("every_step_logged")
def test_the_first_twenty_losses_are_those_of_a_plain_transformers_loop(
    architecture: str, pooling: str, request: pytest.FixtureRequest, regression_folder: Path, tmp_path: Path
) -> None:
    """Same weights, same order, no dropout: the loop below shares nothing with ours but the order of the
    examples.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = request.getfixturevalue(f"{architecture}_folder")
    exact = {"dropout": 0.0, "layer_decay": 0.7, "epochs": 20 / 19, "pooling": pooling}
    tuning = tuning_for(
        model, toy_task.settings(tmp_path / "out", regression_folder, "pair", label_column="score", **exact)
    )
    start = build_model(tuning, seed=5)
    loaded = load(model, "encoder")
    write_start(tmp_path / "start", start, tuning, loaded.tokenizer)
    _, progress = train_seed(tuning, 5, tmp_path / "checkpoints")
    ours = [loss for _, loss in progress.losses]
    assert len(ours) == 20

    reference = AutoModelForSequenceClassification.from_pretrained(tmp_path / "start").train()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "start")
    with open(regression_folder / "train.csv", newline="") as file:
        data = list(csv.DictReader(file))
    classes = ["1.0", "3.5", "6.0"]
    order = [batch for epoch in (0, 1) for batch in epoch_order(tuning.train.lengths(), 16, 5, epoch)]

    def loss_of(batch: Sequence[int]) -> torch.Tensor:
        first, second, scores = ([data[i][name] for i in batch] for name in data[0])
        inputs = tokenizer(first, second, padding=True, return_tensors="pt")
        return reference(**inputs, labels=torch.tensor([*map(classes.index, scores)])).loss  # type: ignore[no-any-return]

    np.testing.assert_allclose(ours, losses_of(reference, groups_with_decay(reference, 0.7), order, loss_of), atol=1e-4)
    assert np.ptp(ours) > 0.01


def test_learning_rates_decay_from_the_top_layer_down(electra_folder: Path, sst2_folder: Path, tmp_path: Path) -> None:
    model = build_model(tuning_for(electra_folder, toy_task.settings(tmp_path, sst2_folder)), 0)
    groups = parameter_groups(model, 1.0, 0.5, 0.1)
    found = {id(p): (group["peak"], group["weight_decay"]) for group in groups for p in group["params"]}
    named = dict(model.named_parameters())
    assert len(found) == len(named)
    expected = {
        "head.dense.weight": (1.0, 0.1),
        "encoder.layers.1.qkv.weight": (0.5, 0.1),
        "encoder.layers.1.qkv.bias": (0.5, 0.0),
        "encoder.layers.0.output.bias": (0.25, 0.0),
        "encoder.projection.weight": (0.125, 0.1),
        "encoder.embeddings.words.weight": (0.125, 0.1),
    }
    assert {name: found[id(named[name])] for name in expected} == expected


def test_mean_pooling_is_the_default_if_transformers_supports_it(
    electra_folder: Path, modern_folder: Path, sst2_folder: Path, tmp_path: Path
) -> None:
    chosen = toy_task.settings(tmp_path / "out", sst2_folder)
    poolings = [tuning_for(model, chosen).settings.pooling for model in (electra_folder, modern_folder)]
    assert poolings == ["cls", "mean"]
    assert tuning_for(electra_folder, replace(chosen, pooling="mean")).settings.pooling == "mean"


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_nothing_depends_on_the_padding(
    architecture: str, request: pytest.FixtureRequest, sst2_folder: Path, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(f"{architecture}_folder")
    tuning = tuning_for(folder, toy_task.settings(tmp_path, sst2_folder))
    model, dev = build_model(tuning, 0).eval(), tuning.splits["dev"].windows
    alone = torch.cat([model(collate(dev, np.array([i]), tuning.pad)) for i in range(8)])
    together = model(collate(dev, np.arange(len(dev)), tuning.pad))[:8]
    assert len({len(ids) for ids in dev.input_ids[:8]}) > 1
    torch.testing.assert_close(alone, together, atol=1e-6, rtol=0)
    outputs, _ = run_model(model, dev, tuning.task, pad=tuning.pad, device=tuning.device)
    np.testing.assert_allclose(np.stack(outputs[:8]), alone.detach().numpy(), atol=1e-6)


def test_only_the_rows_of_tokens_in_the_data_are_trained(
    electra_folder: Path, sst2_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint of an older version, which trained the whole table, opens too."""
    tuning = tuning_for(electra_folder, toy_task.settings(tmp_path / "out", sst2_folder))
    model, state = train_seed(tuning, 0, tmp_path / "straight")
    changed = (model.encoder.token_table() != tuning.start.encoder.token_table()).any(1).nonzero().flatten()
    used = {tuning.pad}.union(*(ids.tolist() for ids in tuning.train.input_ids))
    assert len(changed) > 1 and set(changed.tolist()) <= used and len(used) < tuning.start.config.vocab_size
    stops = iter([False] * 3 + [True])
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(training, "UsedRows", type("Whole", (), {"__new__": lambda cls, words, ids: words}))
        train_seed(replace(tuning, stopping=lambda: next(stops)), 0, tmp_path / "stopped")
    resumed, resumed_state = train_seed(tuning, 0, tmp_path / "stopped")
    assert resumed_state.losses == state.losses
    torch.testing.assert_close(resumed.state_dict(), model.state_dict(), atol=1e-6, rtol=0)


def test_an_epoch_has_every_example_once_in_batches_of_similar_length() -> None:
    lengths = np.random.default_rng(0).integers(5, 100, 5000)
    batches = epoch_order(lengths, 32, seed=1, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(5000))
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    assert padded < 1.05 * lengths.sum()
    assert [b.tolist() for b in batches] == [b.tolist() for b in epoch_order(lengths, 32, seed=1, epoch=0)]
    assert {tuple(b) for b in batches}.isdisjoint(tuple(b) for b in epoch_order(lengths, 32, seed=1, epoch=1))
    assert {tuple(b) for b in batches}.isdisjoint(tuple(b) for b in epoch_order(lengths, 32, seed=2, epoch=0))


def test_truncation_equals_that_of_transformers(electra_folder: Path) -> None:
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(electra_folder)
    tokens = Tokens(load(electra_folder, "encoder").tokenizer)
    texts = {size: " ".join(toy_task.OTHER[:size]) for size in (0, 1, 4, 9, 15)}
    for row in [*((text,) for text in texts.values()), *product(texts.values(), repeat=2)]:
        [(ids, types, cut)] = tokens.join([[text] for text in row], 12)
        expected, whole = (
            reference(*([text] for text in row), **limit) for limit in ({"max_length": 12, "truncation": True}, {})
        )
        assert (ids.tolist(), types.tolist()) == (expected["input_ids"][0], expected["token_type_ids"][0])
        assert cut == (len(whole["input_ids"][0]) > 12)


def test_both_orders_of_a_pair_are_read_in_training_only(
    electra_folder: Path, regression_folder: Path, tmp_path: Path
) -> None:
    settings = toy_task.settings(tmp_path, regression_folder, "stsb")
    tuning, sep = tuning_for(electra_folder, settings), 3
    assert (len(tuning.train), len(tuning.splits["dev"].windows)) == (600, 60)
    first, swapped = tuning.train.input_ids[0].tolist(), tuning.train.input_ids[300].tolist()
    cut = first.index(sep)
    assert swapped == [first[0], *first[cut + 1 : -1], sep, *first[1:cut], sep]
    assert tuning.train.example[300] == 0


def test_without_a_dev_file_a_tenth_is_held_out_and_reported(sst2_folder: Path, tmp_path: Path) -> None:
    chosen = toy_task.settings(tmp_path / "out", sst2_folder / "train.tsv", limit_train=50)
    dataset = read_dataset(chosen, choose_task(chosen))
    assert len(dataset.splits["dev"]) == pytest.approx(30, abs=3) and len(dataset.splits["train"]) == 50
    assert all([note for note in dataset.notes if said in note] for said in ("no dev file", "50 of"))


def test_an_undefined_metric_is_null_with_a_reason() -> None:
    scores = {"accuracy": 1.0, "matthews_correlation": None, "reasons": {"matthews_correlation": "one label"}}
    results = scores_over_seeds([{"eval": scores, "others": {}}] * 2, ("accuracy", "matthews_correlation"))
    assert results["eval_matthews_correlation"] is None and results["eval_accuracy"] == 1.0
    assert results["eval_matthews_correlation_reason"] == "one label"


def test_a_loss_that_is_not_a_number_stops_the_run(electra_folder: Path, sst2_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFailed):
        finetune(str(electra_folder), toy_task.settings(tmp_path / "out", sst2_folder, learning_rate=1e30))


def test_bf16_training_ends_near_fp32(electra_folder: Path, sst2_folder: Path, tmp_path: Path) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        tuning = tuning_for(
            electra_folder,
            toy_task.settings(tmp_path, sst2_folder, precision=precision, dropout=0.0, epochs=1),
        )
        model, _ = train_seed(tuning, 0, tmp_path / precision)
        assert isinstance(model, FinetunedModel)
        losses[precision] = evaluate(tuning, model, tuning.splits["dev"]).loss
    assert losses["bf16"] == pytest.approx(losses["fp32"], abs=0.05)
