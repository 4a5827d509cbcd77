"""User tables in every format, multi-label data, class weights, GLUE's files and best epochs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from contracts import toy_task
from test_finetune import transformers_logits

from electra.exchange.huggingface import exported_weights
from electra.exchange.load import load
from electra.exchange.weights import digest
from electra.finetuning.labelled.examples import Example
from electra.finetuning.labelled.splits import text_hash
from electra.finetuning.predict import open_predictor
from electra.finetuning.score.records import is_wrong, read_records
from electra.finetuning.tasks import load_task
from electra.finetuning.text_answers import TextClassification
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.train.dataset import choose_task, read_dataset
from electra.foundation.errors import ConfigError, DataError, Interrupted

TOPICS = {"blame": toy_task.BAD[0], "film": "film", "praise": toy_task.GOOD[0]}


def write_multi_label(folder: Path, count: int = 90) -> Path:
    """Each topic of a sentence is given by its word; a sentence may have none or several."""
    folder.mkdir()
    for split, size in (("train", count), ("dev", 40)):
        draw, lines = np.random.default_rng(size), []
        for _ in range(size):
            words = [toy_task.OTHER[3]] * int(draw.integers(1, 4))
            topics = [topic for topic in TOPICS if draw.random() < 0.4]
            lines.append({"text": [*words, *map(TOPICS.__getitem__, topics)], "labels": topics})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_several_labels_of_one_text(modern_folder: Path, tmp_path: Path) -> None:
    data, out = write_multi_label(tmp_path / "data"), tmp_path / "out"
    chosen = toy_task.settings(
        out, data, "classification", multi_label=True, label_column="labels", epochs=6, learning_rate=5e-3
    )
    results = finetune(str(modern_folder), chosen)
    assert results["eval_f1_micro"] > 0.9 and results["primary_metric"] == "f1_micro"
    config = json.loads((out / "model" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    assert list(config["id2label"].values()) == list(TOPICS)
    predictions = open_predictor(str(out))(data / "dev.jsonl")
    texts = [example.texts for example in predictions.examples]
    reference = transformers_logits(out / "model", texts).sigmoid()
    np.testing.assert_allclose(np.stack(predictions.values), reference.numpy(), atol=1e-5)
    first = [label for label, p in zip(predictions.task.label_names, reference[0], strict=True) if p > 0.5]
    assert predictions.rows()[1][1] == "|".join(first)
    assert open_predictor(str(out / "model"))(data / "dev.jsonl").rows() == predictions.rows()
    dataset = read_dataset(chosen, choose_task(chosen))
    train, dev = (
        np.array([[name in e.gold for name in TOPICS] for e in dataset.splits[split]], np.float32)
        for split in ("train", "dev")
    )
    logits, gold = torch.randn(40, 3), torch.from_numpy(dev)
    loss, count = dataset.task.loss(logits, gold)
    assert float(loss) / count == pytest.approx(float(torch.nn.BCEWithLogitsLoss()(logits, gold)))
    balanced = replace(chosen, class_weights="balanced")
    weights = read_dataset(balanced, choose_task(balanced)).task.weights
    assert weights == pytest.approx((90 - train.sum(0)) / train.sum(0))


def test_cells_with_several_labels_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\nx,a|b\ny,\nz,b|c\nw,"[""a"", ""b""]"\nv,[]\n')
    own = choose_task(toy_task.settings(tmp_path, path, "classification", multi_label=True))
    assert [e.gold for e in own.read(path).examples] == [("a", "b"), (), ("b", "c"), ("a", "b"), ()]
    one_sided = replace(own, balanced=True).fit([example("a", "b"), example("a")])
    assert one_sided.weights == (1.0, 1.0)  # every example has "a": a weight of 0 would leave it unlearned
    with pytest.raises(DataError, match="f:1"):
        own.fit([example("a"), example("a")])
    for task in ("sst2", "ner"):
        with pytest.raises(ConfigError, match="multi_label"):
            choose_task(toy_task.settings(tmp_path, path, task, multi_label=True))


def example(*gold: str) -> Example:
    return Example("0", "f:1", ("x",), gold)


def test_lists_are_refused_and_numbers_are_labels_of_glue_only(tmp_path: Path) -> None:
    own, path = load_task("classification"), tmp_path / "a.jsonl"
    path.write_text('{"text": "x"}\n{"text": "y", "label": "good"}\n{"text": "z", "label": NaN}\n')
    assert [e.gold for e in own.read(path, labelled=False).examples] == [None, "good", None]
    path.write_text('{"text": "x", "label": ["a", "b"]}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:1"):
        own.read(path)
    named, number = (
        [Example("0", "f:1", ("x",), label) for label in ("good", "bad")],
        Example("2", "f:3", ("y",), "1"),
    )
    with pytest.raises(DataError, match="f:3"):  # labels from the data have no numbers
        own.fit(named).fit(named).gold_class(number)
    glue = load_task("sst2")
    assert isinstance(glue, TextClassification) and glue.gold_class(number) == 1


def test_answers_that_match_after_normalisation_are_right() -> None:
    """Exact match compares without articles, case and punctuation."""
    assert not is_wrong({"gold": ["Normans"], "predicted": "the Normans."})
    assert is_wrong({"gold": ["Normans"], "predicted": "Norman"}) and is_wrong({"gold": ["b"], "predicted": ""})
    assert not is_wrong({"gold": [], "predicted": ""}) and is_wrong({"gold": [], "predicted": "x"})
    [row] = read_records(b"id\tanswer\tstart\tend\tprobability\na\tx\t5\t6\t0.5\n")
    assert row == {"id": "a", "answer": "x", "start": 5, "end": 6, "probability": 0.5}


def test_special_tokens_in_a_text_are_plain_to_the_saved_model_too(classified: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.tsv").write_text("sentence\nthe [SEP] film [MASK] new\n")
    predictions = open_predictor(str(classified), allow_unknown=True)(tmp_path / "odd.tsv")
    texts = [example.texts for example in predictions.examples]
    reference = transformers_logits(classified / "model", texts).softmax(-1)
    np.testing.assert_allclose(np.stack(predictions.values), reference.numpy(), atol=1e-6)
    [record] = json.loads(predictions.content("json"))
    probabilities = [record["p(negative)"], record["p(positive)"]]
    assert probabilities == predictions.values[0].tolist(), "no digit is lost"
    (tmp_path / "answered.tsv").write_text("sentence\tlabel\nthe film\tno label of the task\n")
    assert len(open_predictor(str(classified))(tmp_path / "answered.tsv").values) == 1
    with pytest.raises(ConfigError, match="text_column"):
        open_predictor(str(classified))(tmp_path / "odd.tsv", ("a", "b"))


@pytest.fixture(scope="module")
def mnli_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MNLI's layout in small: good words entail, bad ones contradict; the test files have no answers."""
    folder = tmp_path_factory.mktemp("mnli")
    answers = ("entailment", "contradiction", "neutral")
    sizes = {"train": 60, "dev_matched": 12, "dev_mismatched": 9, "test_matched": 6, "test_mismatched": 6}
    for name, count in sizes.items():
        has_answers, header = name != "test_mismatched", "index\tsentence1\tsentence2"
        rows = [header + "\tgold_label" * has_answers]
        for i in range(count):
            word = (toy_task.GOOD[0], toy_task.BAD[0], "old")[i % 3]
            answer = "hidden" if name == "test_matched" else answers[i % 3]
            rows.append(
                f"{i}\tthe film\tthe {word} film{' and music' * (name != 'train')}" + f"\t{answer}" * has_answers
            )
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.mark.slow
def test_mnli_has_two_genres(modern_folder: Path, mnli_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "mnli"
    results = finetune(str(modern_folder), toy_task.settings(out, mnli_folder, "mnli", epochs=1))
    assert (results["eval_samples"], results["dev_mismatched_samples"], results["test_samples"]) == (12, 9, 6)
    assert 0 <= results["dev_mismatched_accuracy"] <= 1 and "test_accuracy" not in results
    assert any(note.startswith("test: ") and "'hidden'" in note for note in results["notes"])


def test_the_encoder_of_a_fine_tuned_model_is_trained_further(classified: Path, tmp_path: Path) -> None:
    data = toy_task.write_regression(tmp_path / "data", train=20, dev=4)
    for model in (classified, classified / "model"):
        out = tmp_path / model.name
        finetune(str(model), toy_task.settings(out, data, "regression", epochs=0.5))
        identity = json.loads((out / "finetune.json").read_text())["identity"]
        encoder = load(classified / "model", "encoder").encoder
        assert identity["weights"] == digest(exported_weights(encoder, None))


@pytest.mark.slow
def test_the_best_epoch_is_kept_by_a_resume(electra_folder: Path, sst2_folder: Path, tmp_path: Path) -> None:
    """Settings with which the second epoch was the best (where this was written): a last epoch that is worse
    must not be kept.
    """
    chosen = toy_task.settings(
        tmp_path / "whole", sst2_folder, epochs=4, dropout=0.3, keep_epoch="best", limit_train=160
    )
    results = finetune(str(electra_folder), chosen)
    epochs = json.loads((tmp_path / "whole/seeds/seed-0/results.json").read_text())["epochs"]
    assert len(epochs) == 4 and results["eval_accuracy"] == max(epoch["accuracy"] for epoch in epochs)
    steps, broken = iter(range(100)), replace(chosen, out=tmp_path / "broken")
    with pytest.raises(Interrupted):
        finetune(str(electra_folder), broken, stop=lambda: next(steps) == 23)
    finetune(str(electra_folder), broken)
    for name in ("model.safetensors", "dev.tsv"):
        one, other = (tmp_path / run / "seeds/seed-0" / name for run in ("whole", "broken"))
        assert one.read_bytes() == other.read_bytes()


def test_without_a_score_the_last_epoch_is_kept(electra_folder: Path, tmp_path: Path) -> None:
    data = toy_task.write_classification(tmp_path / "data", train=40, dev=10)
    header, *lines = (data / "dev.tsv").read_text().splitlines(keepends=True)
    (data / "dev.tsv").write_text(header + "".join(lines[1::2]))  # CoLA's metric needs both labels
    weights = []
    for keep in ("best", "last"):
        finetune(str(electra_folder), toy_task.settings(tmp_path / keep, data, "cola", epochs=2, keep_epoch=keep))
        weights.append((tmp_path / keep / "seeds/seed-0/model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_a_label_that_was_held_out_is_reported(tmp_path: Path) -> None:
    rows = [f"the film {i}\t{('dull', 'fine')[i % 2]}" for i in range(40)]
    aside = min(range(40), key=lambda i: text_hash((rows[i].split("\t")[0],)))
    rows[aside] = rows[aside].split("\t")[0] + "\tonly here"
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *rows, ""]))
    chosen = toy_task.settings(tmp_path / "out", tmp_path, "classification", class_weights="balanced")
    dataset = read_dataset(chosen, choose_task(chosen))
    assert any(note.endswith("cannot be learned then: 'only here'") for note in dataset.notes)
    train = dataset.splits["train"]
    counts = [sum(example.gold == name for example in train) for name in ("dull", "fine")]
    assert dataset.task.weights[:2] == pytest.approx([len(train) / (3 * count) for count in counts])
