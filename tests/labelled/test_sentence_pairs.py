"""Scored pairs, minimal pairs and n-best lists: valid files, and errors that name the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from electra.finetuning.labelled.hypotheses import Utterance, read_utterances
from electra.finetuning.labelled.sentence_pairs import read_minimal_pairs, read_scored_pairs
from electra.finetuning.labelled.tagged_sentences import Sentence, read_columns, read_universal_dependencies
from electra.foundation.errors import DataError


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_scored_pairs_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "dev.tsv", "index\tscore\tsentence1\tsentence2", '0\t2.5\ta "b\tc', "1\t0\td\te")
    assert read_scored_pairs(path) == [('a "b', "c", 2.5), ("d", "e", 0.0)]
    with pytest.raises(DataError) as caught:
        read_scored_pairs(write(path, "score\tsentence1\tsentence2", "high\ta\tb"))
    assert "dev.tsv:2" in caught.value.where
    with pytest.raises(DataError):
        read_scored_pairs(write(path, "a\tb", "1\t2"))
    with pytest.raises(DataError):
        read_scored_pairs(write(path, "score\tsentence1\tsentence2", "1\ta\tb"))


def test_minimal_pairs_are_read(tmp_path: Path) -> None:
    def pair(good: str, bad: str) -> dict[str, str]:
        return {"sentence_good": good, "sentence_bad": bad, "linguistics_term": "order"}

    path = write(
        tmp_path / "p.jsonl", pair("a b", "b a"), pair("c", "c"), pair("d e", "e d"), pair("f g", "g f")
    )
    found = read_minimal_pairs(path, limit=2)
    assert (found.name, found.phenomenon, found.benchmark) == ("p", "order", tmp_path.name)
    assert (found.good, found.bad, found.num_equal) == (("a b", "d e"), ("b a", "e d"), 1)
    with pytest.raises(DataError) as caught:
        read_minimal_pairs(write(path, {"sentence_good": "a", "sentence_bad": " "}))
    assert "p.jsonl:1" in caught.value.where
    with pytest.raises(DataError):
        read_minimal_pairs(write(path, pair("a", "a")))


@pytest.mark.parametrize("score", ["nan", "inf", "", "x"])
def test_scores_must_be_numbers(score: str, tmp_path: Path) -> None:
    path = write(tmp_path / "dev.tsv", "sentence1\tsentence2\tscore", "a\tb\t1", f"c\td\t{score}")
    with pytest.raises(DataError) as caught:
        read_scored_pairs(path)
    assert "dev.tsv:3" in caught.value.where


def test_utterances_are_read_with_their_hypotheses(tmp_path: Path) -> None:
    hyps = [{"text": "a b", "am": -1, "lm": -2.5}, {"text": "a", "am": -3, "lm": -1}]
    path = write(tmp_path / "n.jsonl", {"ref": "a b", "hyps": hyps})
    assert read_utterances(path) == [Utterance("a b", ("a b", "a"), {"am": (-1.0, -3.0), "lm": (-2.5, -1.0)})]
    assert read_utterances(path, hypotheses=1)[0].hypotheses == ("a b",)
    for wrong, place in [
        ({"hyps": hyps}, "n.jsonl:1"),
        ({"ref": "a", "hyps": []}, "n.jsonl:1"),
        ({"ref": "a", "hyps": [hyps[0], {"text": "b", "am": 1}]}, "n.jsonl:1"),
        ({"ref": "a", "hyps": [{"text": "b", "am": True}]}, "n.jsonl:1"),
        ({"ref": " ", "hyps": hyps}, "n.jsonl"),
    ]:
        with pytest.raises(DataError) as caught:
            read_utterances(write(path, wrong))
        assert caught.value.where == f"{tmp_path}/{place}"


def test_columns_are_selected_by_number(tmp_path: Path) -> None:
    conllu = write(
        tmp_path / "t.conllu",
        "# text = It rains",
        "1-2\tItr\t_\t_\t_\t_\t_\t_\t_\t_",
        "1\tIt\tit\tPRON\t_\t_\t2\t_\t_\t_",
        "2\trains\train\tVERB\t_\t_\t0\t_\t_\t_",
    )
    assert read_universal_dependencies(conllu) == [Sentence(("It", "rains"), (("PRON", "VERB"), ("2", "0")))]
    chunks = write(tmp_path / "train.txt", "He PRP B-NP", "left VBD B-VP", "", "So RB O")
    assert [len(one) for one in read_columns(chunks, (2,))] == [2, 1]
    assert read_columns(chunks, (2,))[0].columns == (("B-NP", "B-VP"),)
    with pytest.raises(DataError) as caught:
        read_columns(chunks, (3,))
    assert "train.txt:1" in caught.value.where
    with pytest.raises(DataError):
        read_columns(write(tmp_path / "empty.txt", ""), (0,))
