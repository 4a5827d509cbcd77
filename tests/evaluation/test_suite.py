"""Suite files, the search for data."""

from collections.abc import Callable
from pathlib import Path

import pytest

from electra.finetuning.settings import Settings
from electra.finetuning.tasks import load_task
from electra.foundation.config import build, toml_names
from electra.foundation.errors import ConfigError
from electra.laboratory.evaluation.suite import SUITES, TaskEntry, find_data, load_suite, read_suite


@pytest.mark.parametrize("name", toml_names(SUITES))
def test_our_suites_name_tasks_metrics_and_settings_that_exist(name: str) -> None:
    suite = load_suite(name)
    assert suite.about
    for entry in suite.task:
        task = load_task(entry.task)
        assert set(entry.metrics) <= set(task.metrics), entry.name
        settings = {**entry.settings, "task": entry.task, "data": Path(), "out": Path()}
        build(Settings, settings, where=entry.name)
    names = [entry.name for entry in suite.task]
    assert len(set(names)) == len(names)


def test_the_papers_average_leaves_wnli_out() -> None:
    (average,) = load_suite("glue").average
    assert sorted(average.tasks) == ["cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb"]


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ('title = "x"', "[[task]]"),
        ('title = "x"\n[[task]]\nname = "rte"\n[[task]]\nname = "rte"', "'rte'"),
        ('title = "x"\n[[task]]\nname = "rte"\nfolder = "y"', "folder"),
        ('title = "x"\n[[task]]\nname = "../rte"', "'../rte'"),
        ('title = "x"\n[[task]]\nname = "rte"\n[[average]]\ntitle = "a"\ntasks = ["rt"]', "'rt'"),
    ],
)
def test_an_invalid_suite_names_its_file_and_key(tmp_path: Path, content: str, fact: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_suite(path)
    assert fact in str(caught.value) and "mine.toml" in str(caught.value)


def entry(name: str = "sst2", **fields: object) -> TaskEntry:
    return TaskEntry(name, task=name, **({"folders": (name,)} | fields))  # type: ignore[arg-type]


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")


def test_folders_are_found_by_name_in_any_layout(tmp_path: Path) -> None:
    task = load_task("sst2")
    assert find_data(entry(), task, [tmp_path]) is None
    folder = tmp_path / "a" / "glue" / "SST-2"
    touch(folder / "train.tsv", folder / "dev-872.tsv.gz")
    files = find_data(entry(), task, [tmp_path / "empty", tmp_path])
    assert files and files.dev and not files.notes
    assert (files.train.name, files.dev.name) == ("train.tsv", "dev-872.tsv.gz")
    assert find_data(entry(), task, [folder]) == files  # the folder itself
    assert find_data(entry(folders=("glue/sst2",)), task, [tmp_path]) == files
    assert find_data(entry(folders=("other/sst2",)), task, [tmp_path]) is None
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "sst2").symlink_to(tmp_path / "a" / "glue" / "SST-2")
    (tmp_path / "linked" / "up").symlink_to(tmp_path)  # a link back ends
    linked = find_data(entry(), task, [tmp_path / "linked"])
    assert linked and linked.train.samefile(files.train)
    touch(tmp_path / "1" / "2" / "3" / "4" / "cola" / "train.tsv")
    assert find_data(entry("cola"), load_task("cola"), [tmp_path]) is None  # deeper than is looked


def test_without_a_training_file_the_dev_file_is_split_and_noted(tmp_path: Path) -> None:
    touch(tmp_path / "qnli" / "dev.tsv", tmp_path / "qnli" / "test.tsv")
    files = find_data(entry("qnli"), load_task("qnli"), [tmp_path])
    assert files and files.train.name == "dev.tsv" and files.dev is None
    assert "dev.tsv" in files.notes[0]


def test_the_first_pattern_that_matches_decides(tmp_path: Path) -> None:
    squad = entry("squad", train=("train-v1.1.json*", "a.json"), dev=("b.json",))
    touch(tmp_path / "squad" / "a.json", tmp_path / "squad" / "b.json")
    files = find_data(squad, load_task("squad"), [tmp_path])
    assert files and files.dev and (files.train.name, files.dev.name) == ("a.json", "b.json")
    assert set(files.digests()) == {"train 1", "dev"}
    touch(tmp_path / "squad" / "train-v1.1.json.gz")
    whole = find_data(squad, load_task("squad"), [tmp_path])
    assert whole and whole.train.name == "train-v1.1.json.gz"


def test_the_shared_data_are_found(shared_data: Callable[[str], Path]) -> None:
    root = shared_data("glue").parent
    tasks = [task for name in toml_names(SUITES) for task in load_suite(name).task]
    files = {task.name: find_data(task, load_task(task.task), [root]) for task in tasks}
    assert {name for name, data in files.items() if data is None} <= {"cb"}
    mnli, boolq = files["mnli"], files["boolq"]
    assert mnli and mnli.dev
    assert (mnli.train.name, mnli.dev.name) == ("train-10k.jsonl.gz", "dev-4908.jsonl.gz")
    assert boolq and boolq.notes and files["chunking"] and files["chunking"].test
