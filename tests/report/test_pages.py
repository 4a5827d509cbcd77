"""`electra report FOLDER` draws the page of every kind of folder that has one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from electra.artifacts import AnalysisFolder, EvaluationFolder, RunFolder, StudyFolder
from electra.cli.main import main
from electra.report import pages, probes, study, suite

FIXTURES = Path(__file__).parents[1] / "fixtures"


DRAWN = {
    "study.json": (StudyFolder, study.write_report),
    "evaluation.json": (EvaluationFolder, suite.write_page),
    "errors.probe.json": (AnalysisFolder, probes.write_page),
}


@pytest.mark.parametrize("file", DRAWN)
def test_each_kind_goes_to_its_page(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, writer = DRAWN[file]
    (tmp_path / file).write_text("{}")
    assert pages.PAGES[kind] is writer
    monkeypatch.setattr(pages, "PAGES", {kind: lambda folder: folder / "drawn"})
    assert pages.write_page(tmp_path) == tmp_path / "drawn"
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 2


def test_a_run_s_page_goes_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FIXTURES / "old-run-rtd", tmp_path / "run")
    assert pages.write_page(tmp_path / "run", tmp_path / "page.html") == tmp_path / "page.html"
    assert not RunFolder(tmp_path / "run").page.exists()
    assert main(["report", str(tmp_path / "run")]) == 0
    (tmp_path / "run" / "run.toml").unlink()
    shutil.rmtree(tmp_path / "run" / "discriminator")
    shutil.rmtree(tmp_path / "run" / "generator")
    assert main(["report", str(tmp_path / "run")]) == 0  # what is left of a run reports too


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (
            "old-run-rtd/store",
            "a token store has no page. There are pages of runs, studies, evaluations and analyses",
        ),
        ("old-finetuning", "a fine-tuning has no page"),
        ("old-run-rtd/checkpoints", "not a folder that electra wrote, but lies in a run"),
        ("absent", "no such run folder"),
        ("README.md", "is a file, not a run folder"),
    ],
)
def test_what_has_no_page_is_told_so(folder: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(FIXTURES / folder)]) == 2
    assert said in capsys.readouterr().err
