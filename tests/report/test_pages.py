"""`electra report FOLDER` draws the page of every kind of folder."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from electra.artifacts import RunFolder
from electra.commands.framework.main import main
from electra.pages import pages

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("study.json", "a study"),
        ("evaluation.json", "an evaluation"),
        ("errors.probe.json", "an analysis"),
    ],
)
def test_only_a_run_s_page_goes_elsewhere(
    file: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / file).write_text("{}")
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 2
    assert f"not {kind}" in capsys.readouterr().err and not (tmp_path / "page.html").exists()


@pytest.mark.slow
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
        ("old-run-rtd/checkpoints", "old-run-rtd/checkpoints"),
        ("absent", "no such run folder"),
        ("README.md", "is a file, not a run folder"),
    ],
)
def test_what_is_no_folder_of_ours_is_told_so(
    folder: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(FIXTURES / folder)]) == 2
    assert said in capsys.readouterr().err


def exact(page: str) -> set[str]:
    """The numbers of a page, as precise as their files have them."""
    return set(re.findall(r'<data value="([^"]+)">', page))


def test_a_fine_tuning_s_page_holds_its_numbers(tmp_path: Path) -> None:
    folder = shutil.copytree(FIXTURES / "old-finetuning", tmp_path / "tuned")
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    results = json.loads((folder / "all_results.json").read_text())
    assert {repr(results["eval_accuracy"]), repr(results["eval_loss_sd"]), "48", "12"} <= exact(page)
    assert "bad, good" in page and "ensemble of all seeds" in page
    assert "electra finetune" in page and (folder / "figures" / "training-loss.svg").is_file()
    (folder / "all_results.json").unlink()
    shutil.rmtree(folder / "seeds" / "seed-1")
    assert main(["report", str(folder)]) == 0
    assert "Not finished" in (folder / "report.html").read_text()
    (folder / "seeds" / "seed-0" / "results.json").write_text("[]")
    assert main(["report", str(folder)]) == 2


@pytest.mark.parametrize("file", ["run.toml", "metrics.jsonl", "audit.json"])
@pytest.mark.slow
def test_an_emptied_record_of_a_finished_run_is_told(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(FIXTURES / "old-run-rtd", tmp_path / "run")
    RunFolder(run).record_digests()
    assert main(["report", str(run)]) == 0 and not capsys.readouterr().err
    (run / file).write_text("")
    assert main(["report", str(run)]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"note: {run / file} has 0 bytes instead of ") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("finetune.json", "{}", "not the record of a fine-tuning. Restore it"),
        ("all_results.json", "{}", "not the results of a fine-tuning. Run electra finetune to its end"),
        ("dev.jsonl", "{}\n", "not the dev rows of a fine-tuning"),
        ("dev.jsonl", "", "not the dev rows of a fine-tuning"),
    ],
)
def test_an_emptied_record_of_a_fine_tuning_is_told(
    file: str, content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(FIXTURES / "old-finetuning", tmp_path / "tuned")
    (folder / file).write_text(content)
    assert main(["report", str(folder)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {folder / file}: {said}")


@pytest.mark.parametrize("part", ["store", "discriminator"])
def test_a_folder_without_curves_has_a_page_of_facts(part: str, tmp_path: Path) -> None:
    folder = shutil.copytree(FIXTURES / "old-run-rtd", tmp_path / "run") / part
    before = sorted(path.name for path in folder.iterdir())
    assert main(["report", str(folder)]) == 0
    made = folder.parent / "discriminator-report.html" if part == "discriminator" else folder / "report.html"
    assert ("2599" if part == "store" else "90") in exact(made.read_text())
    assert part == "store" or sorted(path.name for path in folder.iterdir()) == before
    assert main(["verify", str(folder)]) == 0


@pytest.mark.slow
def test_a_page_without_figures_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(FIXTURES / "old-run-rtd", tmp_path / "run")
    assert main(["report", str(run)]) == 0 and not capsys.readouterr().err
    monkeypatch.setattr("electra.pages.svg.available", lambda: False)
    assert main(["report", str(run)]) == 0
    assert "pip install matplotlib" in capsys.readouterr().err
    assert main(["report", str(run / "store")]) == 0 and not capsys.readouterr().err, "it never has any"
