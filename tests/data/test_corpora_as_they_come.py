"""Corpora as people have them: tables, mixed folders, zip, saved data sets, texts in Python."""

from __future__ import annotations

import bz2
import csv
import gzip
import http.server
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from electra.commands.prepare import prepare
from electra.commands.results.folders import Store
from electra.data import sources
from electra.data.corpus import Documents
from electra.data.settings import CorpusConfig
from electra.data.store_builder import build_store
from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import ConfigError, CorpusError

TEXTS = ["Der Koch kochte das Essen.", 'she said "no", twice', "요리사가 음식을 만들었다\nzweite Zeile"]


def read(*names: str | Path, **config: object) -> Documents:
    return Documents(names, CorpusConfig(**config), Path())  # type: ignore[arg-type]


def texts(*names: str | Path, **config: object) -> list[str]:
    return [document.text for document in read(*names, **config)]


def write_csv(path: Path, delimiter: str = ",") -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([["id", "text"], *enumerate(TEXTS)])


def write_pandas(path: Path) -> None:
    frame = pytest.importorskip("pandas").DataFrame({"id": range(3), "text": TEXTS})
    if path.suffix == ".json":
        frame.to_json(path, orient="records")
    else:
        pytest.importorskip("pyarrow")
        getattr(frame, {".feather": "to_feather", ".parquet": "to_parquet"}[path.suffix])(path)


WRITERS: dict[str, Callable[[Path], None]] = {
    ".csv": write_csv,
    ".tsv": lambda path: write_csv(path, "\t"),
    ".json": write_pandas,
    ".feather": write_pandas,
    ".parquet": write_pandas,
}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("packed", ["", ".gz", "zip"])
def test_tables_written_by_other_libraries_are_read(ending: str, packed: str, tmp_path: Path) -> None:
    plain = tmp_path / f"a{ending}"
    WRITERS[ending](plain)
    if packed == ".gz":
        path = tmp_path / f"b{ending}.gz"
        path.write_bytes(gzip.compress(plain.read_bytes()))
    elif packed == "zip":
        path = tmp_path / "b.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(plain, f"inside/a{ending}")
            archive.writestr("inside/.hidden.txt", "hidden")
    else:
        path = plain
    actual = texts(path)
    assert (
        actual == TEXTS
        if ending != ".tsv"
        else [t.split("\n")[0] for t in actual] == [t.split("\n")[0] for t in TEXTS]
    )
    [listed] = read(path).describe()
    assert listed["size"] == (plain if packed == "zip" else path).stat().st_size


def test_a_nested_field_is_read(tmp_path: Path) -> None:
    rows = [{"doc": {"body": {"text": text}}} for text in TEXTS]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "a.json").write_text(json.dumps({"data": rows}))
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.json", "a.parquet"):
        assert texts(tmp_path / name, text_field="doc.body.text") == TEXTS, name
        with pytest.raises(CorpusError, match=r"data\.text_field"):
            texts(tmp_path / name, text_field="doc.title")


def test_json_strings_are_documents(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(TEXTS))
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, TEXTS)))
    assert texts(tmp_path / "a.json") == texts(tmp_path / "b.jsonl") == TEXTS


def test_a_saved_dataset_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    train, test = datasets.Dataset.from_dict({"text": TEXTS}), datasets.Dataset.from_dict({"text": ["no"]})
    train.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"test": test, "train": train}).save_to_disk(tmp_path / "two")
    assert texts(tmp_path / "one") == texts(tmp_path / "two") == TEXTS
    assert any("test" in note for note in read(tmp_path / "two").notes()), "the other split is named"
    assert texts(tmp_path / "two" / "test") == ["no"]
    [file] = (tmp_path / "one").glob("*.arrow")
    assert texts(file) == TEXTS


def c4(folder: Path) -> None:
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        row = json.dumps({"text": text, "url": "x"}) + "\n"
        (folder / f"c4.{number:05d}-of-00003.json.gz").write_bytes(gzip.compress(row.encode() * 2))


def test_a_readme_beside_the_corpus_is_not_read(tmp_path: Path) -> None:
    c4(tmp_path / "c4")
    (tmp_path / "c4" / "README.txt").write_text("About this corpus")
    (tmp_path / "c4" / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99_999))
    (tmp_path / "c4" / "info.json").write_text('{"license": "none"}')
    for format, first in (("auto", ["About this corpus"]), ("jsonl", [])):
        documents = read(tmp_path / "c4", format=format)
        assert [d.text for d in documents] == first + [text for text in TEXTS for _ in range(2)]
        [note] = documents.notes() if format == "auto" else documents.notes()[:1]
        assert "logo.png" in note
        assert "info.json" in note or format == "jsonl"


def test_skipping_most_of_a_folder_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "README.txt").write_text("About this corpus")
    for number in range(3):
        (folder / f"chapter{number}.md").write_text("the text itself " * 100)
    with pytest.raises(CorpusError, match=r"3 \.md .*data\.format"):
        texts(folder)
    assert len(texts(folder, format="txt")) == 4
    (folder / "table.csv").write_text("title,body\n" + "a,b c d\n" * 5000)
    with pytest.raises(CorpusError, match=r"'text'.*data\.text_field"):
        texts(folder)


