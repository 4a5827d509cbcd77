"""Published classifiers, taggers, readers and cross-encoders: the answers of transformers' pipelines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from published import ADAPTED, TOLERANCE, TWELVE, edit, published

import electra
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.load import load
from electra.finetuning.predict import open_predictor
from electra.finetuning.windows.features import Tokens, collate
from electra.foundation.errors import ModelError
from electra.model.adapted import AdaptedEncoder

TEXTS = ["the chef cooked the meal", "a cafe", "The Chef ate, (meals) cooked!"]
LONG = [*TEXTS, "x " * 60 + "the meal"]
PAIRS = [("the chef", "cooked the meal, a cafe"), ("the meal " * 50, "a cafe"), ("ate", "ate")]
READERS = [name for name in TWELVE if name not in ("EuroBERT", "NomicBERT")]  # which have no such class
MEANINGS: dict[str, dict[str, Any]] = {
    "three labels": {"num_labels": 3},
    "many labels": {"num_labels": 50},
    "several labels at once": {"num_labels": 4, "problem_type": "multi_label_classification"},
    "one label": {"num_labels": 1},
    "a number": {"num_labels": 1, "problem_type": "regression"},
    "numbers": {"id2label": {0: "valence", 1: "arousal"}, "problem_type": "regression"},
    "another order": {"id2label": {0: "bad", 1: "good"}, "label2id": {"good": 0, "bad": 1}},
}
CASES = [(name, "three labels") for name in TWELVE]
CASES += [(name, case) for name in ("BERT", "RoBERTa", "DistilBERT") for case in [*MEANINGS][1:]]
IDENTITY = "torch.nn.modules.linear.Identity"


def folder_of(name: str, head: str, tokenizer: Tokenizer, folder: Path, **changes: Any) -> Path:
    """A folder that transformers wrote, with a head whose answers differ from text to text."""
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


def with_export(folder: Path) -> list[Path]:
    out = folder.with_name("exported")
    electra.export(folder, out=out, progress="quiet")
    return [folder, out]


def by_pipeline(folder: Path, inputs: list[Any]) -> list[dict[str, float]]:
    """What transformers answers: the score of each label."""
    pipe = transformers.pipeline("text-classification", model=str(folder), device="cpu")
    names = "text", "text_pair"
    given = [dict(zip(names, [each] if isinstance(each, str) else each, strict=False)) for each in inputs]
    answers = [pipe(each, top_k=None, truncation=True) for each in given]
    return [{answer["label"]: answer["score"] for answer in each} for each in answers]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_classifiers_answer_as_the_pipeline(name: str, case: str, uncased: Tokenizer, tmp_path: Path) -> None:
    """Single texts and pairs, truncated ones too; also of the folder that `electra export` writes."""
    folder = folder_of(name, "ForSequenceClassification", uncased, tmp_path / "given", **MEANINGS[case])
    assert isinstance(load(folder, "encoder").encoder, AdaptedEncoder) == (name in ADAPTED)
    for given in with_export(folder):
        for inputs in (LONG, PAIRS):
            expected = by_pipeline(folder, inputs)
            assert np.ptp([max(each.values()) for each in expected]) > 10 * TOLERANCE
            for [row], scores in zip(open_predictor(str(given)).texts(inputs).by_example(), expected, strict=True):
                if case in ("three labels", "many labels", "another order"):
                    assert row["predicted"] == max(scores, key=scores.__getitem__)
                [*numbers] = [row.get(f"p({label})", row.get(label, row.get("predicted"))) for label in scores]
                assert numbers == pytest.approx([*scores.values()], abs=TOLERANCE)
        assert by_pipeline(given, PAIRS) == [pytest.approx(row, abs=TOLERANCE) for row in expected]


@pytest.mark.parametrize("name", TWELVE)
def test_taggers_answer_as_the_pipeline(name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    """Each word has the label of its first piece, in sentences given as texts and as words."""
    tags = dict(enumerate(("O", "B-PER", "I-PER", "B-LOC")))
    folder = folder_of(name, "ForTokenClassification", uncased, tmp_path / "given", id2label=tags)
    pipe = transformers.pipeline("token-classification", model=str(folder), ignore_labels=[], device="cpu")
    words = [text.split() for text in TEXTS]
    for given in with_export(folder):
        predictor = open_predictor(str(given))
        for pieces, rows in zip(pipe(TEXTS), predictor.texts(TEXTS).by_example(), strict=True):
            expected = {piece["start"]: piece for piece in pieces}
            assert [row["predicted"] for row in rows] == [expected[row["start"]]["entity"] for row in rows]
            scores = [expected[row["start"]]["score"] for row in rows]
            assert [row["probability"] for row in rows] == pytest.approx(scores, abs=TOLERANCE)
        answers = pipe(words, is_split_into_words=True)
        for pieces, rows in zip(answers, predictor.texts(words).by_example(), strict=True):
            starts = np.cumsum([0, *(len(row["word"]) + 1 for row in rows)])[:-1]
            expected = {piece["start"]: piece for piece in pieces}
            assert [expected[start]["entity"] for start in starts] == [row["predicted"] for row in rows]


@pytest.mark.parametrize("name", READERS)
@torch.inference_mode()
def test_readers_give_the_logits_of_transformers(name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    folder = folder_of(name, "ForQuestionAnswering", uncased, tmp_path / "given")
    predictor, model = (open_predictor(str(folder)), transformers.AutoModelForQuestionAnswering)
    row = {"id": "1", "question": "the chef", "context": "the chef cooked the meal. a cafe", "answers": []}
    examples = predictor.texts([row]).examples
    windows = predictor.task.featurize(examples, Tokens(uncased), predictor.max_length)
    inputs = transformers.AutoTokenizer.from_pretrained(folder)(row["question"], row["context"], return_tensors="pt")
    expected = model.from_pretrained(folder).eval()(**inputs)
    ours = predictor.tuned(collate(windows, np.array([0]), 0))[0]
    for index, logits in enumerate((expected.start_logits, expected.end_logits)):
        assert (ours[:, index] - logits[0]).abs().max() <= TOLERANCE


@pytest.mark.parametrize("activation", ["", IDENTITY, "torch.nn.modules.activation.Sigmoid"])
@pytest.mark.parametrize("place", ["sentence_transformers", "sbert_ce_default_activation_function", "saved"])
def test_cross_encoders_score_as_the_library(activation: str, place: str, uncased: Tokenizer, tmp_path: Path) -> None:
    """In each place where the library has kept the function, and as its current version saves the folder."""
    library = pytest.importorskip("sentence_transformers")
    changes: dict[str, Any] = {"num_labels": 1}
    if activation and place != "saved":
        changes[place] = {"activation_fn": activation} if place == "sentence_transformers" else activation
    folder = folder_of("BERT", "ForSequenceClassification", uncased, tmp_path / "given", **changes)
    function = {"activation_fn": torch.nn.Identity()} if activation == IDENTITY else {}
    model = library.CrossEncoder(str(folder), device="cpu", **function if place == "saved" else {})
    if place == "saved":
        model.save_pretrained(str(folder := tmp_path / "saved"))
    expected = pytest.approx(model.predict(PAIRS).tolist(), abs=TOLERANCE)
    for given in with_export(folder):
        assert [row[-1] for row in open_predictor(str(given)).texts(PAIRS).table()[1:]] == expected
        assert library.CrossEncoder(str(given), device="cpu").predict(PAIRS).tolist() == expected


# What config.json says of a head with two outputs (one, if it says so), and the labels; None: one line
NAMES: dict[str, tuple[dict[str, Any], tuple[str, ...] | None]] = {
    "none": ({"id2label": None, "label2id": None, "outputs": 3}, ("LABEL_0", "LABEL_1", "LABEL_2")),
    "fewer, with their number": (
        {"id2label": {"0": "LABEL_0"}, "num_labels": 2, "label2id": None},
        ("LABEL_0", "LABEL_1"),
    ),
    "the second alone": ({"id2label": {"1": "b"}}, ("LABEL_0", "b")),
    "more than outputs": ({"id2label": {"0": "a", "1": "b", "2": "c"}}, None),
    "fewer than outputs": ({"id2label": {"0": "a"}}, None),
    "a gap beyond the outputs": ({"id2label": {"0": "a", "2": "b"}}, None),
    "names for numbers": ({"id2label": {"a": 0, "b": 1}}, None),
    "a number without end": ({"id2label": {"0": "a", "99999999999": "b"}}, None),
    "a function": ({"num_labels": 1, "sentence_transformers": {"activation_fn": "mine.Function"}}, None),
}


@pytest.mark.parametrize("name", ["BERT", "DistilBERT"])
@pytest.mark.parametrize("case", NAMES)
def test_names_of_outputs(case: str, name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    changes, labels = NAMES[case]
    outputs = changes.get("outputs", changes.get("num_labels", 2))
    folder = folder_of(name, "ForSequenceClassification", uncased, tmp_path, num_labels=outputs)
    edit(folder, **changes)
    if labels:
        assert open_predictor(str(folder)).task.label_names == labels
        return
    with pytest.raises(ModelError):
        open_predictor(str(folder))


@pytest.mark.parametrize("name", ["BERT", "ALBERT"])
def test_a_published_classifier_is_fine_tuned_further(name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    """With other labels: its head is replaced, which is said; what comes out is a model of its own."""
    folder = folder_of(name, "ForSequenceClassification", uncased, tmp_path / "given", num_labels=3)
    rows = [{"text": text, "label": label} for text in TEXTS for label in ("meal", "cafe")] * 4
    options: dict[str, Any] = {"task": "classification", "baselines": False, "progress": "quiet"}
    tuned = electra.finetune(folder, data=rows, out=tmp_path / "tuned", epochs=1, **options)
    assert any("LABEL_0, LABEL_1, LABEL_2" in note for note in tuned.results["notes"])
    assert [*tuned.folder.model.record["id2label"].values()] == ["cafe", "meal"]
