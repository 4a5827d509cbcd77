"""SentencePiece models give the ids of transformers' converter, and of the library if it is installed.

The models are written here in the library's own file format (protobuf).
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import TokenizerError

pytest.importorskip("google.protobuf")

WORDS = ["the", "film", "was", "fine", "gr", "im", "caf", "\u00e9", "\u4e2d", "\u2581the", "\u2581film"]
LETTERS = list("abcdefghijklmnopqrstuvwxyz.,!0123456789[]\u2581CLSEP")
ALPHABET = [
    *LETTERS,
    "\uff21",
    "\ufb01",
    "\u3000",
    "\u00a0",
    "\u200b",
    "\u0301",
    "\U0001f600",
    "\n",
    "\t",
    " ",
]


def write(folder: Path, *, bytes_too: bool = False, characters: bytes = b"", kind: int = 1) -> Path:
    from transformers.convert_slow_tokenizer import import_protobuf

    draw, model = random.Random(1), import_protobuf().ModelProto()
    names = [("[PAD]", 3), ("[CLS]", 3), ("[SEP]", 3), ("[UNK]", 2), ("<user>", 4)]
    names += [(f"<0x{byte:02X}>", 6) for byte in range(256)] if bytes_too else []
    for piece, type_ in [*names, *((word, 1) for word in dict.fromkeys([*WORDS, *LETTERS]))]:
        score = -draw.uniform(2, 9) if type_ == 1 else 0.0
        model.pieces.add(piece=piece, score=score, type=type_)
    model.trainer_spec.model_type, model.trainer_spec.unk_id = kind, 3
    model.trainer_spec.byte_fallback = bytes_too
    model.trainer_spec.unk_piece, model.trainer_spec.pad_id = "[UNK]", 0
    model.trainer_spec.bos_id, model.trainer_spec.eos_id = 1, 2
    model.normalizer_spec.precompiled_charsmap = characters
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spm.model").write_bytes(model.SerializeToString())
    (folder / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, "vocab_type": "spm"}))
    return folder


def texts(count: int = 400) -> list[str]:
    draw = random.Random(2)
    pieces = [*ALPHABET, "the film", " was ", "  ", "<user>", "\n\n"]
    return ["".join(draw.choice(pieces) for _ in range(draw.randint(0, 25))) for _ in range(count)]


def converted(folder: Path, ours: Tokenizer, **options: bool) -> Any:
    """Returns the tokenizer that transformers builds from the same file."""
    from transformers.convert_slow_tokenizer import DebertaV2Converter

    class Slow:
        vocab_file = str(folder / "spm.model")
        do_lower_case = options.get("do_lower_case", False)
        split_by_punct = options.get("split_by_punct", False)
        add_prefix_space = legacy = True

        def convert_tokens_to_ids(self, token: str) -> int | None:
            return ours.token_to_id(token)

    return DebertaV2Converter(Slow()).converted()


@pytest.mark.parametrize("options", [{}, {"do_lower_case": True}, {"split_by_punct": True}], ids=str)
def test_ids_are_those_of_transformers(options: dict[str, bool], tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    ours = Tokenizer.load(folder)
    reference = converted(folder, ours, **options)
    for text in texts():
        expected = reference.encode(text).ids
        assert ours.encode(text).ids == expected, text
        assert ours.encode_corpus([text])[0].tolist() == expected[1:-1], text
    assert ours.specials._asdict() == {
        "pad": 0, "cls": 1, "sep": 2, "unk": 3, "mask": reference.get_vocab_size()
    }  # fmt: skip
    [single, pair] = ours.encode("the film"), ours.encode("the film", "the film")
    assert pair.ids == single.ids + single.ids[1:] and pair.segments == [0] * len(single.ids) + [1] * 3


@pytest.mark.parametrize("bytes_too", [False, True])
def test_ids_are_those_of_sentencepiece(bytes_too: bool, tmp_path: Path) -> None:
    """Special tokens in a text are text; characters without a piece are bytes where there are some."""
    library = pytest.importorskip("sentencepiece")
    folder = write(tmp_path, bytes_too=bytes_too)
    reference = library.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    ours = Tokenizer.load(folder)
    # spaces and user-defined pieces are what normalisation here decides
    plain = [text.replace("\u2581", "").replace("<user>", "") for text in texts()]
    for text in [*(" ".join(text.split()) for text in plain), "a [CLS] b[SEP]", "<0x41> [UNK]"]:
        assert ours.encode_corpus([text])[0].tolist() == reference.encode(text), text


def test_characters_without_a_piece_become_byte_pieces(tmp_path: Path) -> None:
    """The UTF-8 of the character, by the definition of byte fallback."""
    ours = Tokenizer.load(write(tmp_path, bytes_too=True))
    names = [ours.id_to_token(i) for i in ours.encode("the \U0001f600").ids]
    assert names == [
        "[CLS]",
        "\u2581the",
        "\u2581",
        *(f"<0x{b:02X}>" for b in "\U0001f600".encode()),
        "[SEP]",
    ]
    assert ours.decode(ours.encode("the \U0001f600").ids) == "the \U0001f600"


def test_special_tokens_in_a_text_are_plain_text(tmp_path: Path) -> None:
    ours = Tokenizer.load(write(tmp_path, bytes_too=True))
    inner = ours.encode("a [CLS] b [SEP] [UNK] [MASK] <0x7A>").ids[1:-1]
    assert not set(ours.specials) & set(inner) and ours.token_to_id("<0x7A>") not in inner


def test_a_saved_folder_gives_the_same_ids(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    ours = Tokenizer.load(write(tmp_path / "given", bytes_too=True))
    (tmp_path / "again").mkdir()
    ours.save(tmp_path / "again")
    again, reference = Tokenizer.load(tmp_path / "again"), AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again.digest == ours.digest
    for text in texts(100):
        assert again.encode(text).ids == ours.encode(text).ids == reference(text)["input_ids"], text


def test_a_model_file_alone_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path)
    for name in ("config.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert Tokenizer.load(folder / "spm.model").digest == Tokenizer.load(folder).digest


@pytest.mark.parametrize("size", [0, 1, 7, 100])
def test_a_damaged_model_is_a_one_line_error(size: int, tmp_path: Path) -> None:
    path = write(tmp_path) / "spm.model"
    path.write_bytes(path.read_bytes()[:-size] + b"\xff" * size if size else b"")
    with pytest.raises(TokenizerError, match=r"spm\.model"):
        Tokenizer.load(tmp_path)


def test_other_model_types_and_a_missing_file_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError):
        Tokenizer.load(write(tmp_path, kind=2))
    (tmp_path / "spm.model").unlink()
    with pytest.raises(TokenizerError, match=r"Copy spm\.model") as raised:
        Tokenizer.load(tmp_path)
    assert len(str(raised.value)) < len(str(tmp_path)) + 120, "one short line"
