"""Question answering end to end: files, windows, exact characters, both readers, and transformers' losses and
predictions.
"""

import gzip
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toy_questions
from contracts import toy_task
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_loop import write_start
from toy_questions import squad

from electra.commands.framework.main import main
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.load import load
from electra.finetuning.answer_spans import END, START, QuestionAnswering
from electra.finetuning.predict import open_predictor
from electra.finetuning.score.evaluate import run_model
from electra.finetuning.score.squad import squad2_scores
from electra.finetuning.settings import Settings
from electra.finetuning.tasks import load_task
from electra.finetuning.train.all_seeds import finetune
from electra.finetuning.train.dataset import choose_task, read_dataset
from electra.finetuning.train.one_seed import build_model
from electra.finetuning.train.prepared import Finetuning, prepare, resolve
from electra.finetuning.windows.context_windows import (
    CandidateSpan,
    Context,
    Prediction,
    Window,
    best_window,
    cut_windows,
    plain_spans,
)
from electra.finetuning.windows.features import PairTemplate, Tokens, collate
from electra.foundation.errors import ConfigError, DataError, ElectraError


@pytest.fixture(scope="module")
def squad_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_questions.write_squad(tmp_path_factory.mktemp("data") / "squad")


@pytest.fixture(scope="module")
def squad2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_questions.write_squad(tmp_path_factory.mktemp("data") / "squad2", unanswerable=True)


def tuning_for(model: Path, chosen: Settings) -> tuple[Finetuning, list[str]]:
    loaded, dataset = load(model, "encoder"), read_dataset(chosen, choose_task(chosen))
    return prepare(resolve(chosen, dataset, loaded.config), dataset, loaded)


def task_named(name: str) -> QuestionAnswering:
    task = load_task(name)
    assert isinstance(task, QuestionAnswering)
    return task


# --- files


def test_squad_json_and_jsonl_give_the_same_examples(tmp_path: Path) -> None:
    context, texts, starts = "Émile went to 東京 in 1887.", ["東京", "in 1887"], [14, 17]
    listed = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    nested = squad({"id": "7", "question": "Where?", "answers": listed}, context=context)
    hub_answers = {"text": texts, "answer_start": starts}
    hub = {"id": "7", "question": "Where?", "context": context, "answers": hub_answers}
    (tmp_path / "train.json.gz").write_bytes(gzip.compress(nested.encode()))
    (tmp_path / "train.jsonl").write_text(json.dumps(hub) + "\n")
    looked_up = {"q": "Where?", "c": context, "a": texts, "id": 7}
    (tmp_path / "own.jsonl").write_text(json.dumps(looked_up) + "\n")
    task = task_named("squad")
    own = replace(task, texts=(("q", "c"),), label=("a",))
    [first] = task.read(tmp_path / "train.json.gz").examples
    [second], [third] = (
        task.read(tmp_path / "train.jsonl").examples,
        own.read(tmp_path / "own.jsonl").examples,
    )
    assert first.texts == ("Where?", context) and str(first.where).endswith("question 7")
    assert str(second.where).endswith("train.jsonl:1")
    assert first.id == second.id == third.id == "7" and first.gold == second.gold == third.gold
    assert [context[a.start : a.start + len(a.text)] for a in first.gold] == texts


