"""Tokenizer definitions that hang, explode or panic are one-line errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.errors import TokenizerError

NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a")
MODEL = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": {name: number for number, name in enumerate(NAMES)},
}
ADDED = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
NO_PARTS = dict.fromkeys(str.split("truncation padding normalizer pre_tokenizer post_processor decoder"))


def loaded(folder: Path, **parts: Any) -> Tokenizer:
    content = {"version": "1.0", **NO_PARTS, "added_tokens": [], "model": MODEL, **parts}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return Tokenizer.load(folder / "tokenizer.json")


@pytest.mark.timeout(30)
def test_catastrophic_backtracking_is_an_error(tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    tokenizer = loaded(tmp_path, pre_tokenizer=split)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        tokenizer.encode("a" * 40 + "!")
    with pytest.raises(TokenizerError):
        tokenizer.encode_corpus(["a" * 40 + "!"])


def replace(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": replace("a", "b" * 10**6)},
        {"normalizer": {"type": "Prepend", "prepend": "b" * 10**6}},
        {"normalizer": {"type": "Sequence", "normalizers": [replace("a", "aa")] * 30}},
        {"added_tokens": [{"id": 7 + n, "content": f"x{n}", **ADDED} for n in range(20_001)]},
    ],
)
def test_exploding_normalizers_and_too_many_tokens_are_refused(parts: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TokenizerError):
        loaded(tmp_path, **parts)


def test_ordinary_normalizers_are_accepted(tmp_path: Path) -> None:
    parts = [{"type": "Prepend", "prepend": "_"}, replace(" ", "_")] * 3
    assert loaded(tmp_path, normalizer={"type": "Sequence", "normalizers": parts}).vocab_size == 7


@pytest.mark.parametrize("number", [10**25, -1, 1.5, "7", None])
@pytest.mark.parametrize("place", ["vocabulary", "added", "template", "bert"])
def test_impossible_ids_are_refused(place: str, number: object, tmp_path: Path) -> None:
    with pytest.raises(TokenizerError) as caught:
        loaded(tmp_path, **with_id(place, number))
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["template", "bert"])
def test_special_ids_outside_the_vocabulary_are_refused(place: str, tmp_path: Path) -> None:
    loaded(tmp_path, **with_id(place, 6))  # the last one
    with pytest.raises(TokenizerError):
        loaded(tmp_path, **with_id(place, 7))


def with_id(place: str, number: object) -> dict[str, Any]:
    """Parts of a definition in which [SEP], or another token, has this id."""
    single = [{"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    special = {"[SEP]": {"id": "[SEP]", "ids": [number], "tokens": ["[SEP]"]}}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    template = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}
    parts: dict[str, dict[str, Any]] = {
        "vocabulary": {"model": {**MODEL, "vocab": {**MODEL["vocab"], "b": number}}},  # type: ignore[dict-item]
        "added": {"added_tokens": [{"id": number, "content": "x", **ADDED}]},
        "bert": {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", number], "cls": ["[CLS]", 2]}},
        "template": {"post_processor": {"type": "Sequence", "processors": [template]}},
    }
    return parts[place]
