"""Bytes, characters and lines of files in many compressions and encodings."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from electra.data.corpus import Documents
from electra.data.lines import XZ_MEMORY, encoding_of, guess_encoding, open_bytes, open_text
from electra.data.readers import Text
from electra.data.settings import CorpusConfig
from electra.foundation.errors import ConfigError, CorpusError, DataError, ElectraError


def documents(path: Path, **config: object) -> list[Text]:
    return list(Documents([path], CorpusConfig(**config), path.parent / "scratch"))  # type: ignore[arg-type]


def zstd(content: bytes) -> bytes:
    compressed: bytes = pytest.importorskip("zstandard").ZstdCompressor().compress(content)
    return compressed


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstd)],
)
def test_compressed_members_padding_and_trailing_garbage(
    suffix: str, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """Several members are one text; zeros may pad gzip and xz files; anything else behind them is damage."""
    path = tmp_path / f"a.txt{suffix}"
    two = compress(b"first\n") + compress(b"second\n")
    path.write_bytes(two)
    assert open_bytes(path).read() == b"first\nsecond\n"
    if suffix in (".gz", ".xz"):
        path.write_bytes(two + bytes(5000) + compress(b"third\n"))
        assert open_bytes(path).read() == b"first\nsecond\nthird\n"
    for content in (two + b"something else", two[:-3], two[:-30]):
        path.write_bytes(content)
        with pytest.raises(DataError), open_bytes(path) as stream:
            stream.read()


def test_the_memory_of_xz_is_bounded(tmp_path: Path) -> None:
    """A header can request a dictionary of 1.5 GiB; the largest dictionary of an `xz` preset is read."""
    path = tmp_path / "a.txt.xz"
    text = b"a word " * 1000
    path.write_bytes(lzma.compress(text, preset=9))
    assert open_bytes(path).read() == text
    content = bytearray(lzma.compress(text, check=lzma.CHECK_NONE))
    place = content.index(b"\x21\x01", 12) + 2  # the LZMA2 filter, one byte of properties: the dictionary
    content[place] = 37  # 1.5 GiB
    header = 12 + 4 * (content[12] + 1)  # of the block, with its checksum
    import zlib

    content[header - 4 : header] = zlib.crc32(content[12 : header - 4]).to_bytes(4, "little")
    path.write_bytes(content)
    assert XZ_MEMORY < 1 << 28 and lzma.decompress(content) == text, "only its size is wrong"
    with pytest.raises(CorpusError, match=r"a\.txt\.xz"):
        documents(path)


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "cp1251", "gb18030"]
)
@pytest.mark.parametrize("ending", [".txt", ".jsonl"])
def test_texts_are_decoded_by_their_encoding(encoding: str, ending: str, tmp_path: Path) -> None:
    message = {"cp1251": "мой дом", "gb18030": "我的家"}.get(encoding, "un café très serré")
    line = message if ending == ".txt" else json.dumps({"text": message}, ensure_ascii=False)
    path = tmp_path / f"a{ending}"
    path.write_bytes(f"{line}\r\n{line}\r\n".encode(encoding))
    known = encoding.startswith("utf")
    unnamed = encoding in ("cp1252", "cp1251", "gb18030")
    assert [d.text.strip() for d in documents(path, unit="line", encoding=encoding)] == [message, message]
    if known and (encoding != "utf-16-be" or ending == ".txt"):
        read = documents(path, unit="line")
        assert [d.text.strip() for d in read] == [message, message] and not sum(d.replaced for d in read)
    if encoding == "cp1252":
        read = documents(path, unit="line")
        assert sum(d.replaced for d in read) == (0 if ending == ".txt" else 2 * 3), "a byte each"
        assert ending != ".txt" or [d.text.strip() for d in read] == [message, message]
    assert unnamed is not known


@pytest.mark.parametrize("encoding", ["utf8", "UTF-8", "utf-16", "UTF_16_LE", "utf-32-be"])
def test_a_byte_order_mark_is_removed(encoding: str) -> None:
    content = "\ufeffword".encode(encoding.replace("16", "16-le") if encoding == "utf-16" else encoding)
    used = encoding_of(content, encoding)
    assert open_text(io.BytesIO(content), used, None).read() == "word"


def test_undecodable_bytes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("fine ".encode("utf-16-le") + b"\x00\xd8" + " end".encode("utf-16-le") + b"\n")
    [document] = documents(path, encoding="utf-16-le")
    assert document.text == "fine \ufffd end\ufffd" and document.replaced == 3, (
        "half a pair, half a character"
    )
    path.write_bytes(b"a \x81 b")
    [document] = documents(path, encoding="cp1252")
    assert (document.text, document.replaced) == ("a \ufffd b", 1)


@pytest.mark.parametrize("name", ["nonsense", "hex", "rot13"])
def test_an_unknown_encoding_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        CorpusConfig(encoding=name)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_every_line_ending_is_recognised(end: str, encoding: str, tmp_path: Path) -> None:
    """Other characters that Python splits at (U+2028, U+0085, form feed) are part of the text."""
    texts = ["one\u2028still one", "two\x85still", "three\x0c\x1c", "four"]
    path = tmp_path / "a.txt"
    path.write_bytes(end.join(texts).encode(encoding))
    assert [d.text.strip("\n") for d in documents(path, unit="line")] == texts
    path = tmp_path / "a.jsonl"
    rows = (json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    path.write_bytes(end.join(rows).encode(encoding))
    assert [d.text for d in documents(path)] == texts


def test_errors_have_the_class_that_the_caller_passes(tmp_path: Path) -> None:
    class Special(ElectraError):
        pass

    (tmp_path / "a.gz").write_bytes(b"no gzip")
    for name in ("a.gz", "missing.txt"):
        with pytest.raises(Special, match=name), open_bytes(tmp_path / name, error=Special) as stream:
            stream.read()


def test_windows_encodings_are_guessed() -> None:
    """A few stray bytes do not make a file in UTF-8 another encoding's, nor do those of other scripts."""
    assert guess_encoding("le café était très beau, señor".encode("cp1252")) == "cp1252"
    assert guess_encoding("le café était très beau\n".encode() * 9 + "déjà".encode("cp1252")) == "utf-8-sig"
    assert guess_encoding("é à ê".encode("mac_roman") + b"\x8f") == "utf-8-sig"  # cp1252 has no such byte
    assert guess_encoding("хороший фильм".encode("cp1251")) == "utf-8-sig"
    assert guess_encoding(b"a caf\xe9 and more") == guess_encoding(b"a caf\xe9") == "cp1252"
    assert guess_encoding("plain text, one caf\u00e9".encode()[:-1], is_complete=False) == "utf-8-sig"
