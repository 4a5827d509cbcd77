"""Public data sets are written completely or not at all, resume, and have the form that the tasks read.

Small files with the same names and formats replace the published ones.
"""

from __future__ import annotations

import gzip
import hashlib
import http.server
import importlib
import io
import json
import os
import resource
import signal
import threading
import typing
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import electra
from electra.artifacts import DataFolder, open_folder
from electra.commands.data_ import Name
from electra.commands.framework.main import main
from electra.data import public
from electra.data.public import Download, PublicFolder, PublicSet
from electra.finetuning.tasks import load_task
from electra.foundation.errors import DataError
from electra.laboratory.evaluation.data import find_data
from electra.laboratory.evaluation.suite import load_suite

GLUE = {  # a header, and a row, of each task's files
    "CoLA": ("", "gj04\t1\t\tHe sang ."),
    "SST-2": ("sentence\tlabel\n", 'a " fine film \t1'),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n", "0\t1\t2\tWhy?\tHow?\t0"),
    "STS-B": ("index\tsentence1\tsentence2\tscore\n", "0\tA man .\tA cat .\t2.5"),
    "MNLI": ("index\tsentence1\tsentence2\tgold_label\n", "0\tIt rains .\tIt is wet .\tneutral"),
    "QNLI": ("index\tquestion\tsentence\tlabel\n", "0\tWho?\tHe did .\tentailment"),
    "RTE": ("index\tsentence1\tsentence2\tlabel\n", "0\tIt rains .\tIt is wet .\tnot_entailment"),
    "WNLI": ("index\tsentence1\tsentence2\tlabel\n", "0\tIt rains .\tIt is wet .\t1"),
}
PARAPHRASES = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
PARAPHRASES += '1\t10\t11\tHe said " yes .\tHe agreed .\r\n0\t12\t13\tIt is .\tIt was .\r\n'
COLUMNS = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n"
WIKI = (
    " \n = First = \n \n A well @-@ known text of 1 @,@ 000 words . \n \n = = Part = = \n \n More . \n \n"
    " = Second = \n \n x \n = 5 = \n y \n"
)
SQUAD = {"id": "q", "question": "Who?", "answers": [{"text": "He", "answer_start": 0}]}