def test_broken_links_and_large_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text of some words " * 9)
    (tmp_path / "b.txt").symlink_to(tmp_path / "gone.txt")
    documents = read(tmp_path)
    assert len(list(documents)) == 1
    assert any("b.txt" in note for note in documents.notes())
    (tmp_path / "rest.tar.gz").write_bytes(bytes(10_000))
    with pytest.raises(CorpusError, match=r"rest\.tar\.gz"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["wiki_00", "wiki_00.bz2", "wiki.txt"])
def test_wikiextractor_tags_are_removed(name: str, tmp_path: Path) -> None:
    content = "".join(
        f'<doc id="{n}" url="https://example.org/{n}" title="T{n}">\nT{n}\n\nthe text {n}\n\n</doc>\n'
        for n in range(3)
    ).encode()
    (tmp_path / "AA").mkdir()
    (tmp_path / "AA" / name).write_bytes(bz2.compress(content) if name.endswith("bz2") else content)
    for source in (tmp_path / "AA", tmp_path / "AA" / name):
        documents = read(source)
        assert [d.text.split() for d in documents] == [[f"T{n}", "the", "text", str(n)] for n in range(3)]
        assert [note for note in documents.notes() if "WikiExtractor" in note and name in note]
    assert [t.strip() for t in texts(tmp_path / "AA", unit="line") if t.strip()] == [
        line for n in range(3) for line in (f"T{n}", f"the text {n}")
    ]


def test_a_few_broken_rows_are_noted_and_many_are_an_error(tmp_path: Path) -> None:
    good = [json.dumps({"text": f"text {n}"}) for n in range(500)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*good[:100], '{"text": "cut', '{"id": 1}', *good[100:], '{"text": null}']))
    documents = read(path)
    assert [d.text for d in documents] == [f"text {n}" for n in range(500)] + [""]
    broken, null = documents.notes()
    assert "2 of 503 rows" in broken and f"{path}:101" in broken and f"{path}:102" in broken
    assert "1 of 503 rows" in null and f"{path}:503" in null
    with pytest.raises(CorpusError, match=r"a\.jsonl:101: .*2 of 503 rows.*data\.broken_rows"):
        texts(path, broken_rows=0.001)
    (tmp_path / "a.csv").write_text("id,text\n" + "1,fine\n" * 300 + "one,too,many\n")
    documents = read(tmp_path / "a.csv")
    assert len(list(documents)) == 300 and "a.csv:302" in documents.notes()[0]
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"body": "x"}\n' * 5000)
    with pytest.raises(CorpusError, match=r"wrong\.jsonl:1: .*body.*1,000 of 1,000"):
        texts(wrong)


def test_files_that_cannot_be_decoded_are_named_with_the_option(tmp_path: Path) -> None:
    folder, text = tmp_path / "old", "plain words " * 6 + "мой дом"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number:02d}.txt").write_text(text, encoding="cp1251")
    documents = read(folder)
    assert sum(d.replaced for d in documents) == 40 * 6
    [note] = documents.notes()
    assert "240 bytes in 40 files" in note and "00.txt (6)" in note and "--data.encoding" in note
    documents = read(folder, encoding="cp1251")
    assert {d.text for d in documents} == {text} and not documents.notes()


def test_files_of_windows_are_read_with_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    text = "ein schönes, großes Haus " * 4
    for number in range(40):
        (folder / f"{number:02d}.txt").write_text(text, encoding="cp1252")
    documents = read(folder)
    assert {d.text for d in documents} == {text} and not sum(d.replaced for d in documents)
    [note] = documents.notes()
    assert "00.txt (and 39 more files): not UTF-8: read as cp1252, such as schönes, großes;" in note
    documents = read(folder, encoding="cp1252")
    assert {d.text for d in documents} == {text} and not documents.notes()


def test_a_large_file_of_many_parts_is_one_document_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(("a sentence of the text\n" * 5 + "\n") * 6000)
    documents = read(path)
    list(documents)
    [note] = documents.notes()
    assert "dump.txt" in note and "--data.unit blank-line" in note
    documents = read(path, unit="blank-line")
    assert len(list(documents)) == 6000 and not documents.notes()


def test_false_zip_files_and_zip_bombs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"no zip file")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w") as archive:
        archive.writestr("a.txt", b"a")
    content = bytearray((tmp_path / "bomb.zip").read_bytes())
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = (1 << 31).to_bytes(4, "little")  # the listed size
    (tmp_path / "bomb.zip").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        archive.writestr("a.png", b"a")
    for name, message in {
        "no.zip": "cannot be read",
        "bomb.zip": "expands",
        "images.zip": "no text files in this zip",
    }.items():
        with pytest.raises(CorpusError, match=rf"{name}: {message}"):
            texts(tmp_path / name)


def test_a_store_of_a_zip_is_reused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "the cat sat on the mat, " * 50)
        archive.writestr("b.csv", "text\n" + "the dog ran in the park\n" * 3)
    first = build_store([tmp_path / "a.zip"], tokenizer, tmp_path / "store", workers=1)
    again = build_store([tmp_path / "a.zip"], tokenizer, tmp_path / "store", workers=1)
    assert first.digest == again.digest


