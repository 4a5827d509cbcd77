"""The lines under "Reproduce" on every page give the settings that were recorded."""

import html
import re
import shlex
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import driven
import pytest
from contracts import toy_task
from driven import toy_store  # noqa: F401

import electra
from electra.commands.framework.command import Command
from electra.commands.framework.main import class_of, main
from electra.commands.framework.parser import parse
from electra.finetuning.settings import Settings

pytestmark = pytest.mark.usefixtures("no_figures")


def lines(folder: Path) -> list[list[str]]:
    """The words after `electra` of each line that a page prints."""
    [page] = folder.glob("*.html")
    found = re.search(r'id="reproduce">.*?<pre>(.*?)</pre>', page.read_text(), re.S)
    return [shlex.split(line)[1:] for line in html.unescape(found[1]).splitlines()] if found else []


def command(words: list[str]) -> Command[Any]:
    return parse(class_of(words[0]), words[1:])[0]


def settings(tuned: Command[Any]) -> Settings:
    return Settings(**{each.name: getattr(tuned, each.name) for each in fields(Settings)})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_task.save_encoder(tmp_path_factory.mktemp("models") / "toy")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Complaints as an office has them; the names of its columns are nobody's default."""
    labelled = (("fine", "a"), ("grim", "b"))
    rows = [f'"{n} {word}, my film",{label},x' for n in range(12) for word, label in labelled]
    for name in ("complaints", "later one"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["what was said,-kind,x", *rows]) + "\n")
    return tmp_path / "complaints.csv"


def finetuning(encoder: Path, table: Path) -> list[str]:
    words = ["finetune", str(encoder), "--task", "classification", "--data", str(table)]
    words += ["--text-column", "what was said", "--label-column=-kind"]
    words += ["--test", str(table.parent / "later one.csv")]
    words += ["--limit-train", "16", "--epochs", "1", "--no-baselines", "--device", "cpu", "--threads", "1"]
    return [*words, "--allow-unknown", "--head", "transformers"]


def test_a_fine_tuning_resumed_with_another_seed(encoder: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*finetuning(encoder, table), "--out", str(out)]
    more = [*words, "--seed", "1"]
    for each in (words, words, more):
        assert main(each) == 0
    assert [command(each) for each in lines(out)] == [command(words), command(more)]
    assert main([*words, "--batch-size", "4"]) == 2, "refused"
    assert main(["report", str(out)]) == 0 and len(lines(out)) == 2


@pytest.mark.parametrize(
    "change", [{"text_column": "what was said"}, {"data": "rows"}, {"calibrate": False, "warmup": 0.25}]
)
def test_a_fine_tuning_from_python(change: dict[str, Any], encoder: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked: dict[str, Any] = {"task": "classification", "data": table, "out": out}
    asked |= {"epochs": 1, "head": "linear"}
    asked |= {"text_column": ["what was said"], "label_column": "-kind", "baselines": False, **change}
    asked |= {"allow_unknown": True, "device": "cpu"}
    if asked["data"] == "rows":
        asked["data"] = [{"what was said": f"my film {n} is {n % 2}", "-kind": "ab"[n % 2]} for n in range(60)]
    electra.finetune(encoder, **asked)
    [words] = lines(out)
    if change.get("data"):
        assert words[words.index("--data") + 1] == "DATA", "cannot be typed"
        return
    said = command(words)
    assert settings(said) == Settings(**{**asked, "data": table, "out": out}) and said.model == str(encoder)


def test_a_pre_training_and_what_made_it_longer(toy_store: Path, tmp_path: Path) -> None:  # noqa: F811
    out = tmp_path / "a run"
    words = driven.command(toy_store, out, **{"training.schedule": "wsd", "training.steps": "10"})
    words += ["--training.betas", "0.9", "0.99", "--no-bias-correction"]
    longer = ["extend", str(out), "--budget", "16steps"]
    assert main(words) == 0 and main(longer) == 0
    assert [command(each) for each in lines(out)] == [command(words), command(longer)]


def test_an_evaluation(encoder: Path, tmp_path: Path) -> None:
    toy_task.write_classification(tmp_path / "data" / "SST-2", train=32, dev=12)
    out, data = tmp_path / "out", tmp_path / "data"
    words = ["evaluate", str(encoder), "--suite", "glue", "--data", str(data), "--data", str(tmp_path)]
    words += ["--out", str(out), "--no-baselines", "--finetune.epochs", "1", "--finetune.batch-size", "8"]
    assert main(words) == 0
    assert [command(each) for each in lines(out)] == [command(words)]
    settings, folders = {"epochs": 1, "batch_size": 8}, [data, tmp_path]
    made = electra.evaluate(str(encoder), data=folders, out=tmp_path / "b", baselines=False, settings=settings)
    [again] = lines(made.folder.path)
    assert replace(command(again), out=str(out)) == command(words)


@pytest.mark.parametrize("spoil", [lambda path: path.unlink(), lambda path: path.write_text("[]")])
def test_a_page_of_an_older_folder_prints_no_line(
    spoil: Callable[[Path], Any], encoder: Path, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert main([*finetuning(encoder, table), "--out", str(out)]) == 0
    spoil(out / "commands.json")
    assert main(["report", str(out)]) == 0 and lines(out) == []
