"""Tokenizer definitions that hang, explode or panic are one-line errors."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import TokenizerError

NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def definition(**parts: Any) -> dict[str, Any]:
    vocabulary = {name: number for number, name in enumerate([*NAMES, "a", "##a"])}
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "vocab": vocabulary,
    }
    model["max_input_chars_per_word"] = 100
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None}
    return base | {"pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model} | parts


def write(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder / "tokenizer.json"


def test_catastrophic_backtracking_is_an_error(tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    tokenizer = Tokenizer.load(write(tmp_path, definition(pre_tokenizer=split)))
    began = time.monotonic()
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        tokenizer.encode("a" * 40 + "!")
    with pytest.raises(TokenizerError):
        tokenizer.encode_corpus(["a" * 40 + "!"])
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 10**6},
        {"type": "Prepend", "prepend": "b" * 10**6},
        {
            "type": "Sequence",
            "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 30,
        },
    ],
)
def test_an_exploding_normalizer_is_refused(tmp_path: Path, normalizer: dict[str, Any]) -> None:
    with pytest.raises(TokenizerError):
        Tokenizer.load(write(tmp_path, definition(normalizer=normalizer)))


def test_ordinary_normalizers_are_accepted(tmp_path: Path) -> None:
    parts = [
        {"type": "Prepend", "prepend": "_"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
    ]
    usual = {"type": "Sequence", "normalizers": parts * 3}
    assert Tokenizer.load(write(tmp_path, definition(normalizer=usual))).vocab_size == 7


def test_too_many_added_tokens_are_refused(tmp_path: Path) -> None:
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    added = [{"id": 7 + n, "content": f"x{n}", **token} for n in range(20_001)]
    began = time.monotonic()
    with pytest.raises(TokenizerError, match="20,001"):
        Tokenizer.load(write(tmp_path, definition(added_tokens=added)))
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("number", [2**31, 10**25, -1, 1.5, "7", None])
@pytest.mark.parametrize("place", ["vocabulary", "added", "template", "bert"])
def test_impossible_ids_are_refused(place: str, number: object, tmp_path: Path) -> None:
    assert_refused(place, number, tmp_path)


@pytest.mark.parametrize("place", ["template", "bert"])
def test_special_ids_outside_the_vocabulary_are_refused(place: str, tmp_path: Path) -> None:
    assert_refused(place, 7, tmp_path)  # the vocabulary has 0 to 6
    Tokenizer.load(write(tmp_path, with_id(place, 6)))


def assert_refused(place: str, number: object, folder: Path) -> None:
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(write(folder, with_id(place, number)))
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


def with_id(place: str, number: object) -> dict[str, Any]:
    """A definition in which [SEP], or an added token, has this id."""
    if place == "vocabulary":
        content = definition()
        content["model"]["vocab"]["b"] = number
        return content
    if place == "added":
        token = {
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": False,
        }
        return definition(added_tokens=[{"id": number, "content": "x", **token}])
    if place == "bert":
        return definition(
            post_processor={"type": "BertProcessing", "sep": ["[SEP]", number], "cls": ["[CLS]", 2]}
        )
    single = [{"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    special = {"[SEP]": {"id": "[SEP]", "ids": [number], "tokens": ["[SEP]"]}}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    template = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}
    return definition(post_processor={"type": "Sequence", "processors": [template]})
