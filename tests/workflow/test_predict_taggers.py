"""Taggers read sentences: files and standard input with a text on each line, rows with a text, requests."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from contracts import toy_task

import electra
from electra.commands.framework.main import main
from electra.finetuning.train.all_seeds import finetune

TEXT = "(the fine film) can't fail..."
WORDS = ["(", "the", "fine", "film", ")", "can't", "fail", "..."]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Detects errors: of training words "bad" is one, half of the time."""
    folder = tmp_path_factory.mktemp("ged")
    model = toy_task.save_encoder(folder / "model", "modern")
    rows = "the\tc\nfine\tc\n.\tc\n\nthe\tc\nbad\ti\n.\tc\n\nthe\tc\nbad\tc\n.\tc\n\n"
    (folder / "train.tsv").write_text(rows * 8)
    (folder / "dev.tsv").write_text(rows)
    settings = toy_task.settings(
        folder / "out", folder / "train.tsv", "ged", dev=folder / "dev.tsv", epochs=1, allow_unknown=True
    )
    finetune(str(model), settings)
    return str(folder / "out")


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], str]:
    capsys.readouterr()
    assert main(["predict", *arguments, "--format", "jsonl", "--allow-unknown"]) == 0
    out, err = capsys.readouterr()
    return [json.loads(line) for line in out.splitlines()], err


def from_stdin(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))


def test_a_sentence_on_each_line(
    tuned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = f"{TEXT}\nthe film .\n"
    (tmp_path / "new.txt").write_text(lines)
    (tmp_path / "new.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in lines.splitlines()))
    expected = [*((TEXT, word) for word in WORDS), *(("the film .", word) for word in ("the", "film", "."))]
    answers = []
    for name in ("-", "new.txt", "new.jsonl"):
        from_stdin(lines, monkeypatch)
        rows, _ = run([tuned, name if name == "-" else str(tmp_path / name)], capsys)
        assert [row["word"] for row in rows] == [word for _, word in expected], name
        assert [text[row["start"] : row["end"]] for row, (text, _) in zip(rows, expected, strict=True)] == [
            word for _, word in expected
        ]
        answers.append([(row["predicted"], row["probability"]) for row in rows])
    assert answers[0] == answers[1] == answers[2]
    python = electra.open(tuned).predict(lines.splitlines(), allow_unknown=True)
    assert [row["word"] for row in python] == [word for _, word in expected]
    assert [row["probability"] for row in python] == pytest.approx([p for _, p in answers[0]])


def test_other_columns_come_back(tuned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = "{}\t{}\t_\tNOUN\t_\t_\t0\troot\t_\tSpaceAfter=No\n"
    words = row.format(1, "a") + row.format(2, "b")
    (tmp_path / "a.conllu").write_text(f"# sent_id = s7\n# text = a b\n{words}\n")
    rows, _ = run([tuned, str(tmp_path / "a.conllu")], capsys)
    assert [(row["id"], row["ID"], row["word"], row["UPOS"], row["MISC"]) for row in rows] == [
        ("s7", "1", "a", "NOUN", "SpaceAfter=No"),
        ("s7", "2", "b", "NOUN", "SpaceAfter=No"),
    ]
    tags, empty = [row["predicted"] for row in rows], "\t_" * 8
    in_misc = words.replace("No\n", "No|ged={}\n")
    for name, given, expected in (
        ("a.conllu", f"# a comment\n1-2\tab{empty}\n{words}\n", f"# a comment\n1-2\tab{empty}\n{in_misc}\n"),
        ("b.conll", "a x\nb x\n\n", "a {}\nb {}\n\n"),
        ("c.bio", "a\nb\n", "a {}\nb {}\n"),
    ):
        (tmp_path / name).write_text(given)
        arguments = ["predict", tuned, str(tmp_path / name), "--allow-unknown", "--out"]
        assert main([*arguments, str(tmp_path / f"out-{name}")]) == 0 == main([*arguments, "x.conllup"]) - 2
        assert (tmp_path / f"out-{name}").read_text() == expected.format(*tags)
    (tmp_path / "a.jsonl").write_text('{"words": ["a", "b"], "gold": ["c", "i"]}\n{"words": ["c"], "n": 5}\n')
    rows, _ = run([tuned, str(tmp_path / "a.jsonl")], capsys)
    assert [(row.get("gold"), row.get("n")) for row in rows] == [("c", None), ("i", None), (None, 5)]


def test_a_threshold_and_the_scores_of_every_word(
    tuned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "the bad fine film ."
    from_stdin(text, monkeypatch)
    scored, _ = run([tuned, "-", "--scores"], capsys)
    chances = [row["p(i)"] for row in scored]
    assert [row["p(c)"] + p for row, p in zip(scored, chances, strict=True)] == pytest.approx([1.0] * 5)
    threshold = sorted(chances)[2]
    for cut in (0.0, threshold, 1.0):
        from_stdin(text, monkeypatch)
        rows, notes = run([tuned, "-", "--threshold", str(cut)], capsys)
        assert [row["predicted"] for row in rows] == ["i" if p >= cut else "c" for p in chances]
        told = [p if p >= cut else 1 - p for p in chances]
        assert [row["probability"] for row in rows] == pytest.approx(told, abs=1e-5)
        assert "'i'" in notes
    from_stdin(text, monkeypatch)
    assert main(["predict", tuned, "-", "--threshold", "2"]) == 2


def test_a_mistake_is_shown_in_its_sentence(tuned: str) -> None:
    for row in electra.open(tuned).mistakes():
        assert f"**{row['word']}**" in row["text"] and row["gold"] != row["predicted"]
        assert row["text"].replace("**", "") in ("the fine .", "the bad .")
    assert electra.open(tuned).mistakes()


def test_requests_to_a_tagger_may_be_sentences(tuned: str) -> None:
    testclient = pytest.importorskip("starlette.testclient")
    from electra.serving.app import make_app
    from electra.serving.limits import Limits
    from electra.serving.models import open_models

    served = open_models([tuned])
    with testclient.TestClient(make_app(served, Limits(), ("localhost",)), base_url="http://localhost") as client:
        answer = client.post("/predict", json={"inputs": [TEXT], "threshold": 0.0}).json()
    (found,) = answer["results"]
    assert [(row["word"], row["predicted"]) for row in found["words"]] == [(word, "i") for word in WORDS]
    assert [TEXT[row["start"] : row["end"]] for row in found["words"]] == WORDS
