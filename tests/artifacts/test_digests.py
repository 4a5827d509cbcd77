"""A flipped bit is found in every record of an evaluation, analysis, study and fine-tuning."""

from __future__ import annotations

from pathlib import Path

import pytest

from electra import artifacts
from electra.artifacts import digests
from electra.foundation import durable


def made(kind: type[artifacts.Folder], path: Path) -> artifacts.Folder:
    """Writes a finished folder of a kind, with only its own files."""
    files = {
        artifacts.EvaluationFolder: {
            "evaluation.json": {"plan": {}},
            "evaluation.tsv": ["a table"],
            "data/cola-train.json": ["rows"],
            "tasks/majority/cola/all_results.json": {"seeds": [0]},
        },
        artifacts.AnalysisFolder: {"a.probe.json": {"models": []}, "b.probe.json": {"models": [1]}},
        artifacts.StudyFolder: {
            "study.json": {"study": {}},
            "results.json": {"failed": []},
            "tokenizer/tokenizer.json": {},
            "arms/a/seed-1/score.json": {"scores": {}},
        },
        artifacts.FinetuningFolder: {
            "finetune.json": {"task": "a"},
            "all_results.json": {"seeds": 1},
            "dev.jsonl": [1],
        },
    }[kind]
    for name, content in files.items():
        durable.commit_json(path / name, content)
    folder = kind(path)
    if isinstance(folder, artifacts.StudyFolder):
        (path / "arms/a/seed-1/run.toml").write_text("[model]\n")
    if isinstance(folder, artifacts.AnalysisFolder):
        for record in folder.probes().values():
            with digests.replacing(record):
                pass
    else:
        folder.record_digests()
    return folder


@pytest.mark.parametrize(
    "kind",
    [
        artifacts.EvaluationFolder,
        artifacts.AnalysisFolder,
        artifacts.StudyFolder,
        artifacts.FinetuningFolder,
    ],
)
def test_a_flipped_bit_is_detected_in_every_file(kind: type[artifacts.Folder], tmp_path: Path) -> None:
    folder = made(kind, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != digests.DIGESTS]
    files = [path for path in files if path.name != "run.toml"]  # the run's own digests hold it
    assert len(files) > 1 and not [finding for finding in folder.verify() if finding.problem]
    for file in files:
        good = file.read_bytes()
        for place in range(len(good)):
            file.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
            actual = [finding for finding in folder.verify() if finding.problem]
            assert file in {finding.path for finding in actual}, (file, place)
        file.unlink()
        assert any(finding.problem for finding in folder.verify())
        file.write_bytes(good)


def test_resuming_in_a_damaged_folder_warns(tmp_path: Path) -> None:
    folder = made(artifacts.EvaluationFolder, tmp_path)
    (tmp_path / "evaluation.tsv").write_text("[]\n")
    (tmp_path / "data" / "cola-train.json").unlink()  # whoever deletes a file has it made again
    messages: list[str] = []
    with folder.session(say=messages.append):
        pass
    assert len(messages) == 1 and messages[0].startswith("warning: evaluation.tsv has 3 bytes instead of ")


def test_a_replaced_file_is_never_reported_as_damaged(tmp_path: Path) -> None:
    folder = made(artifacts.AnalysisFolder, tmp_path)
    with pytest.raises(KeyboardInterrupt), digests.replacing(tmp_path / "a.probe.json"):
        durable.commit_json(tmp_path / "a.probe.json", {"models": [2]})
        raise KeyboardInterrupt
    assert not [finding for finding in folder.verify() if finding.problem]
    with digests.replacing(tmp_path / "a.probe.json"):
        pass
    assert set(digests.compare(tmp_path) or {}) == {"a.probe.json", "b.probe.json"}
    (tmp_path / digests.DIGESTS).write_text("{")
    assert [finding.path.name for finding in folder.verify() if finding.problem] == [digests.DIGESTS]
