"""Only a new, empty or own folder is written to, and only what it began with goes on there."""

from __future__ import annotations

from pathlib import Path

import pytest

from electra.errors import RunFolderError
from electra.ownership import refuse_differences, refuse_strangers


def test_new_empty_and_own_folders_are_taken(tmp_path: Path) -> None:
    refuse_strangers(tmp_path / "new", "run.toml", "a run")
    (tmp_path / ".lock").touch()
    (tmp_path / "log.txt").touch()
    refuse_strangers(tmp_path, "run.toml", "a run", beside=("log.txt",))
    (tmp_path / "thesis.tex").touch()
    (tmp_path / "run.toml").touch()
    refuse_strangers(tmp_path, "run.toml", "a run")


@pytest.mark.parametrize(
    ("names", "shown"), [(["thesis.tex"], r"\(thesis.tex\)"), (["b", "a", ".c"], r"\(a, ...\)")]
)
def test_a_folder_of_something_else_is_refused_naming_a_file(
    tmp_path: Path, names: list[str], shown: str
) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(RunFolderError, match=f"holds files that are not a study {shown}"):
        refuse_strangers(tmp_path, "study.json", "a study", beside=("store",))


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(RunFolderError, match="is a file, not a folder"):
        refuse_strangers(tmp_path / "out", "run.toml", "a run")


def test_each_difference_is_named_unless_only_some_are_asked_for(tmp_path: Path) -> None:
    refuse_differences(tmp_path, "run", [])
    changed = [("a.x", 1, 2), ("b.y", "old" * 20, None), ("c.z", 3, 4)]
    with pytest.raises(RunFolderError) as all_of_them:
        refuse_differences(tmp_path, "run", changed)
    assert (
        "holds another run: a.x was 1, now 2; b.y was oldoldoldoldoldoldoldold, now absent; c.z was 3, now 4."
        in str(all_of_them.value)
    )
    with pytest.raises(RunFolderError, match=r"a.x was 1, now 2; and 2 more\."):
        refuse_differences(tmp_path, "run", changed, most=1)
