"""What a user can pass as text; anything else is a one-line error that names the file."""

from __future__ import annotations

import bz2
import gzip
import http.server
import io
import json
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from electra.data import lines, python_docs, readers, tables
from electra.data.corpus import Documents
from electra.data.settings import CorpusConfig
from electra.data.sources import find_sources, is_same_text
from electra.foundation import durable
from electra.foundation.errors import ConfigError, CorpusError

TEXTS = [
    "Der Koch kochte das Essen.",
    "요리사가 음식을 만들었다",
    "the chef \U0001f468\u200d\U0001f373 cooked",
]


def texts(tmp_path: Path, *sources: str | Path, **config: object) -> list[str]:
    return [
        document.text
        for document in Documents([str(s) for s in sources], CorpusConfig(**config), tmp_path / "scratch")
    ]  # type: ignore[arg-type]


def compressors() -> dict[str, Callable[[bytes], bytes]]:
    import zstandard

    return {
        "": bytes,
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".xz": lzma.compress,
        ".zst": zstandard.ZstdCompressor().compress,
    }


def json_lines(field: str = "text") -> bytes:
    return "".join(
        json.dumps({"id": i, field: text}, ensure_ascii=i % 2 == 0) + "\n" for i, text in enumerate(TEXTS)
    ).encode()


def parquet(column: str = "text", values: list[object] | None = None) -> bytes:
    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"id": range(3), column: values or TEXTS}), sink)
    return sink.getvalue()


