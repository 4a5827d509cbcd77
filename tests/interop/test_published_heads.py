"""Published classifiers, taggers, readers and cross-encoders: the answers of transformers' pipelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from published import ADAPTED, SHAPES, TOLERANCE, published

import electra
from electra.data.tokenizer import Tokenizer
from electra.exchange.load import load
from electra.finetuning.predict import open_predictor
from electra.foundation.errors import ModelError
from electra.model.adapted import AdaptedEncoder

TEXTS = ["the chef cooked the meal", "a cafe", "The Chef ate, (meals) cooked!", "x " * 60 + "the meal"]
PAIRS = [("the chef", "cooked the meal, a cafe"), ("the meal " * 50, "a cafe"), ("ate", "ate")]
FAMILIES = [name for name in (*SHAPES, *ADAPTED) if name != "NomicBERT" and "," not in name]
TAGS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}
every = pytest.mark.parametrize("name", FAMILIES)


def folder_of(name: str, head: str, tokenizer: Tokenizer, folder: Path, **changes: Any) -> Path:
    """A folder that transformers wrote, large enough in its weights that answers differ."""
    model = published(name, folder, tokenizer, head, **changes)
    with torch.no_grad():
        for part_name, parameter in model.named_parameters():
            if part_name.endswith(("classifier.weight", "out_proj.weight", "qa_outputs.weight")):
                parameter.mul_(5)
    model.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text()) | {"model_max_length": 70}
    if getattr(model.config, "type_vocab_size", 0) < 2:
        settings["model_input_names"].remove("token_type_ids")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def table(folder: Path, inputs: list[Any], **options: Any) -> list[dict[str, Any]]:
    """What `electra predict` writes, record by record."""
    [header, *rows] = open_predictor(str(folder)).texts(inputs, **options).table()
    return [dict(zip(header, row, strict=True)) for row in rows]


def by_pipeline(folder: Path, inputs: list[Any], **options: Any) -> list[dict[str, float]]:
    """What transformers answers: the score of each label."""
    pipe = transformers.pipeline("text-classification", model=str(folder), device="cpu")
    given = [dict(zip(("text", "text_pair"), each, strict=True)) if isinstance(each, tuple) else each
             for each in inputs]  # fmt: skip
    answers = [pipe(each, top_k=None, truncation=True, **options) for each in given]
    return [{answer["label"]: answer["score"] for answer in each} for each in answers]


@every
def test_classifiers_answer_as_the_pipeline(name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    """Single texts and pairs, truncated ones too; also of the folder that `electra export` writes."""
    folder = folder_of(name, "ForSequenceClassification", uncased, tmp_path / "given", num_labels=3)
    exported = electra.export(folder, out=tmp_path / "exported", progress="quiet")
    assert isinstance(load(folder, "encoder").encoder, AdaptedEncoder) == (name in ADAPTED)
    for inputs in (TEXTS, PAIRS):
        expected = by_pipeline(folder, inputs)
        assert np.ptp([each["LABEL_0"] for each in expected]) > 10 * TOLERANCE
        for given in (folder, exported):
            for row, scores in zip(table(given, inputs), expected, strict=True):
                assert row["label"] == max(scores, key=scores.__getitem__)
                assert {label: row[f"p({label})"] for label in scores} == pytest.approx(scores, abs=TOLERANCE)
    assert by_pipeline(exported, PAIRS) == [pytest.approx(row, abs=TOLERANCE) for row in expected]


@every
def test_taggers_answer_as_the_pipeline(name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    """Each word has the label of its first piece, in sentences given as texts and as words."""
    folder = folder_of(name, "ForTokenClassification", uncased, tmp_path / "given", id2label=TAGS)
    exported = electra.export(folder, out=tmp_path / "exported", progress="quiet")
    pipe = transformers.pipeline("token-classification", model=str(folder), ignore_labels=[], device="cpu")
    words = [text.split() for text in TEXTS[:3]]
    for given in (folder, exported):
        for text, of_text in zip(
            TEXTS[:3], open_predictor(str(given)).texts(TEXTS[:3]).by_example(), strict=True
        ):
            expected = {piece["start"]: piece for piece in pipe(text)}
            for row in of_text:
                piece = expected[row["start"]]
                assert row["label"] == piece["entity"]
                assert row["p"] == pytest.approx(piece["score"], abs=TOLERANCE)
        answers = pipe(words, is_split_into_words=True)
        for pieces, rows in zip(answers, open_predictor(str(given)).texts(words).by_example(), strict=True):
            starts = np.cumsum([0, *(len(row["word"]) + 1 for row in rows)])
            expected = {piece["start"]: piece for piece in pieces}
            assert [expected[start]["entity"] for start in starts[:-1]] == [row["label"] for row in rows]


@every
def test_readers_give_the_logits_of_transformers(name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    folder = folder_of(name, "ForQuestionAnswering", uncased, tmp_path / "given")
    predictor = open_predictor(str(folder))
    row = {"id": "1", "question": "the chef", "context": "the chef cooked the meal. a cafe", "answers": []}
    ids = np.array(predictor.loaded.tokenizer.encode(row["question"], row["context"]).ids)
    examples = predictor.texts([row]).examples
    task, tokens = predictor.task, __import__("electra.finetuning.windows.features", fromlist=["Tokens"])
    windows = task.featurize(examples, tokens.Tokens(predictor.loaded.tokenizer), predictor.max_length)
    assert (windows.input_ids[0] == ids).all()
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    types = {"token_type_ids": torch.tensor(windows.token_type_ids[0])[None]}
    if model.config.model_type in ("distilbert", "mpnet", "modernbert", "roberta", "xlm-roberta"):
        types = {}
    from electra.finetuning.windows.features import collate

    batch = collate(windows, np.array([0]), 0)
    with torch.inference_mode():
        expected = model(input_ids=torch.tensor(ids)[None], **types)
        ours = predictor.tuned(batch)[0]
    assert (ours[:, 0] - expected.start_logits[0]).abs().max() <= TOLERANCE
    assert (ours[:, 1] - expected.end_logits[0]).abs().max() <= TOLERANCE


# What config.json says, and the function that transformers' pipeline applies then
MEANINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "several labels at once": ({"num_labels": 4, "problem_type": "multi_label_classification"}, {}),
    "one label": ({"num_labels": 1}, {}),
    "a number": ({"num_labels": 1, "problem_type": "regression"}, {}),
    "numbers": ({"id2label": {0: "valence", 1: "arousal"}, "problem_type": "regression"}, {}),
    "many labels": ({"num_labels": 50}, {}),
    "names that label2id orders otherwise": (
        {"id2label": {0: "bad", 1: "good"}, "label2id": {"good": 0, "bad": 1}},
        {},
    ),
}


@pytest.mark.parametrize("name", ["BERT", "RoBERTa", "DistilBERT"])
@pytest.mark.parametrize("case", MEANINGS)
def test_outputs_mean_what_config_says(case: str, name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    changes, options = MEANINGS[case]
    folder = folder_of(name, "ForSequenceClassification", uncased, tmp_path / "given", **changes)
    exported = electra.export(folder, out=tmp_path / "exported", progress="quiet")
    expected = by_pipeline(folder, PAIRS, **options)
    for given in (folder, exported):
        for row, scores in zip(table(given, PAIRS), expected, strict=True):
            [*numbers] = [row.get(f"p({label})", row.get(label, row.get("score"))) for label in scores]
            assert numbers == pytest.approx([*scores.values()], abs=TOLERANCE)
    assert by_pipeline(exported, PAIRS, **options) == [pytest.approx(row, abs=TOLERANCE) for row in expected]


@pytest.mark.parametrize(
    "activation", ["", "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"]
)
@pytest.mark.parametrize("place", ["sentence_transformers", "sbert_ce_default_activation_function", "saved"])
def test_cross_encoders_score_as_the_library(
    activation: str, place: str, uncased: Tokenizer, tmp_path: Path
) -> None:
    """In each place where the library has kept the function, and as its current version saves the folder."""
    library = pytest.importorskip("sentence_transformers")
    changes: dict[str, Any] = {"num_labels": 1}
    if activation and place != "saved":
        changes[place] = {"activation_fn": activation} if place == "sentence_transformers" else activation
    folder = folder_of("BERT", "ForSequenceClassification", uncased, tmp_path / "given", **changes)
    function = {"activation_fn": torch.nn.Identity()} if activation.endswith("Identity") else {}
    model = library.CrossEncoder(str(folder), device="cpu", **function if place == "saved" else {})
    if place == "saved":
        model.save_pretrained(str(folder := tmp_path / "saved"))
    expected = pytest.approx(model.predict(PAIRS).tolist(), abs=TOLERANCE)
    exported = electra.export(folder, out=tmp_path / "exported", progress="quiet")
    for given in (folder, exported):
        assert [row["score"] for row in table(given, PAIRS)] == expected
        assert library.CrossEncoder(str(given), device="cpu").predict(PAIRS).tolist() == expected


def edited(folder: Path, **changes: Any) -> Path:
    values = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(
        json.dumps({key: values[key] for key in values if values[key] is not None})
    )
    return folder


def test_labels_without_a_name_get_their_number(uncased: Tokenizer, tmp_path: Path) -> None:
    folder = folder_of("BERT", "ForSequenceClassification", uncased, tmp_path / "given", num_labels=4)
    edited(folder, id2label={"0": "a", "1": "b", "3": "d"})
    assert open_predictor(str(folder)).loaded.labels == ("a", "b", "LABEL_2", "d")
    edited(folder, id2label=None, label2id=None)
    assert open_predictor(str(folder)).loaded.labels == tuple(f"LABEL_{index}" for index in range(4))


WRONG: dict[str, dict[str, Any]] = {
    "more names than outputs": {"id2label": {"0": "a", "1": "b", "2": "c"}},
    "gaps beyond the outputs": {"id2label": {"0": "a", "2": "b"}},
    "names for numbers": {"id2label": {"a": 0, "b": 1}},
    "a number without end": {"id2label": {"0": "a", "99999999999": "b"}},
    "an unknown function": {"num_labels": 1, "sentence_transformers": {"activation_fn": "mine.Function"}},
}


@pytest.mark.parametrize("name", ["BERT", "DistilBERT"])
@pytest.mark.parametrize("case", WRONG)
def test_what_a_head_does_not_mean_is_one_line(
    case: str, name: str, uncased: Tokenizer, tmp_path: Path
) -> None:
    outputs = WRONG[case].get("num_labels", 2)
    folder = folder_of(name, "ForSequenceClassification", uncased, tmp_path / "given", num_labels=outputs)
    edited(folder, **WRONG[case])
    with pytest.raises(ModelError):
        open_predictor(str(folder))


@pytest.mark.parametrize("name", ["BERT", "ALBERT"])
def test_a_published_classifier_is_fine_tuned_further(name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    """With other labels: its head is replaced, which is said; what comes out is a model of its own."""
    folder = folder_of(name, "ForSequenceClassification", uncased, tmp_path / "given", num_labels=3)
    rows = [{"text": text, "label": label} for text in TEXTS for label in ("meal", "cafe")]
    options: dict[str, Any] = {"epochs": 1, "baselines": False, "progress": "quiet"}
    tuned = electra.finetune(folder, data=rows * 4, task="classification", out=tmp_path / "tuned", **options)
    assert any("LABEL_0, LABEL_1, LABEL_2" in note for note in tuned.results["notes"])
    assert {*table(tmp_path / "tuned" / "model", TEXTS)[0]} >= {"p(meal)", "p(cafe)"}
