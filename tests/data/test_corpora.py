"""Corpora as people have them: files, folders, pipes, the hub; anything else is one line."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pandas
import pytest
from corpora import COMPRESSIONS, in_parquet

from electra.commands.prepare import prepare
from electra.data.corpus import python_docs, readers
from electra.data.corpus.documents import Documents
from electra.data.corpus.sources import find_sources, is_same_text
from electra.data.tables import table as tables
from electra.data.tables.lines import guess_encoding
from electra.data.tables.passages import read_passages
from electra.data.text_settings import CorpusConfig
from electra.foundation.errors import CorpusError, DataError, ElectraError

MIB = 1 << 20
TEXTS = ["Der Koch kochte das Essen.", 'she said "no", twice', "요리사가 음식을\nzweite Zeile"]


def read(*names: Any, **config: Any) -> Documents:
    return Documents(names, CorpusConfig(**config))


def texts(*names: Any, **config: Any) -> list[str]:
    return [document.text for document in read(*names, **config)]


def written(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def json_lines(field: str = "text", values: Any = TEXTS) -> bytes:
    return b"".join(json.dumps({"id": i, field: text}).encode() + b"\n" for i, text in enumerate(values))


LISTED = json.dumps([{"text": text} for text in TEXTS])
QUOTED = "id,text\n" + "".join(f'{i},"{t.replace(chr(34), chr(34) * 2)}"\n' for i, t in enumerate(TEXTS))
FORMATS = {
    ".txt": "\n\n".join(TEXTS).encode(),
    ".jsonl": json_lines(),
    ".NDJSON": json_lines(),
    ".json": LISTED.encode(),
    ".csv": QUOTED.encode(),
}


@pytest.mark.parametrize("packed", COMPRESSIONS)
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_in_every_compression(kind: str, packed: str, tmp_path: Path) -> None:
    path = written(tmp_path / f"corpus{kind}{packed}", COMPRESSIONS[packed](FORMATS[kind]))
    found = read(path, unit="blank-line")
    assert [d.text.strip() for d in found] == TEXTS
    assert len(found.describe()) == 1


NESTED = [{"b": text} for text in TEXTS]


@pytest.mark.parametrize(
    ("name", "content", "config"),
    [
        ("a.jsonl", json_lines("a.b", TEXTS), {"text_field": "a.b"}),
        ("a.jsonl", json_lines("a", NESTED), {"text_field": "a.b"}),
        ("a.parquet", in_parquet(id=range(3), a=NESTED), {"text_field": "a.b"}),
        ("a.parquet", in_parquet(id=range(3), text=TEXTS), {}),
        ("a.json", json.dumps(TEXTS), {}),
        ("a.jsonl", "\n".join(map(json.dumps, TEXTS)), {}),
        ("a.log", json_lines(), {"format": "jsonl"}),
    ],
)
def test_fields_and_strings_are_documents(name: str, content: Any, config: Any, tmp_path: Path) -> None:
    path = written(tmp_path / name, content)
    assert texts(path, **config) == TEXTS
    if "text_field" in config:
        with pytest.raises(CorpusError):
            texts(path, text_field="a.c")


def test_a_text_file_is_split_by_unit(tmp_path: Path) -> None:
    file = written(tmp_path / "a.txt", b"\n\none\ntwo\n \t\n\nthree\n\nfour")
    assert texts(file) == ["\n\none\ntwo\n \t\n\nthree\n\nfour"]
    assert [t.split() for t in texts(file, unit="blank-line")] == [["one", "two"], ["three"], ["four"]]
    assert "".join(texts(file, unit="line")).split() == ["one", "two", "three", "four"]


ODD_ENDS = ["one\u2028still one", "two\x85still", "three\x0c\x1c", "four"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_every_encoding_and_line_end_is_recognised(end: str, encoding: str, tmp_path: Path) -> None:
    """Other characters at which Python splits lines are part of the text."""
    path = written(tmp_path / "a.txt", end.join(ODD_ENDS).encode(encoding))
    assert [t.strip("\n") for t in texts(path, unit="line")] == ODD_ENDS
    rows = (json.dumps({"text": text}, ensure_ascii=False) for text in ODD_ENDS)
    assert texts(written(tmp_path / "a.jsonl", end.join(rows).encode(encoding))) == ODD_ENDS


GUESSES = {  # content -> what it is read as
    "le café était très beau, señor".encode("cp1252"): "cp1252",
    "le café était très beau\n".encode() * 9 + "déjà".encode("cp1252"): "utf-8-sig",
    "é à ê".encode("mac_roman") + b"\x8f": "utf-8-sig",  # cp1252 has no such byte
    "η ώρα του καφέ".encode("cp1253"): "utf-8-sig",
    "我们在北京".encode("gbk"): "utf-8-sig",
    "나는 집에 간다".encode("euc_kr"): "utf-8-sig",
}


def test_other_encodings_are_guessed(tmp_path: Path) -> None:
    text = "un café très serré" * 9
    found = read(written(tmp_path / "a.txt", text.encode("cp1252")))
    assert [d.text for d in found] == [text] and "cp1252" in found.notes()[0]
    assert {content: guess_encoding(content) for content in GUESSES} == GUESSES
    assert guess_encoding("plain text, one caf\u00e9".encode()[:-1], is_complete=False) == "utf-8-sig"


def test_imperfect_text_is_repaired_and_counted(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfmark\r\ncaf\xe9 au lait, caf\xc3\xa9\rn\0u\0l\nhalf \xe2\x82 a sign\n"
    (document,) = read(written(tmp_path / "a.txt", content + b"\n" * 50))
    assert document.text.strip() == "mark\ncaf\ufffd au lait, caf\u00e9\nnul\nhalf \ufffd a sign"
    assert (document.replaced, document.nuls) == (3, 2)
    content = b'{"text": "lone \\ud83d, pair \\ud83d\\ude00, \\u0000 and caf\xe9"}\r\n'
    (document,) = read(written(tmp_path / "b.jsonl", content))
    assert document == readers.ReadText("lone \ufffd, pair \U0001f600,  and caf\ufffd", replaced=2, nuls=1)
    found = read(tmp_path)
    assert sum(d.replaced for d in found) == 5 and "5 bytes in 2 files" in found.notes()[0]


def test_a_few_broken_rows_are_noted_and_many_are_an_error(tmp_path: Path) -> None:
    good = [json.dumps({"text": f"text {n}"}) for n in range(500)]
    rows = [*good[:100], '{"text": "cut', '{"id": 1}', *good[100:], '{"text": null}']
    path = written(tmp_path / "a.jsonl", "\n".join(rows))
    found = read(path)
    assert [d.text for d in found] == [f"text {n}" for n in range(500)] + [""]
    broken, null = found.notes()
    assert "2 of 503 rows" in broken and f"{path}:101" in broken and f"{path}:102" in broken
    assert "1 of 503 rows" in null and f"{path}:503" in null
    with pytest.raises(CorpusError):
        texts(path, broken_rows=0.001)
    with pytest.raises(CorpusError) as caught:
        texts(written(tmp_path / "wrong.jsonl", b'{"body": "x"}\n' * 5000))
    assert caught.value.where.endswith("wrong.jsonl:1") and "1,000 of 1,000" in str(caught.value)


NOISE = os.urandom(90_000).hex().encode()
BAD: dict[str, bytes] = {
    "image.txt": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9,
    "noise.jsonl": os.urandom(4000),
    "cyrillic.txt": "это не UTF-8".encode("cp1251") * 9,
    **{f"cut.txt{ending}": pack(NOISE)[:-2000] for ending, pack in COMPRESSIONS.items() if ending},
    "false.txt.zst": b"no zstd at all",
    "false.txt.gz": b"no gzip at all",
    "packed.zip": b"PK",
    "broken.jsonl": b'{"text": "fine"}\n\n{"text": "cut\n',
    "field.jsonl": b'{"text": "fine"}\n{"body": "x", "id": 1}\n',
    "list.jsonl": b'["text"]\n',
    "number.jsonl": b'{"text": 3}\n',
    "deep.jsonl": b"[" * 100_000 + b"\n",
    "column.parquet": in_parquet(body=TEXTS),
    "number.parquet": in_parquet(text=[1, 2, 3]),
    "false.parquet": b"PAR1 no parquet at all PAR1",
    "table.csv": b"a,b\n1,2\n",
    "page.html": b"<html>",
    "pages.tar.gz": b"",
    "notes.xyz": b"text",
    "lfs.txt": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
}


@pytest.mark.parametrize("name", [*BAD, "nothing", "nowhere.txt", "*.nothing"])
def test_bad_input_is_a_one_line_error_that_names_the_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "nothing" / "of.interest").mkdir(parents=True)
    if name in BAD:
        written(tmp_path / name, BAD[name])
    with pytest.raises(CorpusError) as caught:
        texts(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name)) and "\n" not in str(caught.value)


def test_folders_globs_and_repetitions_are_read_in_a_stable_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/y.jsonl", ".hidden.txt", ".git/x.txt", "notes.md"):
        written(tmp_path / "c" / name, '{"text": "json"}' if name.endswith("jsonl") else name)
    written(tmp_path / "c" / "a" / "empty.txt", b"")
    (tmp_path / "c" / "a" / "up").symlink_to(tmp_path / "c")
    assert "".join(texts(tmp_path / "c")) == "jsona/z.txtb.txt"
    assert texts(tmp_path / "c" / "**" / "[yz].txt") == ["a/z.txt"]
    assert texts(tmp_path / "c" / "b.txt", tmp_path / "c" / "?.txt") == ["b.txt"]
    assert texts(tmp_path / "c" / "notes.md", format="txt") == ["notes.md"]


@pytest.mark.parametrize("record", ["run.toml", "store.json", "finetune.json"])
def test_output_files_beside_the_text_are_not_read(tmp_path: Path, record: str) -> None:
    """Otherwise the run would not resume, because its own files would be new text."""
    written(tmp_path / "made" / "tokenizer" / "vocab.txt", "[PAD]")
    written(tmp_path / "mine.txt", "mine")
    assert texts(tmp_path) == ["[PAD]", "mine"]
    written(tmp_path / "made" / record, "")
    assert texts(tmp_path) == ["mine"]
    with pytest.raises(CorpusError):
        texts(tmp_path / "made")


def test_files_of_other_kinds_are_skipped_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "c4"
    for number, text in enumerate(TEXTS):
        written(folder / f"c4.{number}.json.gz", gzip.compress(json_lines(values=[text])))
    written(folder / "README.md", "About this corpus")
    written(folder / "logo.png", b"\x89PNG\r\n\x1a\n" + bytes(99_999))
    (folder / "b.txt").symlink_to(tmp_path / "gone.txt")
    found = read(folder)
    assert [d.text for d in found] == TEXTS
    [note] = found.notes()
    assert all(name in note for name in ("logo.png", "README.md", "b.txt", "3 files"))
    assert texts(folder / "*.json.gz", format="jsonl") == TEXTS
    written(folder / "t.csv", "a,b\n" * 999)
    with pytest.raises(CorpusError):  # the extension says that it is text
        texts(folder)


@pytest.mark.parametrize("name", ["wiki_00", "wiki_00.bz2", "wiki.txt"])
def test_wikiextractor_tags_are_removed(name: str, tmp_path: Path) -> None:
    pages = (f'<doc id="{n}" title="T{n}">\nT{n}\n\nthe text {n}\n\n</doc>\n' for n in range(3))
    content = "".join(pages).encode()
    path = written(tmp_path / "AA" / name, bz2.compress(content) if name.endswith("bz2") else content)
    expected = [[f"T{n}", "the", "text", str(n)] for n in range(3)]
    for source in (tmp_path / "AA", path):
        assert [each.split() for each in texts(source)] == expected


def test_a_large_file_of_many_parts_is_one_document_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "dump.txt", ("a sentence of the text\n" * 5 + "\n") * 6000)
    found = read(path)
    assert len(list(found)) == 1 and "dump.txt" in found.notes()[0]
    assert len(list(read(path, unit="blank-line"))) == 6000


def test_a_saved_dataset_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    train, test = (datasets.Dataset.from_dict({"text": each}) for each in (TEXTS, ["no"]))
    train.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"test": test, "train": train}).save_to_disk(tmp_path / "two")
    assert texts(tmp_path / "one") == texts(tmp_path / "two" / "train") == TEXTS
    with pytest.raises(CorpusError):
        texts(tmp_path / "two")
    [file] = (tmp_path / "one").glob("*.arrow")
    assert texts(file) == TEXTS


def test_hub_data_sets_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "dataset"
    written(folder / "data" / "train.parquet", in_parquet(text=TEXTS))
    written(folder / "data" / "test.parquet", in_parquet(text=["only a test", None, ""]))
    assert texts(f"hub:{folder}") == TEXTS
    assert texts(f"hub:{folder}::test") == ["only a test", "", ""]
    for name, config in {f"hub:{folder}": {"text_field": "body"}, f"hub:{tmp_path}/nowhere": {}}.items():
        with pytest.raises(CorpusError) as caught:
            texts(name, **config)
        assert caught.value.where == name
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CorpusError):
        texts(f"hub:{folder}")


def test_stdin_and_pipes_are_copied_so_that_they_can_be_read_twice(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from electra.data.corpus.documents import Documents
from electra.data.text_settings import CorpusConfig
documents = Documents(sys.argv[2:], CorpusConfig(unit="line"), Path(sys.argv[1]))
print([[d.text for d in documents] for _ in range(2)], [sorted(s) for s in documents.describe()])
"""
    fifo = tmp_path / "pipe.txt"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_text("through a pipe\n"))
    writer.start()
    arguments = [sys.executable, "-c", program, str(tmp_path / "scratch"), "-", str(fifo)]
    done = subprocess.run(arguments, input=b"through stdin\n", capture_output=True, check=True)
    writer.join()
    once = ["through stdin\n", "through a pipe\n"]
    assert done.stdout.decode().strip() == f"{[once, once]} {[['argument', 'name', 'sha256', 'size']] * 2}"


