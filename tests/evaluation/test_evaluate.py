"""A suite end to end: killed and continued, refused when something changed, its table, its page."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driven import spawn

from electra.artifacts.evaluation_files import EvaluationFolder
from electra.commands.framework.main import main
from electra.finetuning.score import baselines
from electra.foundation.errors import ConfigError, RunFailed, RunFolderError
from electra.laboratory.evaluation.tasks import model_entries

SUITE = """
title = "Toys"
about = "Three small tasks."

[[task]]
name = "sst2"
title = "SST-2, accuracy"
folders = ["sst-2"]

[[task]]
name = "again"
task = "sst2"
title = "SST-2 once more"
folders = ["nowhere", "sst-2"]
metrics = ["accuracy"]
settings = { text_column = "sentence" }

[[task]]
name = "rte"
title = "RTE, accuracy"
settings = { epochs = 1 }

[[task]]
name = "mnli"

[[average]]
title = "all of them"
tasks = ["sst2", "rte", "mnli"]
"""
OPTIONS = ("epochs=1", "precision=fp32", "batch_size=8", "learning_rate=5e-3")
QUICK = ("--device", "cpu", *(f"--finetune.{option}" for option in OPTIONS))
TWO_SEEDS = ("--seeds", "2")
slow = pytest.mark.slow


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "toys.toml"
    path.write_text(SUITE)
    return path


Line = Callable[..., list[str]]


@pytest.fixture(scope="session")
def line(model: Path, data: Path, suite: Path) -> Line:
    """Gives the words of a command on the toy suite: its folder, then further words."""

    def words(out: Path, *more: str, data: Path = data, suite: Path = suite) -> list[str]:
        folders = ("--suite", str(suite), "--data", str(data), "--out", str(out))
        return ["evaluate", str(model), *folders, *QUICK, *more]

    return words


def read(out: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((out / "evaluation.json").read_text())
    return record


def statuses(record: dict[str, Any]) -> dict[str, list[str]]:
    return {row["task"]: [score["status"] for score in row["scores"].values()] for row in record["rows"]}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key != "seconds_per_seed"}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


@pytest.fixture(scope="session")
def whole(line: Line, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished evaluation: two seeds, with all baselines."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert main(line(out, *TWO_SEEDS)) == 0
    return out


def test_the_record_holds_the_scores_of_the_fine_tunings(whole: Path) -> None:
    record = read(whole)
    assert [model["init"] for model in record["models"]] == ["pretrained", "floor", "floor"]
    columns = ["toy", "majority", "counts"]
    assert statuses(record).pop("mnli") == ["no data"] * 3
    for row in record["rows"][:3]:
        for entrant, score in zip(columns, row["scores"].values(), strict=True):
            results = json.loads((whole / "tasks" / entrant / row["task"] / "all_results.json").read_text())
            by_seed = results["eval_accuracy_by_seed"]
            assert score["status"] == "done" and score["by_seed"] == by_seed and score["n"] == len(by_seed)
            assert score["mean"] == results["eval_accuracy"] == pytest.approx(sum(by_seed) / len(by_seed))
            assert score["seconds_per_seed"] == results["seconds"] / len(by_seed)
    first = record["rows"][0]["scores"]
    assert first[baselines.COUNTS]["train_samples"] == first["toy"]["train_samples"]


def test_an_average_is_over_the_tasks_that_all_models_have_done(whole: Path) -> None:
    record = read(whole)
    (average,) = record["averages"]
    assert average["over"] == ["sst2", "rte"] and average["tasks"] == ["sst2", "rte", "mnli"]
    rows = {row["task"]: row for row in record["rows"]}
    for name, value in average["scores"].items():
        assert value == (rows["sst2"]["scores"][name]["median"] + rows["rte"]["scores"][name]["median"]) / 2


def test_the_page_shows_the_records_numbers(whole: Path) -> None:
    page = (whole / "evaluation.html").read_text()
    shown = set(re.findall(r'<data value="([^"]+)">', page))
    for row in read(whole)["rows"][:3]:
        for score in row["scores"].values():
            assert repr(score["median"]) in shown and repr(score["mean"]) in shown
    assert all(said in page for said in ("RTE, accuracy", "no training file"))


@slow
def test_finished_tasks_are_not_repeated_and_seeds_added(line: Line, whole: Path, tmp_path: Path) -> None:
    out = shutil.copytree(whole, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (out / "tasks").rglob("*") if path.is_file()}
    assert main(line(out, *TWO_SEEDS)) == 0
    after = {path: path.stat().st_mtime_ns for path in (out / "tasks").rglob("*") if path.is_file()}
    assert after == before and read(out) == read(whole)
    shutil.rmtree(out / "tasks" / "toy" / "again")
    assert main(line(out, "--seeds", "3", "--no-baselines")) == 0
    for row, before_row in zip(read(out)["rows"][:3], read(whole)["rows"], strict=False):
        score = row["scores"]["toy"]
        assert score["n"] == 3 and score["by_seed"][:2] == before_row["scores"]["toy"]["by_seed"]


def until(process: subprocess.Popen[str], text: str) -> None:
    """Reads the output up to a line that contains `text`."""
    assert process.stdout is not None
    seen = ""
    while text not in (line := process.stdout.readline()):
        assert line, seen
        seen += line


@slow
def test_killed_and_shared_evaluations_give_one_record(line: Line, whole: Path, tmp_path: Path) -> None:
    """Two commands in one folder, of which one is killed and the other stopped; then the rest."""
    out = tmp_path / "out"
    words = line(out, *TWO_SEEDS)
    first, second = spawn(words), spawn(words)
    until(first, " seed 0 ")
    first.kill()
    first.communicate()
    until(second, " seed 0 ")
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=120)
    assert second.returncode == 143 and (out / "evaluation.html").exists()
    assert main(words) == 0
    assert without_times(read(out)) == without_times(read(whole))


def test_models_left_out_of_a_later_command_stay_in_the_plan(tmp_path: Path) -> None:
    def resume(**weights: str) -> None:
        models = {name: {"weights": digest} for name, digest in weights.items()}
        now, folder = {"suite": "s", "models": models, "tasks": {}}, EvaluationFolder(tmp_path)
        with folder.session({"plan": now}):
            folder.write_record({"plan": folder.merged_with_recorded(now)})

    for weights in ({"rtd": "1"}, {"mlm": "2"}, {"rtd": "1", "mlm": "2"}, {"mlm": "2"}):
        resume(**weights)
    with pytest.raises(RunFolderError) as caught:
        resume(rtd="3", mlm="2")
    assert "rtd.weights" in caught.value.what
    for odd in ("[]", '{"plan": 3}', '{"plan": {"models": {}}}'):
        (tmp_path / "evaluation.json").write_text(odd)
        with pytest.raises(RunFolderError):
            resume(rtd="1")


def test_two_models_never_share_a_folder() -> None:
    with pytest.raises(ConfigError):
        model_entries(["runs/small", "runs/small++"], with_baselines=False)
    entries = model_entries(["a/small", "b/small"])
    assert len({entry.folder for entry in entries}) == 4


def test_a_failed_seed_is_reported_beside_finished_ones(
    line: Line, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RunFailed("the training loss is not a number")

    out = shutil.copytree(whole, tmp_path / "out")
    monkeypatch.setattr("electra.laboratory.evaluation.tasks.finetune", fail)
    assert main(line(out, "--seeds", "3", "--no-baselines")) == 1
    row = read(out)["rows"][0]
    assert row["scores"]["toy"]["n"] == 2
    assert any("toy" in remark and "is not a number" in remark for remark in row["remarks"])


def test_another_model_settings_or_files_are_refused_by_name(
    line: Line, whole: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (whole / "evaluation.json").read_bytes()
    other_data, other_suite = shutil.copytree(data, tmp_path / "data"), tmp_path / "other.toml"
    (other_data / "glue" / "SST-2" / "dev.tsv").write_text("sentence\tlabel\nfine\t1\ngrim\t0\n")
    other_suite.write_text(SUITE.replace("Toys", "Others"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    for words, facts in (
        (line(whole, "--finetune.warmup", "0.3"), ["sst2.settings.warmup", "0.3"]),
        (line(whole, data=other_data), ["again.files.dev", "sst2.files.dev"]),
        (line(whole, suite=other_suite), ["suite"]),
        (line(tmp_path / "full"), ["letter.txt"]),
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert all(fact in said for fact in facts)
    assert (whole / "evaluation.json").read_bytes() == before


@slow
def test_a_failed_task_is_reported_and_the_others_run(
    line: Line, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = shutil.copytree(data, tmp_path / "data")
    (broken / "glue" / "rte" / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\n")
    assert main(line(tmp_path / "out", "--no-baselines", data=broken)) == 1
    assert "dev.tsv:2" in capsys.readouterr().out
    record = read(tmp_path / "out")
    assert statuses(record) == {"sst2": ["done"], "again": ["done"], "rte": ["failed"], "mnli": ["no data"]}
    assert "dev.tsv:2" in (tmp_path / "out" / "evaluation.html").read_text()


@pytest.mark.parametrize(
    ("option", "value", "fact"),
    [
        ("--finetune.seed", "3", "--finetune.seed"),
        ("--seeds", "0", "--seeds"),
        ("--suite", "gleu", "'glue'"),
        ("--data", "nowhere", "nowhere"),
        ("--data", "", "sst2, again, rte, mnli"),
    ],
)
def test_invalid_input_is_one_line_and_nothing_is_written(  # noqa: PLR0917
    line: Line, option: str, value: str, fact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = line(tmp_path / "out")
    (tmp_path / "empty").mkdir()
    value = value or str(tmp_path / "empty")
    if option in words:
        words[words.index(option) + 1] = value
    else:
        words += [option, value]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert fact in error and error.count("\n") == 1 and not (tmp_path / "out").exists()
