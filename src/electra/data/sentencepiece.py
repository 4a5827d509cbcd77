"""SentencePiece's Unigram models (`spm.model`), read without the library.

The file is a protocol buffer: a list of pieces with scores and kinds, the trainer's settings, and a map of
characters that normalises text. What is not needed of it is passed over.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from electra.data import hostile
from electra.data.space_marked import SPACE
from electra.foundation.errors import TokenizerError

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # how a field of a protocol buffer is written
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of the file
_TEXT, _SCORE, _KIND = 1, 2, 3  # of a piece
_MODEL, _BYTE_FALLBACK, _UNKNOWN_ID = 3, 35, 40  # of the trainer's settings
_CHARACTERS = 2  # of the normaliser's
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6  # kinds of pieces
_UNIGRAM = 1


def read(path: Path, *, lowercase: bool, split_marks: bool) -> tokenizers.Tokenizer:
    """The tokenizer of a Unigram model as DeBERTa uses it, without special tokens around a text.

    Characters without a piece become their bytes where the model has pieces for bytes.
    """
    pieces: list[tuple[str, float]] = []
    added: list[tokenizers.AddedToken] = []
    never: list[str] = []  # pieces that no text has, whatever it says
    trainer: dict[int, bytes | int] = {}
    characters = b""
    try:
        for field, value in _fields(path.read_bytes()):
            if field == _PIECES and isinstance(value, bytes):
                piece = dict(_fields(value))
                text, kind = bytes(piece.get(_TEXT, b"")).decode(), piece.get(_KIND, _NORMAL)  # type: ignore[arg-type]
                score = piece.get(_SCORE, b"\0" * 4)
                assert isinstance(score, bytes)
                pieces.append((text, struct.unpack("<f", score)[0]))
                if kind in (_UNKNOWN, _CONTROL, _BYTE) and len(text) > 1:
                    never.append(f"{re.escape(text[0])}(?={re.escape(text[1:])})")
                if kind in (_CONTROL, _USER_DEFINED):
                    added.append(tokenizers.AddedToken(text, normalized=False, special=kind == _CONTROL))
            elif field == _TRAINER and isinstance(value, bytes):
                trainer = dict(_fields(value))
            elif field == _NORMALIZER and isinstance(value, bytes):
                characters = bytes(dict(_fields(value)).get(_CHARACTERS, b""))  # type: ignore[arg-type]
    except (IndexError, ValueError, AssertionError, TypeError, OSError):
        raise TokenizerError(
            "not readable as a SentencePiece model", where=path, fix="The file is damaged: get it again"
        ) from None
    if not pieces or trainer.get(_MODEL, _UNIGRAM) != _UNIGRAM:
        what = (
            "a SentencePiece model without pieces" if not pieces else "a SentencePiece model of another kind"
        )
        raise TokenizerError(f"{what}; Unigram is supported", where=path)
    if len(pieces) > hostile.MOST_ENTRIES:
        raise TokenizerError(f"its vocabulary has {len(pieces):,} entries", where=path)
    with hostile.panics(path):
        made = tokenizers.Tokenizer(
            models.Unigram(
                pieces,
                unk_id=int(trainer.get(_UNKNOWN_ID, 0)),
                byte_fallback=bool(trainer.get(_BYTE_FALLBACK, 0)),
            )
        )
        before = [normalizers.Lowercase()] if lowercase else []
        made.normalizer = normalizers.Sequence([
            *before,
            normalizers.Strip(),
            *([normalizers.Precompiled(characters)] if characters else []),
            normalizers.Replace(Regex(" {2,}"), " "),
        ])  # fmt: skip
        marks = [pre_tokenizers.Punctuation("isolated")] if split_marks else []
        spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
        apart = pre_tokenizers.Split(Regex("|".join(never)), "merged_with_previous")
        made.pre_tokenizer = pre_tokenizers.Sequence([*marks, spaces, *([apart] if never else [])])
        made.decoder = decoders.Sequence([
            decoders.ByteFallback(),
            decoders.Metaspace(replacement=SPACE, prepend_scheme="always"),
        ])  # fmt: skip
        made.add_tokens(added)
    return made


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(number, value) of each field: a whole number, or the bytes of what is no whole number."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in (_EIGHT, _FOUR):
            size = 8 if wire == _EIGHT else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(message):
            raise IndexError
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number of too many bytes")