@pytest.mark.parametrize("unit", ["file", "line", "blank-line"])
@pytest.mark.parametrize("word", ["word ", "unbroken"])
def test_a_huge_text_is_split_into_documents(
    tmp_path: Path, unit: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MAX_DOCUMENT", 1 << 17)
    content = word * 50_000
    written(tmp_path / "b.jsonl", json.dumps({"text": content}))
    for path in (written(tmp_path / "a.txt", content), tmp_path / "b.jsonl"):
        parts = texts(path, unit=unit)
        assert "".join(parts) == content and len(parts) > 1 and max(map(len, parts)) <= 1.6 * (1 << 17)
        assert word == "unbroken" or all(part.endswith(" ") for part in parts), "cut between words"
    monkeypatch.setattr(tables, "MAX_LINE", 1000)
    with pytest.raises(CorpusError):
        texts(tmp_path / "b.jsonl")


READ = """
import re, sys
from pathlib import Path
from electra.data.corpus.documents import Documents
from electra.data.text_settings import CorpusConfig
from electra.foundation.errors import CorpusError
def peak():  # MiB of this process alone: getrusage begins with the peak of the one that started it
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10
before = peak()
total = 0
try:
    for text in Documents(sys.argv[1:], CorpusConfig(unit="line")):
        total += len(text.text)
        if total > 600 << 20:
            break
except CorpusError as error:
    print("refused:", error)
print(peak() - before, total >> 20)
"""


def bomb(name: str) -> bytes:
    """A few kilobytes for hundreds of megabytes, or one line of 200 MB."""
    import pyarrow
    import zstandard
    from pyarrow import parquet

    sink = io.BytesIO()
    if name == "line.txt":
        return b"word " * 40_000_000
    if name == "repeated.parquet":
        values = pyarrow.DictionaryArray.from_arrays([0] * 2000, pyarrow.array(["b" * MIB]))
        parquet.write_table(pyarrow.table({"text": values}), sink, store_schema=False, compression="zstd")
    elif name == "one.txt.zst":
        packer = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
        for _ in range(64):
            sink.write(packer.compress(b"a" * (16 * MIB)))
        sink.write(packer.flush())
    elif name == "window.txt.zst":  # a frame that asks for 2 GiB
        return b"\x28\xb5\x2f\xfd" + bytes([0x00, (31 - 10) << 3]) + b"\x01\x00\x00"
    else:  # a dictionary of 1.5 GiB, in the properties of the LZMA2 filter
        import zlib

        content = bytearray(lzma.compress(b"a word " * 1000, check=lzma.CHECK_NONE))
        content[content.index(b"\x21\x01", 12) + 2] = 37
        header = 12 + 4 * (content[12] + 1)
        content[header - 4 : header] = zlib.crc32(content[12 : header - 4]).to_bytes(4, "little")
        return bytes(content)
    return sink.getvalue()


@pytest.mark.parametrize("name", ["line.txt", "repeated.parquet", "one.txt.zst", "window.txt.zst", "dictionary.txt.xz"])
def test_bombs_are_read_in_bounded_memory_or_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name, bomb(name))
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    used, _ = map(int, done.stdout.splitlines()[-1].split())
    assert used < 250
    assert ("refused" in done.stdout) == name.startswith(("window", "dictionary", "one"))