def corpus(count: int = 60) -> list[str]:
    return [f"the film {n} was fine, and the {n % 7} of us saw it twice" for n in range(count)]


def made(tmp_path: Path, given: Any, name: str = "store", **options: Any) -> tuple[Store, list[str]]:
    messages: list[str] = []
    options = {"vocab_size": 60, "workers": 1} | options
    printed = lambda line, share: messages.append(line) if share is None else None  # noqa: E731
    return prepare(given, out=tmp_path / name, progress=printed, **options), messages


def test_python_texts_make_a_store(tmp_path: Path) -> None:
    """A list, a generator, dicts, a DataFrame and a data set give the store that a file of them gives."""
    pandas, datasets = pytest.importorskip("pandas"), pytest.importorskip("datasets")
    rows = [{"text": text} for text in corpus()]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    expected = made(tmp_path, tmp_path / "a.jsonl")[0].tokens.digest

    def generator() -> Iterator[str]:
        yield from corpus()

    given: dict[str, Any] = {
        "list": corpus(),
        "generator": generator(),
        "dicts": rows,
        "frame": pandas.DataFrame({"text": corpus(), "id": 1}),
        "series": pandas.Series(corpus()),
        "dataset": datasets.Dataset.from_list(rows),
        "splits": datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)}),
    }
    for name, value in given.items():
        store, message = made(tmp_path, value, name)
        assert store.tokens.digest == expected, name
        assert [line for line in message if "60 texts" in line], name
    store, _ = made(tmp_path, corpus(), "list")
    assert store.tokens.digest == expected, "the same texts again: the store is reused"
    nested = [{"doc": {"body": text}} for text in corpus()]
    assert made(tmp_path, nested, "nested", text_field="doc.body")[0].tokens.digest == expected
    (tmp_path / "b.txt").write_text("\n".join(text[::-1] for text in corpus()))
    both = {"a": corpus(), "b": [tmp_path / "b.txt"]}
    mixed = made(tmp_path, both, "mix", mix_exponent=0.5, unit="line")[0]
    assert [row["name"] for row in mixed.audit["mixture"]] == ["a", "b"]


def test_missing_file_names_are_not_read_as_texts(tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("text")
    for given in (
        ["missing.txt"],
        ["my texts.txt", "a b.jsonl.gz"],
        ["corpus/de"],
        [str(tmp_path / "there.txt"), "a text here"],
        "a text here",
        [tmp_path / "a b"],
    ):
        with pytest.raises(CorpusError):
            prepare(given, out=tmp_path / "out", vocab_size=60)
    with pytest.raises(CorpusError, match="text 2: 3"):
        prepare(["a text here", 3], out=tmp_path / "out", vocab_size=60)
    with pytest.raises(ConfigError):
        prepare(["a text here"], out=tmp_path / "out", vocab_size=60, format="csv")


def test_a_parquet_bomb_in_a_corpus_is_refused(tmp_path: Path) -> None:
    """One long value in many rows: refused after a few, not read to the end."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = pyarrow.DictionaryArray.from_arrays([0] * 20_000, pyarrow.array(["b" * (1 << 20)]))
    path = tmp_path / "bomb.parquet"
    parquet.write_table(pyarrow.table({"text": values}), path, store_schema=False, compression="zstd")
    read_so_far = 0
    with pytest.raises(CorpusError, match=r"bomb\.parquet"):
        for document in read(path):
            read_so_far += len(document.text)
    assert path.stat().st_size < 20_000 and read_so_far < 100 << 20


class Cut(http.server.BaseHTTPRequestHandler):
    """A server that sends half of each listed file."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2000")
        self.end_headers()
        self.wfile.write(b"a text\n" * 143)

    def log_message(self, *args: object) -> None:
        pass


def test_remote_files_that_differ_from_their_listed_size_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cut) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(CorpusError, match=r"a\.txt.*1,001 of 2,000"):
            Documents([f"http://127.0.0.1:{server.server_port}/a.txt"], CorpusConfig(), tmp_path)
        server.shutdown()
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/sizes/a.txt", b"more than listed")
    memory.pipe("/sizes/b.csv", b"text\nfrom afar\n")
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("c.txt", "in a zip")
    memory.pipe("/sizes/c.zip", (tmp_path / "c.zip").read_bytes())
    scratch = tmp_path / "scratch"
    documents = Documents(["memory://sizes/*.csv", "memory://sizes/c.zip"], CorpusConfig(), scratch)
    assert [d.text for d in documents] == ["from afar", "in a zip"]
    monkeypatch.setattr(sources, "listed_size", lambda stream: 4)
    with pytest.raises(CorpusError, match=r"a\.txt"):
        Documents(["memory://sizes/a.txt"], CorpusConfig(), scratch)


def test_a_pointer_of_git_lfs_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(CorpusError, match=r"a\.txt: is a pointer of Git LFS"):
        texts(tmp_path / "a.txt")
