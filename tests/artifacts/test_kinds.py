"""Each kind of folder is recognised, described and verified; any other folder is an error."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from electra import artifacts
from electra.artifacts import checkpoints
from electra.commands.framework.main import main
from electra.exchange.verify import verify
from electra.foundation import durable
from electra.foundation.errors import CheckpointError, RunFolderError

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def kinds(tmp_path: Path) -> dict[type[artifacts.Folder], Path]:
    """Returns a folder of each kind: a fixture if there is one, otherwise a small one."""
    run, tuning = tmp_path / "run", tmp_path / "tuning"
    shutil.copytree(FIXTURES / "old-run-rtd", run)
    shutil.copytree(FIXTURES / "old-finetuning", tuning)
    study, evaluation, analysis = (tmp_path / name for name in ("study", "evaluation", "analysis"))
    shutil.copytree(run, study / "arms/first/seed-1")
    shutil.copytree(run, study / "arms/first/seed-2")
    durable.commit_json(study / "study.json", {"study": {"title": "T"}, "fixed": {"arms": {"first": {}}}})
    durable.commit_json(analysis / "calibration.probe.json", {"models": [{"name": "M"}]})
    shutil.copytree(tuning, evaluation / "tasks/M/cola")
    plan = {"suite": "S", "models": {"M": {}}, "tasks": {"cola": {}}}
    durable.commit_json(evaluation / "evaluation.json", {"plan": plan})
    pair = tmp_path / "pair"
    shutil.copytree(run / "discriminator", pair / "discriminator")
    return {
        artifacts.RunFolder: run,
        artifacts.PairFolder: pair,
        artifacts.StoreFolder: run / "store",
        artifacts.ModelFolder: run / "generator",
        artifacts.Checkpoint: run / "checkpoints/step-00000003",
        artifacts.FinetuningFolder: tuning,
        artifacts.SeedFolder: tuning / "seeds/seed-0",
        artifacts.StudyFolder: study,
        artifacts.EvaluationFolder: evaluation,
        artifacts.AnalysisFolder: analysis,
    }


def test_each_kind_is_recognised_described_and_verified(kinds: dict[type[artifacts.Folder], Path]) -> None:
    for kind, path in kinds.items():
        folder = artifacts.open_folder(path)
        assert type(folder) is kind is artifacts.kind_of(path)
        assert folder == kind.open(path) and str(folder) == str(path)
        findings = list(verify(path))
        assert findings and not [finding for finding in findings if finding.problem], kind


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        (artifacts.RunFolder, "checkpoints/step-00000006/model.safetensors"),
        (artifacts.RunFolder, "store/heldout.ds"),
        (artifacts.RunFolder, "generator/model.safetensors"),
        (artifacts.ModelFolder, "config.json"),
        (artifacts.FinetuningFolder, "seeds/seed-1/dev.tsv"),
        (artifacts.FinetuningFolder, "all_results.json"),
        (artifacts.StudyFolder, "arms/first/seed-2/run.toml"),
        (artifacts.EvaluationFolder, "tasks/M/cola/seeds/seed-0/dev.tsv"),
        (artifacts.AnalysisFolder, "calibration.probe.json"),
    ],
)
def test_a_truncated_file_is_detected_in_every_kind(
    kinds: dict[type[artifacts.Folder], Path], kind: type[artifacts.Folder], file: str
) -> None:
    path = kinds[kind] / file
    path.write_bytes(path.read_bytes()[:-3])
    [finding] = [finding for finding in verify(kinds[kind]) if finding.problem]
    assert path.is_relative_to(finding.path)


def test_a_folder_that_is_no_artifact_is_refused(tmp_path: Path, kinds: dict[type[artifacts.Folder], Path]) -> None:
    run = kinds[artifacts.RunFolder]
    for path, message in {
        tmp_path / "absent": str(tmp_path / "absent"),
        tmp_path: str(tmp_path),
        run / "checkpoints": f"Pass {run}",
        run / "run.toml": f"Pass {run}",
        kinds[artifacts.AnalysisFolder] / "figures": "figures",
    }.items():
        assert artifacts.kind_of(path) is None
        with pytest.raises(RunFolderError, match=message):
            artifacts.open_folder(path)


def test_only_harmless_keys_may_differ_when_a_run_resumes(kinds: dict[type[artifacts.Folder], Path]) -> None:
    run = artifacts.RunFolder(kinds[artifacts.RunFolder])
    record = run.record
    assert run.differences(record) == []
    record["training"] |= {"keep": 5, "log_every": 7}
    record["environment"] = record["generator"] = {}
    assert run.differences(record) == []
    record["training"] |= {"seed": 2, "device": "cuda"}
    assert run.differences(record) == [("training.seed", 1, 2), ("training.device", "auto", "cuda")]


def test_damaged_checkpoints_are_skipped_or_refused(kinds: dict[type[artifacts.Folder], Path]) -> None:
    folder = artifacts.RunFolder(kinds[artifacts.RunFolder]).checkpoints
    (folder / "step-3").mkdir()  # somebody else's
    assert [checkpoint.step for checkpoint in checkpoints.list_checkpoints(folder)] == [6, 3]
    assert checkpoints.newest_checkpoint(folder) == (checkpoints.at_step(folder, 6), ())
    checkpoints.at_step(folder, 6).weights.write_bytes(b"")
    newest, notes = checkpoints.newest_checkpoint(folder)
    assert newest == checkpoints.verified_checkpoint(folder, 3)
    assert len(notes) == 1 and "step-00000006 is damaged (model.safetensors has 0 bytes" in notes[0]
    checkpoints.at_step(folder, 3).state.unlink()
    with pytest.raises(CheckpointError, match=r"step-00000006.*step-00000003"):
        checkpoints.newest_checkpoint(folder)
    assert checkpoints.newest_checkpoint(folder / "none") == (None, ())


def test_artifacts_need_no_torch() -> None:
    code = "import sys, electra.artifacts; assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def renamed(record: Any, which: int) -> Any:
    """A record with one key edited: the first of its `which` level."""
    if isinstance(record, dict) and record:
        first, *_ = record
        if which == 0:
            return {f"{name}x" if name == first else name: value for name, value in record.items()}
        return {name: renamed(value, which - 1) for name, value in record.items()}
    if isinstance(record, list):
        return [renamed(value, which) for value in record]
    return record


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    "kind",
    [
        artifacts.StudyFolder,
        artifacts.EvaluationFolder,
        artifacts.AnalysisFolder,
        artifacts.FinetuningFolder,
        artifacts.StoreFolder,
        artifacts.RunFolder,
    ],
)
def test_the_report_of_edited_records_is_drawn_or_refused_in_one_line(
    kinds: dict[type[artifacts.Folder], Path],
    kind: type[artifacts.Folder],
    level: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in kinds[kind].glob("*.json"):
        durable.commit_json(path, renamed(json.loads(path.read_text(encoding="utf-8")), level))
    code = main(["report", str(kinds[kind])])
    error = capsys.readouterr().err
    assert code in (0, 2) and "Traceback" not in error
    assert code == 0 or (error.startswith("error: ") and error.count("\n") == 1)


def test_verify_reports_a_missing_record(
    kinds: dict[type[artifacts.Folder], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kinds[artifacts.EvaluationFolder]
    assert main(["verify", str(folder)]) == 0
    assert "DAMAGED" not in capsys.readouterr().out
    (folder / "tasks/M/cola/finetune.json").unlink()
    assert main(["verify", str(folder)]) == 1
    assert f"DAMAGED {folder}/tasks/M/cola/finetune.json  is missing" in capsys.readouterr().out