@pytest.mark.parametrize("compression", ["", ".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("kind", [".txt", ".jsonl", ".ndjson", ".parquet"])
def test_every_format_in_every_compression(tmp_path: Path, kind: str, compression: str) -> None:
    raw = {".txt": "\n".join(TEXTS).encode(), ".parquet": parquet()}.get(kind, json_lines())
    file = tmp_path / f"corpus{kind.upper()}{compression}"
    file.write_bytes(compressors()[compression](raw))
    assert [text.strip() for text in texts(tmp_path, file, unit="line")] == TEXTS


def test_compressed_files_of_several_members(tmp_path: Path) -> None:
    for suffix, compress in compressors().items():
        (tmp_path / f"two.txt{suffix}").write_bytes(compress(b"first\n") + compress(b"second\n"))
        assert texts(tmp_path, tmp_path / f"two.txt{suffix}", unit="line") == ["first\n", "second\n"], suffix


def test_a_text_file_is_split_by_unit(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"\n\none\ntwo\n \t\n\nthree\n\nfour")
    assert texts(tmp_path, file) == ["\n\none\ntwo\n \t\n\nthree\n\nfour"]
    assert [text.split() for text in texts(tmp_path, file, unit="blank-line")] == [
        ["one", "two"],
        ["three"],
        ["four"],
    ]
    assert [text.strip() for text in texts(tmp_path, file, unit="line") if text.strip()] == [
        "one",
        "two",
        "three",
        "four",
    ]


def test_folders_globs_and_repetitions_are_read_in_a_stable_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/y.jsonl", ".hidden.txt", ".git/x.txt", "notes.md"):
        (tmp_path / "c" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / name).write_text('{"text": "json"}' if name.endswith("jsonl") else name)
    assert texts(tmp_path, tmp_path / "c") == ["json", "a/z.txt", "b.txt"]
    assert texts(tmp_path, tmp_path / "c" / "**" / "*.txt") == ["a/z.txt", "b.txt"]
    assert texts(tmp_path, tmp_path / "c" / "b.txt", tmp_path / "c") == ["b.txt", "json", "a/z.txt"]
    assert texts(tmp_path, tmp_path / "c" / "notes.md", format="txt") == ["notes.md"]


@pytest.mark.parametrize("record", ["run.toml", "store.json", "finetune.json"])
def test_output_files_beside_the_text_are_not_read(tmp_path: Path, record: str) -> None:
    """Otherwise the run would not resume, because its own files would be new text."""
    output = tmp_path / "made" / "tokenizer"
    output.mkdir(parents=True)
    (tmp_path / "mine.txt").write_text("mine")
    (output / "vocab.txt").write_text("[PAD]")
    assert texts(tmp_path, tmp_path) == ["[PAD]", "mine"]
    (output.parent / record).write_text("")
    assert texts(tmp_path, tmp_path) == ["mine"]
    with pytest.raises(CorpusError):
        texts(tmp_path, output.parent)


def test_linked_folders_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a.txt").write_text("once")
    (tmp_path / "kept" / "up").symlink_to(tmp_path)
    (tmp_path / "corpus").mkdir()
    for name in ("here", "again"):
        (tmp_path / "corpus" / name).symlink_to(tmp_path / "kept")
    assert texts(tmp_path, tmp_path / "corpus") == ["once"]


def test_stdin_and_pipes_are_copied_so_that_they_can_be_read_twice(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from electra.data.corpus import Documents
from electra.data.settings import CorpusConfig
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


def test_remote_files_globs_and_folders_are_read(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for name, text in {
        "b.txt": "b",
        "a.txt": "a",
        "deep/c.jsonl": '{"text": "c"}',
        "deep/d.bin": "d",
    }.items():
        memory.pipe(f"/corpus/{name}", text.encode())
    try:
        assert texts(tmp_path, "memory://corpus/a.txt") == ["a"]
        assert texts(tmp_path, "memory://corpus/*.txt") == ["a", "b"]
        assert texts(tmp_path, "memory://corpus/") == ["a", "b", "c"]
        for bad, message in {
            "gone.txt": "gone.txt",
            "*.xml": "xml",
            "deep/d.bin": "d.bin",
        }.items():
            with pytest.raises(CorpusError, match=message):
                texts(tmp_path, f"memory://corpus/{bad}")
        with pytest.raises(CorpusError, match=r"nosuch://x/a\.txt"):
            texts(tmp_path, "nosuch://x/a.txt")
    finally:
        memory.rm("/corpus", recursive=True)


def test_text_is_read_over_http(tmp_path: Path) -> None:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "a.jsonl.gz").write_bytes(gzip.compress(json_lines()))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(tmp_path / "www"))  # type: ignore[arg-type]

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert texts(tmp_path, f"{address}/a.jsonl.gz?x=1") == TEXTS
        with pytest.raises(CorpusError, match=r"b\.jsonl\.gz.*404"):
            texts(tmp_path, f"{address}/b.jsonl.gz")
        with pytest.raises(CorpusError):
            texts(tmp_path, f"{address}/")
        server.shutdown()


def test_hub_data_sets_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "dataset"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "train.parquet").write_bytes(parquet())
    (folder / "data" / "test.parquet").write_bytes(parquet(values=["only a test", None, ""]))
    assert texts(tmp_path, f"hub:{folder}") == TEXTS
    assert texts(tmp_path, f"hub:{folder}::test") == ["only a test", "", ""]
    with pytest.raises(CorpusError, match=r"'body'.*id, text.*data\.text_field"):
        texts(tmp_path, f"hub:{folder}", text_field="body")
    with pytest.raises(CorpusError, match="hub:NAME:CONFIG:SPLIT"):
        texts(tmp_path, f"hub:{tmp_path}/nowhere")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CorpusError, match=r"\.\[hub\]"):
        texts(tmp_path, f"hub:{folder}")