def test_an_answer_with_a_wrong_offset_is_moved_or_reported(electra_folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    # One off (the second place is nearer), nowhere, and right.
    texts = {"a": ("red", 10), "b": ("night", 2), "c": ("town", 13)}
    questions: list[dict[str, Any]] = [
        {"id": name, "question": "my", "answers": [{"text": text, "answer_start": start}]}
        for name, (text, start) in texts.items()
    ]
    for split in ("train", "dev"):
        (data / f"{split}.json").write_text(squad(*questions, context="red film red town"))
    examples = task_named("squad").read(data / "train.json").examples
    assert [example.gold[0].start for example in examples] == [9, None, 13]
    chosen = toy_task.settings(tmp_path / "out", data, "squad", epochs=1, dev=data / "dev.json")
    tuning, notes = tuning_for(electra_folder, chosen)
    assert any("does not occur in the context" in note and note.endswith(": 1") for note in notes)
    assert any("not at their offset" in note and note.endswith(": 1") for note in notes)
    dev = tuning.splits["dev"].windows
    assert list(tuning.train.example) == [0, 2] and list(dev.example) == [0, 1, 2]
    assert dev.targets is not None and not dev.targets[1].any()  # no loss, but a prediction and a score


def one(**changes: Any) -> dict[str, Any]:
    return {"id": "a", "question": "my", "answers": [{"text": "town", "answer_start": 4}], **changes}


def answers(text: str, start: float) -> str:
    return squad(one(answers=[{"text": text, "answer_start": start}]), context="red town")


BAD = {
    "squad.json": [
        *(answers("town", start) for start in (400, -1, float("inf"), 6)),
        answers("night", 0),  # no answer occurs in its context
        squad(one(answers=[]), context="red town"),
        squad(one(), one(), context="red town"),  # two of one id
        squad({"id": "a", "question": 3}, context="x"),
        squad({"id": "a", "question": "x"}, context="x"),
        squad(context="x"),
        '{"data": [{"title": "t"}]}',
        "[1, 2",
        '{"rows": []}',
    ],
    "squad2.json": [
        squad(one(is_impossible=True), context="red town"),
        squad(one(answers=[], is_impossible=True), context="red"),  # no question has an answer
    ],
    "qa.jsonl": [
        '{"question": "x"}\n',
        '{"question": "x", "context": "y", "answers": [7]}\n',
        '{"question": "x", "context": "y", "answers": {"text": ["y", "y"], "answer_start": [0]}}\n',
        "",
    ],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name, contents in BAD.items() for content in contents]
)
def test_the_error_of_a_bad_file_is_one_line(name: str, content: str, tmp_path: Path) -> None:
    task, _, ending = name.partition(".")
    for split in ("train", "dev"):
        (tmp_path / f"{split}.{ending}").write_text(content)
    chosen = toy_task.settings(tmp_path / "out", tmp_path, task)
    with pytest.raises(ElectraError) as caught:
        read_dataset(chosen, choose_task(chosen))
    assert f"train.{ending}" in caught.value.where
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_lengths_that_leave_no_room_are_refused(electra_folder: Path, squad_folder: Path, tmp_path: Path) -> None:
    for length in (60, 5):  # more than the positions; less than a question
        with pytest.raises(ConfigError) as caught:
            chosen = toy_task.settings(tmp_path / "out", squad_folder, "squad", max_length=length)
            tuning_for(electra_folder, chosen)
        assert caught.value.key == "max_length"


# --- windows and characters


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 30), st.integers(0, 5))
@settings(max_examples=100, deadline=None, database=None, derandomize=True)
def test_windows_contain_every_token_and_each_is_scored_once(length: int, room: int, stride: int, asked: int) -> None:
    offsets = np.stack([np.arange(length), np.arange(1, length + 1)], -1).reshape(-1, 2)
    context = Context(np.arange(100, 100 + length), offsets, np.zeros(length, bool))
    windows = cut_windows(np.full(asked, 7), context, TEMPLATE, asked + 3 + room, stride)
    judged = [int(offset) for window in windows for offset in window.offsets[window.may_start][:, 0]]
    assert sorted(judged) == list(range(length))
    for window in windows:
        assert len(window.ids) <= asked + 3 + room and window.first == asked + 2
        pieces = [100 + start for start, _ in window.offsets]
        assert list(window.ids) == [1, *[7] * asked, 2, *pieces, 2]
        assert list(window.types) == [0] * (asked + 2) + [1] * (len(window.offsets) + 1)
    assert all(b.start - a.start == min(stride, room) for a, b in pairwise(windows))
    assert length == 0 or windows[-1].start + len(windows[-1].offsets) == length


def test_a_token_is_scored_where_its_shorter_context_is_longest() -> None:
    assert list(best_window([0, 4, 8], [8, 12, 14], 14)) == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


ALPHABET = str.split("fine|Dull|e\u0301|\u00e9|\u4eac|\U0001f600|a| |  |\t|.|,|\u00a0|\u200d|\u0130|the", "|")


