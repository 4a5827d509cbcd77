"""Reads SentencePiece's Unigram models (`spm.model`) without its library.

The file is a protocol buffer: a list of pieces with scores and kinds, the trainer's settings, and a map of
characters that normalises text. Other fields are skipped.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from electra.data import tokenizer_limits
from electra.data.byte_bpe import SPACE
from electra.foundation.errors import TokenizerError

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # wire types of protocol buffers
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of the file
_TEXT, _SCORE, _KIND = 1, 2, 3  # fields of a piece
_MODEL, _BYTE_FALLBACK, _UNKNOWN_ID = 3, 35, 40  # fields of the trainer's settings
_CHARACTERS = 2  # field of the normaliser's settings
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6  # kinds of pieces
_UNIGRAM = 1


def read_unigram(path: Path, *, lowercase: bool, split_marks: bool) -> tokenizers.Tokenizer:
    """Reads a Unigram model as DeBERTa uses it, without special tokens around a text.

    Characters without a piece are encoded as bytes if the model has pieces for bytes.

    Args:
        path: the spm.model.
        lowercase: whether to lower-case texts first.
        split_marks: whether to split at punctuation.

    Raises:
        TokenizerError: the file is damaged, or not a Unigram model.
    """
    pieces: list[tuple[str, float]] = []
    added_tokens: list[tokenizers.AddedToken] = []
    split_patterns: list[str] = []  # patterns at which texts are split, so that they match no control piece
    trainer: dict[int, bytes | int] = {}
    character_map = b""
    try:
        for field, value in _fields(path.read_bytes()):
            if field == _PIECES and isinstance(value, bytes):
                piece = dict(_fields(value))
                text, kind = bytes(piece.get(_TEXT, b"")).decode(), piece.get(_KIND, _NORMAL)  # type: ignore[arg-type]
                score = piece.get(_SCORE, b"\0" * 4)
                assert isinstance(score, bytes)
                pieces.append((text, struct.unpack("<f", score)[0]))
                if kind in (_UNKNOWN, _CONTROL, _BYTE) and len(text) > 1:
                    split_patterns.append(f"{re.escape(text[0])}(?={re.escape(text[1:])})")
                if kind in (_CONTROL, _USER_DEFINED):
                    added_tokens.append(
                        tokenizers.AddedToken(text, normalized=False, special=kind == _CONTROL)
                    )
            elif field == _TRAINER and isinstance(value, bytes):
                trainer = dict(_fields(value))
            elif field == _NORMALIZER and isinstance(value, bytes):
                character_map = bytes(dict(_fields(value)).get(_CHARACTERS, b""))  # type: ignore[arg-type]
    except (IndexError, ValueError, AssertionError, TypeError, OSError):
        raise TokenizerError(
            "not readable as a SentencePiece model", where=path, fix="Download it again"
        ) from None
    if not pieces or trainer.get(_MODEL, _UNIGRAM) != _UNIGRAM:
        problem = (
            "the SentencePiece model has no pieces" if not pieces else "not a Unigram SentencePiece model"
        )
        raise TokenizerError(problem, where=path)
    if len(pieces) > tokenizer_limits.MAX_ENTRIES:
        raise TokenizerError(f"its vocabulary has {len(pieces):,} entries", where=path)
    with tokenizer_limits.explain_panics(path):
        tokenizer = tokenizers.Tokenizer(
            models.Unigram(
                pieces,
                unk_id=int(trainer.get(_UNKNOWN_ID, 0)),
                byte_fallback=bool(trainer.get(_BYTE_FALLBACK, 0)),
            )
        )
        tokenizer.normalizer = normalizers.Sequence([
            *([normalizers.Lowercase()] if lowercase else []),
            normalizers.Strip(),
            *([normalizers.Precompiled(character_map)] if character_map else []),
            normalizers.Replace(Regex(" {2,}"), " "),
        ])  # fmt: skip
        marks = [pre_tokenizers.Punctuation("isolated")] if split_marks else []
        spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
        at_control_pieces = pre_tokenizers.Split(Regex("|".join(split_patterns)), "merged_with_previous")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [*marks, spaces, *([at_control_pieces] if split_patterns else [])]
        )
        tokenizer.decoder = decoders.Sequence([
            decoders.ByteFallback(),
            decoders.Metaspace(replacement=SPACE, prepend_scheme="always"),
        ])  # fmt: skip
        tokenizer.add_tokens(added_tokens)
    return tokenizer


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yields (number, value) of each field; the value is an integer, or bytes for any other wire type."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(message, position)
        elif wire in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if wire == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire}")
        if position + size > len(message):
            raise IndexError
        yield number, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Returns the integer at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise ValueError("a number has too many bytes")