def bad_inputs(folder: Path) -> dict[str, tuple[str | Path, str]]:
    """Yields bad inputs: the arguments, and what the error must contain."""
    files: dict[str, tuple[bytes, str]] = {
        "empty.txt": (b"", "empty file"),
        "empty.jsonl": (b"", "empty file"),
        "image.txt": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, "not UTF-8 text"),
        "noise.jsonl": (os.urandom(4000), "not UTF-8 text"),
        "cyrillic.txt": ("это не UTF-8".encode("cp1251") * 9, r"not UTF-8 text.*`data.encoding=cp1251`"),
        "cut.txt.gz": (gzip.compress(os.urandom(90_000).hex().encode())[:-2000], r"cut\.txt\.gz"),
        "cut.txt.xz": (lzma.compress(os.urandom(90_000).hex().encode())[:-2000], r"cut\.txt\.xz"),
        "cut.txt.bz2": (bz2.compress(os.urandom(90_000).hex().encode())[:-2000], r"cut\.txt\.bz2"),
        "cut.txt.zst": (
            compressors()[".zst"](os.urandom(90_000).hex().encode())[:-2000],
            r"cut\.txt\.zst",
        ),
        "false.txt.zst": (b"no zstd at all", r"false\.txt\.zst"),
        "false.txt.gz": (b"no gzip at all", r"false\.txt\.gz"),
        "broken.jsonl": (b'{"text": "fine"}\n\n{"text": "cut\n', r"broken.jsonl:3"),
        "field.jsonl": (
            b'{"text": "fine"}\n{"body": "x", "id": 1}\n',
            r"field.jsonl:2: .*'text' .*body, id",
        ),
        "list.jsonl": (b'["text"]\n', r"list.jsonl:1"),
        "number.jsonl": (b'{"text": 3}\n', r"number.jsonl:1: .*'text' .*3"),
        "deep.jsonl": (b"[" * 100_000 + b"\n", r"deep.jsonl:1"),
        "column.parquet": (parquet("body"), r"'text' .*id, body"),
        "number.parquet": (
            parquet(values=[1, 2, 3]),
            r"number.parquet: row 1: .*3 of 3",
        ),
        "false.parquet": (b"PAR1 no parquet at all PAR1", "parquet"),
        "table.csv": (b"a,b\n1,2\n", r"table.csv: .*'text' .*a, b"),
        "page.html": (b"<html>", r"page.html: .*\.html"),
        "pages.tar.gz": (b"", r"pages.tar.gz: .*\.tar"),
        "notes.xyz": (b"text", r"\.txt .*\.jsonl"),
    }
    bad: dict[str, tuple[str | Path, str]] = {}
    for name, (content, message) in files.items():
        (folder / name).write_bytes(content)
        bad[name] = (folder / name, message)
    (folder / "nothing" / "of.interest").mkdir(parents=True)
    bad["folder"] = (folder / "nothing", r"\.parquet .*\.gz")
    bad["missing"] = (folder / "nowhere.txt", "nowhere")
    bad["glob"] = (folder / "*.nothing", "nothing")
    return bad


def test_bad_input_is_a_one_line_error_that_names_the_file(tmp_path: Path) -> None:
    for name, (source, message) in bad_inputs(tmp_path).items():
        with pytest.raises(CorpusError, match=message) as caught:
            texts(tmp_path, source)
        assert str(caught.value).startswith(str(source)), name
        assert "\n" not in str(caught.value), name
    with pytest.raises(CorpusError):
        texts(tmp_path)
    with pytest.raises(ConfigError, match=r"data\.heldout"):
        CorpusConfig(heldout=0.0)


def test_an_empty_file_in_a_folder_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a.txt").write_bytes(b"")
    (tmp_path / "c" / "b.txt").write_bytes(b"text")
    assert texts(tmp_path, tmp_path / "c") == ["text"]


def test_missing_optional_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.txt.zst", "a.parquet"):
        (tmp_path / name).write_bytes(b"x")
        with monkeypatch.context() as patch:
            for module in ("zstandard", "pyarrow", "pyarrow.parquet"):
                patch.setitem(sys.modules, module, None)
            with pytest.raises(CorpusError, match=r"\.\[data\]"):
                texts(tmp_path, tmp_path / name)


