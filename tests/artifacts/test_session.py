"""A session writes only to a new, empty or own folder, and resumes only the same work."""

import errno
import signal
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from electra.artifacts.folder import Folder
from electra.artifacts.run_files import RunFolder
from electra.artifacts.session import raise_if_changed, require_no_other_contents
from electra.foundation.errors import FullDisk, Interrupted, RunFolderError
from electra.foundation.signals import StopRequest


@dataclass(frozen=True)
class Notes(Folder):
    KIND = "note"
    RECORD = "note.json"
    IDENTITY = ("settings",)


RECORD = {"settings": {"rate": 0.1, "names": ("a", "b")}, "environment": {"threads": 1}}


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ((".lock", "log.txt"), ""),
        (("thesis.tex", "run.toml"), ""),
        (("thesis.tex",), r"\(thesis.tex\)"),
        (("b", "a", ".c"), r"\(a and 1 more\)"),
    ],
)
def test_new_empty_and_own_folders_are_accepted_and_others_refused(
    tmp_path: Path, names: tuple[str, ...], shown: str
) -> None:
    require_no_other_contents(RunFolder(tmp_path / "new"))
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(RunFolderError, match=shown) if shown else nullcontext():
        require_no_other_contents(RunFolder(tmp_path))
    with pytest.raises(RunFolderError):
        require_no_other_contents(RunFolder(tmp_path / names[0]))  # a file


def test_every_difference_is_named_up_to_the_limit(tmp_path: Path) -> None:
    raise_if_changed(tmp_path, "run", [])
    changed = [("a.x", 1, 2), ("b.y", "old" * 20, None), ("data", "a" * 64, "b" * 64), ("t", None, "c" * 64)]
    listed = "a.x was 1, now 2; b.y was (old){8}, now absent; data has other contents; t was absent,"
    with pytest.raises(RunFolderError, match=listed):
        raise_if_changed(tmp_path, "run", changed)
    with pytest.raises(RunFolderError, match=r"a.x .*3 more"):
        raise_if_changed(tmp_path, "run", changed, limit=1)


def test_a_session_writes_its_record_once_and_logs(tmp_path: Path) -> None:
    heard: list[str] = []
    folder = Notes(tmp_path / "new")
    with folder.session(RECORD, say=heard.append) as session:
        assert not session.resumed
        session.say("at work")
    assert heard == ["at work"]
    assert folder.log.read_text().endswith(" at work\n")
    with folder.session(RECORD | {"environment": {"threads": 8}}) as session:
        assert session.resumed
    assert folder.record["environment"] == {"threads": 1}


def test_other_settings_are_refused_by_name_and_change_nothing(tmp_path: Path) -> None:
    folder = Notes(tmp_path)
    with folder.session(RECORD):
        pass
    with (
        pytest.raises(RunFolderError, match=r"rate.*0\.1.*0\.2"),
        folder.session({"settings": {"rate": 0.2, "names": ["a", "b"]}}),
    ):
        raise AssertionError("never entered")
    assert folder.record["settings"]["rate"] == 0.1


def test_a_foreign_folder_gets_no_lock(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunFolderError), Notes(tmp_path).session(RECORD):
        raise AssertionError("never entered")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_second_session_is_refused_while_the_first_lasts(tmp_path: Path) -> None:
    folder = Notes(tmp_path)
    with folder.session(RECORD):
        with pytest.raises(RunFolderError), folder.session(RECORD):
            raise AssertionError("never entered")
        with folder.session(is_main=False) as follower:
            follower.say("unheard")
    assert not folder.log.exists()
    with folder.session(RECORD):
        pass


def test_differences_are_refused_when_the_record_comes_later(tmp_path: Path) -> None:
    folder = Notes(tmp_path)
    with folder.session() as session:
        assert not folder.exists()
        session.begin(RECORD)
    with folder.session() as session, pytest.raises(RunFolderError, match="rate"):
        session.begin({"settings": {"rate": 0.2}})


def test_an_interrupt_carries_the_exit_code_of_its_signal(tmp_path: Path) -> None:
    heard: list[str] = []
    with pytest.raises(Interrupted) as stopped, Notes(tmp_path).session(RECORD, say=heard.append) as session:
        assert not session.stopping()
        signal.raise_signal(signal.SIGTERM)
        assert session.stopping()
        session.interrupt()
    assert stopped.value.exit_code == 143 and isinstance(stopped.value, KeyboardInterrupt)
    assert heard == ["stopped; rerun to resume"]
    with pytest.raises(Interrupted) as stopped, Notes(tmp_path).session(RECORD, stop=lambda: True) as session:
        session.interrupt()
    assert stopped.value.exit_code == 130


def test_a_full_disk_is_explained_and_other_errors_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(FullDisk), Notes(tmp_path).session(RECORD):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), Notes(tmp_path).session(RECORD):
        (tmp_path / "absent").read_text()


def test_a_stop_request_works_outside_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[bool] = []

    def work(opened: threading.Event, go: threading.Event) -> None:
        with StopRequest() as stop:
            seen.append(stop())
            opened.set()
            go.wait(10)
            seen.append(stop())

    opened, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(opened, go))
    with StopRequest() as stop:
        thread.start()
        opened.wait(10)
        signal.raise_signal(signal.SIGUSR1)
        go.set()
        thread.join()
        assert stop.exit_code == 143
    assert seen == [False, True]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_missing_or_unrecorded_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError):
        Notes.open(tmp_path / "absent")
    with pytest.raises(RunFolderError, match="note"):
        Notes.open(tmp_path)
    (tmp_path / "note.json").write_text("[]")
    assert [finding.problem for finding in Notes.open(tmp_path).check()] == ["not the record of a note"]