@pytest.mark.slow
@given(st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=25), st.data())
@settings(max_examples=150, deadline=None, database=None, derandomize=True)
def test_answers_are_mapped_back_to_exact_characters(pieces: list[str], data: st.DataObject) -> None:
    """Whatever tokens an answer covers: pointing at them gives context[start:end], which holds the answer."""
    tokenizer = words()
    text = "".join(pieces)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    context = Context.of(tokenizer, text)
    span = context.tokens_of(start, end)
    letters = [place for place in range(start, end) if text[place].isalnum()]
    if span is None:
        assert not letters
        return
    (window,) = cut_windows(np.array([5]), context, PairTemplate.of(tokenizer), 200, 50)
    logits = np.zeros((len(window.ids), 2))
    place = window.target(span)
    assert place is not None
    logits[place[0], 0] = logits[place[1], 1] = 9.0
    task = replace(task_named("squad"), max_answer=60)
    best = task._predict_example(text, [(window, logits)]).best
    assert best.text == text[best.start : best.end] and best.text == best.text.strip()
    assert all(best.start <= place < best.end for place in letters)


@cache
def words() -> Tokenizer:
    """A vocabulary of characters and some words (hypothesis and fixtures do not go together)."""
    pieces = [*["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "fine", "dull", "the", ".", ","], *"aefintdul"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("\n".join([*pieces, *(f"##{c}" for c in "aefintdul")]) + "\n")
        return Tokenizer.load(Path(folder) / "vocab.txt")


TEMPLATE = PairTemplate(np.array([1]), np.array([2]), np.array([2]), (0, 0, 0, 1, 1))


def window_of(count: int, blank: Sequence[int] = (), **changes: Any) -> Window:
    """A window of one question token and tokens of one character each."""
    offsets = np.stack([np.arange(count), np.arange(1, count + 1)], -1).reshape(-1, 2)
    context = Context(np.arange(count), offsets, np.isin(np.arange(count), blank))
    return replace(cut_windows(np.array([5]), context, TEMPLATE, 40, 9)[0], **changes)


def test_an_answer_covers_whole_words_and_no_neighbours() -> None:
    context = Context.of(words(), "fine,dull.")
    spans = {(0, 4): (0, 0), (4, 5): (1, 1), (5, 9): (2, 2), (0, 5): (0, 1), (1, 3): (0, 0), (3, 6): (0, 2)}
    assert {span: context.tokens_of(*span) for span in spans} == spans


def test_targets_are_the_answer_cls_or_nothing(squad2_folder: Path, electra_folder: Path, tmp_path: Path) -> None:
    chosen = toy_task.settings(tmp_path / "out", squad2_folder, "squad2", max_length=9, stride=2)
    prepared, notes = tuning_for(electra_folder, chosen)
    windows, examples = vars(prepared.splits["dev"]).values()
    assert len(windows) > 60
    assert any(f"dev: 60 questions in {len(windows)} windows" in note for note in notes)
    for number, window, bits in zip(windows.example, windows.context, windows.targets, strict=True):
        example = examples[number]
        if not example.gold or bits[0]:  # no answer, or not wholly in this window
            assert bits[0] == START | END and not bits[1:].any()
        else:
            first, last = (np.flatnonzero(bits & bit).item() - window.first for bit in (START, END))
            text = example.texts[1][window.offsets[first, 0] : window.offsets[last, 1]]
            assert text == example.gold[0].text
    assert {bits[0] for bits in windows.targets} == {0, START | END}


def test_the_best_spans_equal_those_of_an_exhaustive_search() -> None:
    draw = np.random.default_rng(5)
    window = window_of(12, may_start=draw.random(12) < 0.8)
    logits = draw.normal(size=(len(window.ids), 2))
    inner = logits[window.first : window.first + 12]
    spans = [(i, j) for i in range(12) for j in range(i, min(12, i + 4)) if window.may_start[i]]
    every = sorted(((inner[i, 0] + inner[j, 1], i, j) for i, j in spans), reverse=True)
    actual = [(round(s + e, 9), i, j) for i, j, s, e in plain_spans(window, logits, 4, 7)]
    assert actual == [(round(score, 9), i, j) for score, i, j in every[:7]]


def test_white_space_is_no_answer() -> None:
    """Byte-level tokenizers make tokens of double spaces: the stripped answer would be the empty one."""
    window = window_of(3, blank=[1])
    assert {start for start, *_ in plain_spans(window, np.zeros((len(window.ids), 2)), 4, 9)} == {0, 2}


def test_the_null_score_is_the_lowest_of_all_windows() -> None:
    text = "fine dull " * 5
    windows = cut_windows(np.array([5]), Context.of(words(), text), PairTemplate.of(words()), 8, 4)
    assert len(windows) > 2
    outputs = [np.zeros((len(window.ids), 2)) for window in windows]
    for output, null in zip(outputs, (3.0, -1.0, 2.0), strict=False):
        output[0] = null / 2
    outputs[0][windows[0].first] = 2.0  # the best answer: the first token, with a score of 4
    prediction = task_named("squad2")._predict_example(text, list(zip(windows, outputs, strict=True)))
    assert (prediction.best.text, prediction.best.score, prediction.null_odds) == ("fine", 4.0, -1.0 - 4.0)


# --- training


def test_the_loss_of_windows_of_one_length_is_that_of_transformers_itself(
    electra_folder: Path, squad_folder: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForQuestionAnswering

    tuning, _ = tuning_for(electra_folder, toy_task.settings(tmp_path / "out", squad_folder, "squad"))
    model, loaded = build_model(tuning, 1).eval(), load(electra_folder, "encoder")
    write_start(tmp_path / "start", model, tuning, loaded.tokenizer)
    reference = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "start").eval()
    lengths = np.array([len(ids) for ids in tuning.train.input_ids])
    batch = collate(tuning.train, np.flatnonzero(lengths == np.bincount(lengths).argmax()), tuning.pad)
    assert batch.document_ids is None and batch.targets is not None
    loss, count = tuning.task.loss(model(batch), batch.targets)
    starts, ends = ((batch.targets & bit).argmax(1) for bit in (START, END))
    inputs = {"input_ids": batch.input_ids, "token_type_ids": batch.token_type_ids}
    with torch.no_grad():
        expected = reference(**inputs, start_positions=starts, end_positions=ends).loss
    assert count == len(batch.index) > 3
    torch.testing.assert_close(loss.detach() / count, expected)


@pytest.mark.parametrize(("architecture", "name"), [("electra", "squad"), ("modern", "squad2")])
@pytest.mark.slow
def test_training_learns_and_transformers_gives_the_same_answers(
    architecture: str, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model, data = (request.getfixturevalue(f"{stem}_folder") for stem in (architecture, name))
    out, is_second = tmp_path / "out", name == "squad2"
    results = finetune(str(model), toy_task.settings(out, data, name, epochs=5))
    assert results["eval_f1"] > 0.8
    files = {path.name: path for path in (out / "seeds" / "seed-0").iterdir()}
    said, lists = (json.loads(files[f"dev.{kind}.json"].read_text()) for kind in ("predictions", "nbest"))
    null_odds = json.loads(files["dev.null_odds.json"].read_text()) if is_second else {}
    assert ("dev.null_odds.json" in files) == is_second
    reference = AutoModelForQuestionAnswering.from_pretrained(out / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(out / "model")
    for paragraph in json.loads((data / "dev-v1.json").read_text())["data"][0]["paragraphs"]:
        (entry,), context = paragraph["qas"], paragraph["context"]
        inputs = tokenizer(entry["question"], context, return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            logits = reference(**inputs)
        starts, ends = logits.start_logits[0].tolist(), logits.end_logits[0].tolist()
        inside = [i for i, sequence in enumerate(inputs.sequence_ids(0)) if sequence == 1]
        score, first, last = max((starts[i] + ends[j], i, j) for i in inside for j in inside if i <= j)
        best, odds = lists[entry["id"]][0], starts[0] + ends[0] - score
        assert (best["start"], best["end"]) == (offsets[first][0], offsets[last][1])
        assert best["start_logit"] + best["end_logit"] == pytest.approx(score, abs=1e-4)
        assert best["text"] == context[best["start"] : best["end"]]
        assert not is_second or null_odds[entry["id"]] == pytest.approx(odds, abs=1e-4)
        assert said[entry["id"]] == ("" if is_second and odds > 0 else best["text"])
    rows = [tuple(line.split("\t")) for line in files["dev.tsv"].read_text().splitlines()]
    assert open_predictor(str(out))(data / "dev-v1.json", threshold=0.0 if is_second else None).rows() == rows


def check_threshold(out: Path, dev: Path) -> None:
    """What was best on dev is kept with the model, and followed."""
    results = json.loads((out / "all_results.json").read_text())
    kept = json.loads((out / "model" / "config.json").read_text())["no_answer_threshold"]
    place = results["seeds"].index(results["kept_seed"])
    assert kept == results["eval_best_exact_match_threshold_by_seed"][place]
    predictions = open_predictor(str(out))(dev)
    said = {row[0]: row[1] for row in predictions.rows()[1:]}
    examples = task_named("squad2").read(dev).examples
    actual = squad2_scores(
        [said[e.id] for e in examples], [[a.text for a in e.gold] for e in examples], [0.0] * len(said), 1.0
    )
    assert actual["exact_match"].value == results["eval_best_exact_match_by_seed"][place]
    assert any(f"{kept:.4g}" in note for note in predictions.notes)


def test_nothing_depends_on_the_padding(electra_folder: Path, squad2_folder: Path, tmp_path: Path) -> None:
    chosen = toy_task.settings(tmp_path / "out", squad2_folder, "squad2")
    prepared, _ = tuning_for(electra_folder, chosen)
    windows, task = prepared.splits["dev"].windows, prepared.task
    model = build_model(prepared, 0).eval()
    outputs, loss = run_model(model, windows, task, pad=prepared.pad, device=prepared.device)
    batches = [collate(windows, np.array([i]), prepared.pad) for i in range(len(windows))]
    with torch.no_grad():
        alone = [model(batch) for batch in batches]
    parts = [task.loss(each, batch.targets) for each, batch in zip(alone, batches, strict=True)]  # type: ignore[arg-type]
    assert loss == pytest.approx(sum(map(float, (part for part, _ in parts))) / len(parts), abs=1e-5)
    for one, together in zip(alone, outputs, strict=True):
        np.testing.assert_allclose(one[0].numpy(), together, atol=1e-5)


def test_without_a_dev_file_questions_about_one_context_stay_together(tmp_path: Path) -> None:
    lines = [{"question": f"{n} my", "context": f"town {n // 5}", "answers": ["town"]} for n in range(100)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    chosen = toy_task.settings(tmp_path / "out", tmp_path / "train.jsonl", "qa")
    splits = read_dataset(chosen, choose_task(chosen)).splits
    train, dev = ({example.texts[1] for example in splits[name]} for name in ("train", "dev"))
    assert len(splits["dev"]) == 10 and not train & dev


def test_no_answer_is_given_above_the_threshold_not_at_it() -> None:
    task, best = (
        replace(task_named("squad2"), no_answer_threshold=-2.75),
        (CandidateSpan("old", 0, 3, 0.0, 0.0),),
    )
    said = [task.answer(Prediction(best, odds)).text for odds in (-2.8, -2.75, -2.7)]
    assert said == ["old", "old", ""]


@pytest.mark.slow
def test_predictions_as_the_official_scorer_reads_them(
    electra_folder: Path, squad2_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, dev, said = tmp_path / "out", squad2_folder / "dev-v1.json", tmp_path / "said.json"
    chosen = toy_task.settings(out, squad2_folder, "squad2", epochs=0.5, seeds=2)
    results = finetune(str(electra_folder), chosen)
    command = ["predict", str(out), str(dev), "--out", str(said)]
    assert main([*command, "--threshold", "0"]) == 0
    kept = out / "seeds" / f"seed-{results['kept_seed']}" / "dev.predictions.json"
    assert json.loads(said.read_text()) == json.loads(kept.read_text())
    check_threshold(out, dev)
    assert main([*command, "--threshold", "-1000000"]) == 0
    assert not any(json.loads(said.read_text()).values())
    config = out / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"no_answer_threshold": "low"}))
    assert main(command) == 2 and "no_answer_threshold" in capsys.readouterr().err


def test_a_threshold_is_refused_where_there_is_none(electra_folder: Path, squad_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    finetune(str(electra_folder), toy_task.settings(out, squad_folder, "squad", epochs=0.1))
    assert "no_answer_threshold" not in json.loads((out / "model/config.json").read_text())
    with pytest.raises(ConfigError) as caught:
        open_predictor(str(out))(squad_folder / "dev-v1.json", threshold=1.0)
    assert caught.value.key == "threshold"


def test_a_context_without_tokens_has_no_answer(tmp_path: Path) -> None:
    task, tokenizer = task_named("squad2"), toy_task.tokenizer(tmp_path)
    (tmp_path / "x.json").write_text(squad({"id": "a", "question": "my"}, context=" "))
    examples = task.read(tmp_path / "x.json", labelled=False).examples
    windows = task.featurize(examples, Tokens(tokenizer), 24)
    (prediction,) = task.predict([np.zeros((len(windows.input_ids[0]), 2), np.float32)], windows, examples)
    assert task.answer(prediction).text == ""
    assert task.table([prediction], examples)[1][:4] == ("a", "", -1, -1)
    with pytest.raises(DataError):
        task.read(tmp_path / "x.csv")
