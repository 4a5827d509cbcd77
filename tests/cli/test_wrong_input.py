"""Whatever a user gets wrong: exit code 2, one line on stderr that says what, where and what to do, and
nothing half-written.
"""

from __future__ import annotations

import errno
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import driven
import pytest
from wrong import CASES, Case, Place, blocked, damaged_run, lines

from electra.commands.framework.main import main
from electra.commands.parts import train as train_verb
from electra.foundation import durable, errors
from electra.foundation.errors import (
    CheckpointError,
    DiskError,
    ElectraError,
    FullDisk,
    LostProcess,
    RunFailed,
    RunFolderError,
)

command_line = importlib.import_module(
    "electra.commands.framework.main"
)  # the module: `main` alone is its function


HOLD = """
import sys
from pathlib import Path
from electra.foundation.durable import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="session")
def finished(toy_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose checkpoints of steps 2 and 4 are there, without its exports."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_verb, "finish", lambda run: None)
        assert main(Place(folder, toy_store, folder).pretrain()) == 0
    return folder / "run"


@pytest.fixture
def place(tmp_path: Path, toy_store: Path, finished: Path) -> Place:
    return Place(tmp_path, toy_store, finished)


@pytest.fixture(autouse=True)
def without_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_verb, "finish", lambda run: None)


@pytest.fixture
def refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., str]:
    """Run a command that must be refused with an error of that kind and words; gives the line."""
    raised: list[type[ElectraError]] = []
    run_command = command_line.run_command

    def noting(verb: str, arguments: list[str]) -> int:
        try:
            code: int = run_command(verb, arguments)
            return code
        except ElectraError as error:
            raised.append(type(error))
            raise

    monkeypatch.setattr(command_line, "run_command", noting)

    def check(argv: list[str], kind: type[ElectraError], said: str, writes: tuple[str, ...] = ()) -> str:
        before = contents(tmp_path)
        capfd.readouterr()
        code = main(argv)
        line = capfd.readouterr().err
        assert code == kind.exit_code, line
        assert re.fullmatch(r"error: [^\n]+\n", line), line
        assert re.search(said, line), line
        assert raised == [kind]
        after = contents(tmp_path)
        assert {name: after[name] for name in before} == before, "files that were there are as they were"
        assert {name for name in after if name not in before and not name.startswith(writes)} == set(), (
            "nothing is left behind"
        )
        raised.clear()
        return line

    return check


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks, which the kernel lets go of by itself."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name != ".lock"
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_input_is_one_line_with_its_place(
    case: Case, place: Place, refused: Callable[..., str]
) -> None:
    argv = case.argv(place)  # makes the files of the case
    writes = ("run/",) if case.kind is RunFailed else ()  # a run that failed midway keeps its record
    refused(argv, case.kind, case.said, writes)


def test_every_kind_of_error_was_rendered() -> None:
    kinds = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ElectraError)
    }
    assert kinds == {case.kind for case in CASES} | {
        FullDisk,  # test_a_full_disk_is_one_line
        LostProcess,  # training/test_resume.py
    }


def test_errors_are_one_line_whatever_they_are_made_of() -> None:
    error = ElectraError("what\nhas two\tlines", where=Path("some/where"), fix="Do  this")
    assert str(error) == "some/where: what has two lines. Do this"
    assert str(ElectraError("alone")) == "alone"


def test_invalid_utf8_is_counted_not_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        driven.write_corpus(place.folder / "latin.txt").read_bytes()
        + b"the caf\x81 likes the sea .\n" * 30  # not a letter in any Western encoding
        + b"\xff\xfe the cat .\n"
    )
    assert main(place.prepare(place.file("latin.txt", text), "--unit", "line")) == 0
    assert json.loads((place.folder / "made" / "audit.json").read_text())["bytes_replaced"] == 32
    assert "32 undecodable bytes replaced" in capsys.readouterr().out


def test_text_that_is_all_held_out_by_its_hash_is_trained_on(place: Place) -> None:
    corpus = driven.write_corpus(place.folder / "small.txt", documents=6)
    assert main(place.prepare(corpus, "--unit", "line", "--heldout", "0.999", vocab_size=50)) == 0
    audit = json.loads((place.folder / "made" / "audit.json").read_text())
    assert (
        audit["documents_train"] == 6
        and audit["heldout_by"] == "end of one document"
        and audit["tokens_train"] > 100
    )


def test_a_run_folder_in_use_is_refused(place: Place, refused: Callable[..., str]) -> None:
    out = place.folder / "run"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        refused(
            place.pretrain(),
            RunFolderError,
            rf"in use by process {holder.pid}\. Wait for it, stop it, or choose another --out",
        )
    finally:
        holder.communicate("")
    with durable.lock(out):  # no lock outlives its process
        pass


def test_an_unwritable_folder_is_one_line(place: Place, refused: Callable[..., str]) -> None:
    refused(
        place.pretrain(out=Path(blocked(place))),
        DiskError,
        r"cannot write here: Not a directory\. Choose another folder",
    )
    refused(place.pretrain(out=place.store), RunFolderError, r"a run \(.*another --out")
    refused(place.pretrain(out=Path(lines(place))), RunFolderError, r"is a file, not a folder.*another --out")


@pytest.mark.parametrize(
    "asked", ["report {}", "predict {} x.csv", "pretrain --corpus {here} --out {}", "verify {}"]
)
def test_a_name_too_long_for_a_file_is_one_line(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = asked.format("a" * 300, here=__file__)
    assert main(words.split()) == 2
    assert (said := capsys.readouterr().err).startswith("error: aaa") and said.count("\n") == 1


def test_a_full_disk_is_one_line(
    place: Place, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    """The checkpoint of step 4 does not fit: that of step 2 stays whole, and the same command goes on once
    there is room.
    """
    write = durable.Ops.write

    def full(self: durable.Ops, path: Path, content: durable.Content) -> None:
        if "step-00000004" in str(path) and path.name == "optimizer.safetensors":
            path.write_bytes(b"half of")
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, path, content)

    monkeypatch.setattr(durable.Ops, "write", full)
    wrote = (
        "run/checkpoints/step-00000002/",
        "run/run.toml",
        "run/metrics.jsonl",
        "run/log.txt",
        "run/tokenizer/",
    )
    refused(
        place.pretrain(), FullDisk, r"step-00000004: no space left to write here \([\d,]+ MiB free", wrote
    )
    checkpoints = place.folder / "run" / "checkpoints"
    assert [path.name for path in checkpoints.iterdir()] == ["step-00000002"]
    assert durable.verify_directory(checkpoints / "step-00000002") is None
    monkeypatch.setattr(durable.Ops, "write", write)
    assert main(place.pretrain()) == 0
    for name in ("model.safetensors", "optimizer.safetensors"):
        mine, unbroken = (
            run / "checkpoints" / "step-00000004" / name for run in (place.folder / "run", finished)
        )
        assert mine.read_bytes() == unbroken.read_bytes()


def test_a_run_folder_of_another_run_lists_every_difference(
    place: Place, refused: Callable[..., str], tmp_path: Path
) -> None:
    run = place.copy(place.run)
    line = refused(
        place.pretrain("--training.seed", "2", "--objective.mask-fraction", "0.2", out=run),
        RunFolderError,
        "training.seed",
    )
    assert (
        "objective.mask_fraction was 0.15, now 0.2; training.seed was 1, now 2. Use the same settings, or"
        " another --out" in line
    )

    other_text = place.folder / "other text"
    corpus = str(driven.write_corpus(place.folder / "other.txt", documents=60))
    same_tokenizer = ["--tokenizer", str(place.store / "tokenizer")]
    assert (
        main(
            ["prepare", corpus, "--out", str(other_text), "--unit", "line", "--workers", "1", *same_tokenizer]
        )
        == 0
    )
    line = refused(place.pretrain(out=run, store=other_text), RunFolderError, "identity.data")
    assert "identity.data has other contents. Use" in line and "identity.tokenizer" not in line

    other_tokenizer = place.folder / "other tokenizer"
    assert (
        main(
            [
                "prepare",
                corpus,
                "--out",
                str(other_tokenizer),
                "--unit",
                "line",
                "--workers",
                "1",
                "--vocab-size",
                "50",
            ]
        )
        == 0
    )
    line = refused(place.pretrain(out=run, store=other_tokenizer), RunFolderError, "identity.data")
    assert "identity.data has other contents; identity.tokenizer has other contents. Use" in line

    assert main(place.pretrain("--training.log-every", "2", "--training.keep", "3", out=run)) == 0, (
        "what changes nothing learned may change"
    )


def test_a_run_without_a_valid_checkpoint_is_refused(place: Place, refused: Callable[..., str]) -> None:
    """To start over in silence would throw the training away: it takes another folder, or a whole checkpoint,
    to go on.
    """
    said = r"checkpoints: .*step-00000004: model\.safetensors.*step-00000002: "
    refused(place.pretrain(out=damaged_run(place, 2, 4)), CheckpointError, said)