def test_imperfect_text_is_repaired_and_counted(tmp_path: Path) -> None:
    lines = (
        b"\xef\xbb\xbfmark\r\ncaf\xe9 au lait, caf\xc3\xa9\rn\0u\0l\nhalf \xe2\x82 a sign\n"
        + "kept \ufffd".encode()
    )
    (tmp_path / "a.txt").write_bytes(lines + b"\n" * 50)
    (document,) = Documents([tmp_path / "a.txt"], CorpusConfig(), tmp_path)
    assert document.text.strip() == "mark\ncaf\ufffd au lait, caf\u00e9\nnul\nhalf \ufffd a sign\nkept \ufffd"
    assert (document.replaced, document.nuls) == (3, 2)

    (tmp_path / "b.jsonl").write_bytes(
        b'\xef\xbb\xbf{"text": "lone \\ud83d, pair \\ud83d\\ude00, \\u0000 and caf\xe9"}\r\n'
    )
    (document,) = Documents([tmp_path / "b.jsonl"], CorpusConfig(), tmp_path)
    assert document == readers.Text("lone \ufffd, pair \U0001f600,  and caf\ufffd", replaced=2, nuls=1)


@pytest.mark.parametrize("unit", ["file", "line", "blank-line"])
@pytest.mark.parametrize("word", ["word ", "unbroken"])
def test_a_huge_text_is_split_into_documents(
    tmp_path: Path, unit: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MAX_DOCUMENT", 1 << 17)
    content = word * 50_000
    (tmp_path / "a.txt").write_text(content)
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": content}))
    for name in ("a.txt", "b.jsonl"):
        parts = texts(tmp_path, tmp_path / name, unit=unit)
        assert "".join(parts) == content and len(parts) > 1 and max(map(len, parts)) <= 1.6 * (1 << 17)
        if word.endswith(" "):
            assert all(part.endswith(" ") for part in parts), "cut between words"


def test_an_oversized_json_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_LINE", 1000)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "x"}) + "\n" + json.dumps({"text": "x" * 2000}))
    with pytest.raises(CorpusError, match=r"a\.jsonl:2"):
        texts(tmp_path, tmp_path / "a.jsonl")


def test_memory_stays_bounded_for_one_huge_line(tmp_path: Path) -> None:
    """200 MB on one line, read with less than 100 MB."""
    with open(tmp_path / "huge.txt", "wb") as file:
        for _ in range(200):
            file.write(b"word " * 200_000)
    program = """
import resource, sys
from pathlib import Path
from electra.data.corpus import Documents
from electra.data.settings import CorpusConfig
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(len(d.text) for d in Documents([sys.argv[1]], CorpusConfig(unit="line"), Path(".")))
print(size, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "huge.txt")], capture_output=True, check=True
    )
    size, megabytes = map(int, done.stdout.split())
    assert size == 200_000_000 and megabytes < 100


def test_a_source_is_identified_by_path_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_docs, "documents", lambda: ("documentation",))
    (tmp_path / "c").mkdir()
    for name in ("a.txt", "same.txt"):
        (tmp_path / "c" / name).write_text("one")
    listings = [
        source.describe() for source in find_sources([tmp_path / "c", "python-docs"], tmp_path / "scratch")
    ]
    assert is_same_text(listings, [tmp_path / "c", tmp_path / "c" / "a.txt", "python-docs"])
    assert not is_same_text(listings, ["python-docs"])
    monkeypatch.chdir(tmp_path)
    assert is_same_text(listings, ["c/*.txt", "python-docs"]), "by content, not by name"
    (tmp_path / "c" / "a.txt").write_text("two")
    assert not is_same_text(listings, [tmp_path / "c", "python-docs"])
    copied = [
        {"name": name, "argument": "s3://x/*.txt", "size": 1, "sha256": ""}
        for name in ("s3://x/1.txt", "s3://x/2.txt")
    ]
    assert is_same_text(copied, ["s3://x/*.txt"]), "remote files are not read again"
    assert not is_same_text(copied, ["s3://x/1.txt"]) and not is_same_text(copied, ["-"])


def test_unreadable_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("text")

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    for place, name in ((lines, "open"), (durable, "sha256"), (Path, "is_dir")):
        with (
            monkeypatch.context() as patch,
            pytest.raises(CorpusError, match=r"a\.txt.*Permission denied"),
        ):
            patch.setattr(place, name, refuse, raising=False)
            documents = Documents([tmp_path / "a.txt"], CorpusConfig(), tmp_path)
            assert list(documents) and documents.describe()
    with pytest.raises(CorpusError):
        texts(tmp_path, "x" * 5000)