def zipped(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return stream.getvalue()


def stand_in(download: Download) -> bytes:
    """A small file in the format of a published one."""
    file, splits = download.file, ("train", "dev", "test")
    if file == "BLiMP.zip":
        pair = json.dumps({"sentence_good": "He sings.", "sentence_bad": "He sing."})
        names = ("data/a.jsonl", "data/b.jsonl", "data/.DS_Store", "__MACOSX/data/._a.jsonl")
        return zipped(dict.fromkeys(names, pair))
    if file.startswith("wikitext"):
        folder = file.removesuffix("-v1.zip")
        return zipped({f"{folder}/wiki.{split}.raw": WIKI for split in ("train", "valid", "test")})
    if file.endswith(".zip"):
        folder = file.removesuffix(".zip").removesuffix("-clean").removesuffix("v2")
        header, row = GLUE[folder]
        if folder == "MNLI":
            splits = ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")
        files = {f"{folder}/{split}.tsv": f"{header}{row}\n" for split in splits}
        return zipped({**files, f"{folder}/original/other.tsv": "", f"{folder}/LICENSE.txt": ""})
    if file.endswith(".json"):
        paragraphs = [{"context": "He did.", "qas": [SQUAD]}]
        return json.dumps({"version": "x", "data": [{"title": "t", "paragraphs": paragraphs}]}).encode()
    if file.endswith(".conllu"):
        return b"1\tHe\the\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n2\tsings\tsing\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n"
    if file.startswith("msr"):
        return PARAPHRASES.encode()
    if file == "mrpc_dev_ids.tsv":
        return b"12\t13\n"
    return COLUMNS.encode() if "CONLL2003" in download.url else b"Empire B-location\nState I-location\n, O\n"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of all sets with stand-ins, whose sizes and checksums replace the published ones."""

    def made(each: PublicSet, download: Download) -> Download:
        content = stand_in(download)
        path = tmp_path / "mirror" / each.name / download.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return replace(download, size=len(content), sha256=hashlib.sha256(content).hexdigest())

    sets = {}
    for each in public.public_sets().values():
        folders = [
            replace(folder, downloads=tuple(made(each, item) for item in folder.downloads))
            for folder in each.folders
        ]
        sets[each.name] = replace(each, folders=tuple(folders))
    monkeypatch.setattr(public, "public_sets", lambda: sets)
    return tmp_path / "mirror"


class Site:
    """An HTTP server of a folder that can misbehave."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        self.ranges, self.most, self.after = True, -1, b""  # -1: all of a body; what is sent behind it
        self.then: Callable[[], None] = lambda: None


@pytest.fixture
def site(small: Path) -> Iterator[tuple[Site, str]]:
    state = Site(small)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = state.root / self.path.lstrip("/")
            expected = self.headers.get("Range", "")
            state.asked.append(f"{self.path} {expected}".strip())
            if self.headers["User-Agent"].startswith("Python-urllib"):  # as servers behind Cloudflare do
                return self.send_error(403)
            if not path.is_file():
                return self.send_error(404)
            content, start = path.read_bytes(), int(expected[len("bytes=") : -1]) if expected else 0
            if not state.ranges:
                start = 0
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            sent = content[start:] if state.most < 0 else content[start : start + state.most]
            self.send_header("Content-Length", str(len(content[start:] + state.after)))
            self.end_headers()
            self.wfile.write(sent + state.after)
            self.wfile.flush()
            state.then()

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_every_set_lies_as_the_tasks_read_it(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    assert main(["data", *typing.get_args(Name), "--out", str(out), "--from", str(small)]) == 0
    assert left(out / "glue/mnli") == [
        "dev_matched.tsv",
        "dev_mismatched.tsv",
        "manifest.json",
        "source.json",
        "test_matched.tsv",
        "test_mismatched.tsv",
        "train.tsv",
    ]
    assert [path.name for path in sorted((out / "blimp").glob("*.jsonl"))] == ["a.jsonl", "b.jsonl"]
    assert not (out / public.DOWNLOADS).exists()
    answers = {"cola": "1", "sst2": "1", "stsb": "2.5", "qqp": "0", "mnli": "neutral", "qnli": "entailment"}
    answers |= {"rte": "not_entailment", "wnli": "1"}
    for name in ("glue", "squad", "tagging"):
        for entry in load_suite(name).task:
            if entry.name in ("ner-wikiann", "ged"):
                continue
            task = load_task(entry.task)
            actual = find_data(entry, task, [out])
            assert actual is not None, entry.name
            examples = task.read(actual.train[0]).examples
            if entry.name in answers:
                assert [example.gold for example in examples] == [answers[entry.name]]
    named = load_task("ner").read(out / "conll2003/train.conll").examples
    assert [(list(each.texts), list(each.gold)) for each in named] == [
        (["EU", "rejects"], ["B-ORG", "O"]),
        (["Peter"], ["B-PER"]),
    ]


def test_mrpc_is_split_by_a_list_of_ids_and_its_test_set_has_no_labels(small: Path, tmp_path: Path) -> None:
    electra.fetch_data("glue", out=tmp_path, mirror=small)
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    folder = tmp_path / "glue/mrpc"
    assert (folder / "train.tsv").read_text() == f'{header}1\t10\t11\tHe said " yes .\tHe agreed .\n'
    assert (folder / "dev.tsv").read_text() == f"{header}0\t12\t13\tIt is .\tIt was .\n"
    assert (folder / "test.tsv").read_text() == (
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        '0\t10\t11\tHe said " yes .\tHe agreed .\n1\t12\t13\tIt is .\tIt was .\n'
    )


def test_a_document_of_wikitext_is_an_article(small: Path, tmp_path: Path) -> None:
    electra.fetch_data("wikitext-2", out=tmp_path, mirror=small)
    rows = [json.loads(line) for line in (tmp_path / "wikitext-2/train.jsonl").read_text().splitlines()]
    assert rows == [
        {"title": "First", "text": "A well-known text of 1,000 words .\nPart\nMore ."},
        {"title": "Second", "text": "x\n5\ny"},
    ]


def test_rerunning_keeps_complete_folders(small: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    output = electra.fetch_data(["blimp", "blimp"], out=tmp_path / "d", mirror=small)
    assert output == {"blimp": tmp_path / "d/blimp"}
    (small / "blimp/BLiMP.zip").unlink()
    before = (tmp_path / "d/blimp/manifest.json").stat().st_mtime_ns
    electra.fetch_data(
        "blimp", out=tmp_path / "d", mirror=small, progress=lambda line, share: messages.append(line)
    )
    assert (tmp_path / "d/blimp/manifest.json").stat().st_mtime_ns == before
    assert any("CC BY 4.0" in line for line in messages)
    folder = open_folder(tmp_path / "d/blimp")
    assert isinstance(folder, DataFolder) and [each.problem for each in folder.verify()] == [""]
    assert isinstance(importlib.import_module("electra.data"), ModuleType) and isinstance(
        electra.data, ModuleType
    ), "the function does not take the name of the package"


def test_a_lost_connection_resumes(site: tuple[Site, str], tmp_path: Path) -> None:
    state, address = site
    state.most = 100
    words = ["data", "blimp", "--out", str(tmp_path / "d"), "--from", f"{address}/"]
    assert main(words) == 2
    [part] = left(tmp_path / "d/.downloads")[1:] or left(tmp_path / "d/.downloads")
    assert (tmp_path / "d/.downloads" / part).stat().st_size == 100
    assert not (tmp_path / "d/blimp").exists()
    assert main(words) == 2 and (tmp_path / "d/.downloads" / part).stat().st_size == 200
    state.most = -1
    assert main(words) == 0
    asked = "/blimp/BLiMP.zip"
    assert state.asked == [asked, f"{asked} bytes=100-", f"{asked} bytes=200-"]
    assert open_folder(tmp_path / "d/blimp") and not (tmp_path / "d/.downloads").exists()


def test_a_server_that_cannot_resume_starts_over(site: tuple[Site, str], tmp_path: Path) -> None:
    state, address = site
    state.most, state.ranges = 100, False
    words = ["data", "blimp", "--out", str(tmp_path / "d"), "--mirror", address]
    assert main(words) == 2
    state.most = -1
    assert main(words) == 0


@pytest.mark.parametrize("wrong", ["absent", "other", "longer", "elsewhere", "no mirror"])
def test_a_failed_download_is_a_one_line_error_and_leaves_nothing(
    wrong: str, site: tuple[Site, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, address = site
    file, where = state.root / "blimp/BLiMP.zip", f"{address}/blimp/BLiMP.zip"
    if wrong == "absent":
        file.unlink()
    elif wrong == "other":
        file.write_bytes(bytes(file.stat().st_size))
    elif wrong == "longer":
        state.after = b"more"
    elif wrong == "elsewhere":
        address = where = "http://nobody.invalid"
    else:
        address = where = str(tmp_path / "nowhere")
    assert main(["data", "blimp", "--out", str(tmp_path / "d/e"), "--from", address]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {where}")
    assert not (tmp_path / "d/e").exists()


def test_files_of_other_programs_are_left_alone(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(out: Path) -> None:
        before = {name: (out / name).read_bytes() for name in left(out)} if out.is_dir() else {}
        assert main(["data", "conll2003", "blimp", "--out", str(out), "--from", str(small)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert not out.is_dir() or before == {name: (out / name).read_bytes() for name in left(out)}

    for name, content in (("a/blimp/mine.txt", "x"), ("b/blimp", "a file"), ("c", "a file")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
        refused(tmp_path / name[0])
    electra.fetch_data("blimp", out=tmp_path / "d", mirror=small)
    (tmp_path / "d/blimp/a.jsonl").write_text("changed")
    refused(tmp_path / "d")
    electra.fetch_data("blimp", out=tmp_path / "e", mirror=small)
    record = json.loads((tmp_path / "e/blimp/source.json").read_text())
    record["downloads"][0]["sha256"] = "0" * 64
    (tmp_path / "e/blimp/source.json").write_text(json.dumps(record))
    refused(tmp_path / "e")


def test_ctrl_c_keeps_the_partial_download(site: tuple[Site, str], tmp_path: Path) -> None:
    state, address = site
    waited = threading.Event()
    state.most = 100

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        waited.wait(5)  # the rest never comes

    state.then = interrupt
    words = ["data", "blimp", "--out", str(tmp_path / "d"), "--from", address]
    assert main(words) == 130
    waited.set()
    assert not (tmp_path / "d/blimp").exists()
    state.then, state.most = lambda: None, -1
    assert main(words) == 0 and (tmp_path / "d/blimp/a.jsonl").exists()


def test_a_full_disk_is_reported_and_the_download_resumes(site: tuple[Site, str], tmp_path: Path) -> None:
    words = ["data", "blimp", "--out", str(tmp_path / "d"), "--from", site[1]]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))  # of a file: EFBIG, as from a quota
    try:
        assert main(words) == 74
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "d/blimp").exists()
    assert main(words) == 0 and (tmp_path / "d/blimp/a.jsonl").exists()


def test_no_member_of_a_zip_file_leaves_its_folder(tmp_path: Path) -> None:
    names = ("data/a.jsonl", "data/../../b.jsonl", "../c.jsonl", "/d.jsonl", "data/e/f.jsonl")
    content = zipped(dict.fromkeys(names, "{}"))
    (tmp_path / "mirror/s").mkdir(parents=True)
    (tmp_path / "mirror/s/s.zip").write_bytes(content)

    def made(files: dict[str, str]) -> PublicSet:
        item = Download(
            "https://x.invalid/s.zip", len(content), hashlib.sha256(content).hexdigest(), "", files
        )
        return PublicSet("s", "t", "l", "h", "u", (PublicFolder("s", (item,)),))

    public.fetch([made({"*.jsonl": "data/*.jsonl"})], tmp_path / "out", str(tmp_path / "mirror"))
    assert left(tmp_path) == ["mirror/s/s.zip", "out/s/a.jsonl", "out/s/manifest.json", "out/s/source.json"]
    with pytest.raises(DataError, match=r"other/\*\.jsonl"):
        public.fetch([made({"*": "other/*.jsonl"})], tmp_path / "new", str(tmp_path / "mirror"))


def test_a_dry_run_lists_the_published_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "glue", "--out", str(tmp_path / "d"), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11 and all("  https://dl.fbaipublicfiles.com/" in line for line in lines)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("sets", [[], "", "gleu", ["blimp", "nothing"], 3, None])
def test_an_unknown_data_set_is_a_one_line_error(sets: Any, tmp_path: Path) -> None:
    with pytest.raises(electra.ElectraError):
        electra.fetch_data(sets, out=tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_the_table_is_complete() -> None:
    sets = public.public_sets()
    assert list(sets) == list(typing.get_args(Name))
    folders = [folder.path for each in sets.values() for folder in each.folders]
    assert len(set(folders)) == len(folders)
    for each in sets.values():
        assert each.licence and each.homepage.startswith("https://") and "OUT" in each.use
        assert len({item.file for item in each.downloads}) == len(each.downloads), (
            "a mirror has one folder a set"
        )
        for item in each.downloads:
            assert item.url.startswith("https://") and item.size > 0
            assert len(item.sha256) == 64 and int(item.sha256, 16)


@pytest.mark.parametrize("folder", ["ud-english-ewt", "conll2000"])
def test_checksums_match_local_files(folder: str, shared_data: Callable[[str], Path]) -> None:
    """The listed checksums equal those of local copies from other sources."""
    [downloads] = [
        each.downloads
        for known in public.public_sets().values()
        for each in known.folders
        if each.path == folder
    ]
    for item in downloads:
        name = item.name or item.file
        if name != "LICENSE.txt":
            path = shared_data(f"{'chunking/' * (folder == 'conll2000')}{folder}/{name}.gz")
            content = gzip.decompress(path.read_bytes())
            assert (len(content), hashlib.sha256(content).hexdigest()) == (item.size, item.sha256)


def test_the_page_has_every_set_with_its_size() -> None:
    page = (Path(__file__).parents[2] / "docs/data.md").read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in page.splitlines() if row.startswith("| `")]
    sizes = {name: sum(item.size for item in each.downloads) for name, each in public.public_sets().items()}
    assert {row[0].strip("| `"): row[2] for row in rows} == {
        name: f"{size / 1e6:,.1f} MB" for name, size in sizes.items()
    }