def test_a_source_is_identified_by_path_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_docs, "documents", lambda: ("documentation",))
    for name in ("a.txt", "same.txt"):
        written(tmp_path / "c" / name, "one")
    listings = [source.describe() for source in find_sources([tmp_path / "c", "python-docs"], tmp_path)]
    assert is_same_text(listings, [tmp_path / "c", tmp_path / "c" / "a.txt", "python-docs"])
    assert not is_same_text(listings, ["python-docs"])
    monkeypatch.chdir(tmp_path)
    assert is_same_text(listings, ["c/*.txt", "python-docs"]), "by content, not by name"
    written(tmp_path / "c" / "a.txt", "two")
    assert not is_same_text(listings, [tmp_path / "c", "python-docs"])
    copied = [{"name": "-", "argument": "-", "size": 1, "sha256": ""}]
    assert is_same_text(copied, ["-"]) and not is_same_text(copied, ["python-docs"]), "stdin is read once"


def test_texts_and_addresses_are_no_names_of_files(tmp_path: Path) -> None:
    there = written(tmp_path / "there.txt", "text")
    frame, address = pandas.DataFrame({"text": TEXTS}), "https://example.org/a.txt"
    for given in (["missing.txt"], [there, "a text here"], frame, iter([there]), 3, [there, 3], address):
        with pytest.raises(ElectraError) as caught:
            prepare(given, out=tmp_path / "out", vocab_size=60)
        assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_divided_words_and_mojibake_are_noted(tmp_path: Path) -> None:
    written(tmp_path / "a.txt", "The gov-\nernment.\nA government, a riv-\ner.\nA caf\u00c3\u00a9.\n")
    corpus = read(tmp_path / "a.txt")
    joined = "The government.\n\nA government, a riv-\ner.\nA caf\u00c3\u00a9.\n"
    assert [each.text for each in corpus] == [joined]
    notes = "\n".join(corpus.notes())
    assert all(said in notes for said in ("gov-ernment", "riv-er", "iconv")), notes
    assert "gov-\nernment" in texts(tmp_path / "a.txt", keep_hyphens=True)[0]
    assert "gov-" in texts(tmp_path / "a.txt", unit="line")[0]


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "shut").mkdir()
    for folder in ("open", "shut"):
        written(tmp_path / folder / "a.txt", "one\n")
    access = os.access  # which says yes to root
    shut = lambda path, mode: not str(path).endswith("shut") and access(path, mode)  # noqa: E731
    monkeypatch.setattr("electra.data.corpus.folders.os.access", shut)
    with pytest.raises(CorpusError, match="shut"):
        texts(tmp_path)
    with pytest.raises(DataError, match="shut"):
        list(read_passages(tmp_path))
