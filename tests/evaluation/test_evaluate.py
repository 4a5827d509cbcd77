"""A suite end to end: killed and continued, refused when something changed, its table, its page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts import digests
from electra.artifacts.evaluation import EvaluationFolder
from electra.commands.evaluate import Evaluate
from electra.commands.framework.main import main
from electra.commands.framework.parser import parse
from electra.foundation.errors import ConfigError, RunFailed, RunFolderError
from electra.laboratory.evaluation.running import model_entries

pytestmark = pytest.mark.slow

SUITE = """
title = "Toys"
about = "Three small tasks."

[[task]]
name = "sst2"
title = "SST-2, accuracy"
folders = ["sst-2"]
full = [64, 20]

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
full = [2490, 277]
settings = { epochs = 1 }

[[task]]
name = "mnli"

[[average]]
title = "all of them"
tasks = ["sst2", "rte", "mnli"]
"""
OPTIONS = ("epochs=2", "precision=fp32", "batch_size=8", "learning_rate=5e-3")
QUICK = ("--device", "cpu", "--no-baselines", *(f"--finetune.{option}" for option in OPTIONS))


TWO_SEEDS = ("--seeds", "2", "--untrained-baseline")


def arguments(model: Path, data: Path, suite: Path, out: Path, *more: str) -> list[str]:
    folders = ("--suite", str(suite), "--data", str(data), "--out", str(out))
    return ["evaluate", str(model), *folders, *QUICK, *more]


def read(out: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((out / "evaluation.json").read_text())
    return record


def statuses(record: dict[str, Any]) -> dict[str, list[str]]:
    return {row["task"]: [score["status"] for score in row["scores"].values()] for row in record["rows"]}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key != "seconds_per_seed"}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def whole(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished evaluation: two seeds, with a twin."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "toys.toml").write_text(SUITE)
    assert main(arguments(model, data, folder / "toys.toml", folder / "out", *TWO_SEEDS)) == 0
    return folder / "out"


def test_files_are_verified_by_their_digests(whole: Path) -> None:
    compared = digests.compare(whole) or {}
    assert not any(compared.values()) and {"evaluation.json", "evaluation.tsv"} <= compared.keys()


def test_the_record_holds_the_scores_of_the_fine_tunings(whole: Path) -> None:
    record = read(whole)
    assert statuses(record) == {
        "sst2": ["done"] * 2,
        "again": ["done"] * 2,
        "rte": ["done"] * 2,
        "mnli": ["no data"] * 2,
    }
    for row in record["rows"][:3]:
        for entrant, score in zip(["toy", "toy-fresh-weights"], row["scores"].values(), strict=True):
            results = json.loads((whole / "tasks" / entrant / row["task"] / "all_results.json").read_text())
            assert score["by_seed"] == results["eval_accuracy_by_seed"] and score["n"] == 2
            assert (
                score["mean"] == results["eval_accuracy"]
                and score["median"] == results["eval_accuracy_median"]
            )
            assert (
                score["sd"] == results["eval_accuracy_sd"]
                and score["seconds_per_seed"] == results["seconds"] / 2
            )
    twin = json.loads((whole / "tasks" / "toy-fresh-weights" / "sst2" / "finetune.json").read_text())
    assert twin["settings"]["init"] == "random"
    assert [model["init"] for model in record["models"]] == ["pretrained", "random"]


def test_published_numbers_are_marked_where_they_must_not_be_compared(whole: Path) -> None:
    rows = {row["task"]: row for row in read(whole)["rows"]}
    assert rows["sst2"]["comparable"] and rows["sst2"]["published"]["ELECTRA-Small++"] == 0.912
    assert not rows["rte"]["comparable"] and rows["rte"]["published"]["ELECTRA-Small++"] == 0.667
    assert rows["rte"]["remarks"][0].startswith("no training file")
    assert rows["rte"]["remarks"][1:] == ["trained on 54 of 2,490 examples", "scored on 6 of 277 examples"]
    lines = [line.split("\t") for line in (whole / "evaluation.tsv").read_text().splitlines()]
    column = lines[0].index("ELECTRA-Small++")
    assert {line[0]: line[column] for line in lines}["sst2"] == "91.20"
    assert {line[0]: line[column] for line in lines}["rte"] == "(66.70)"
    assert len({len(line) for line in lines}) == 1


def test_an_average_is_over_the_tasks_that_all_models_have_done(whole: Path) -> None:
    record = read(whole)
    (average,) = record["averages"]
    assert (
        average["over"] == ["sst2", "rte"]
        and average["tasks"] == ["sst2", "rte", "mnli"]
        and not average["comparable"]
    )
    rows = {row["task"]: row for row in record["rows"]}
    for name, value in average["scores"].items():
        assert value == (rows["sst2"]["scores"][name]["median"] + rows["rte"]["scores"][name]["median"]) / 2
    assert average["published"]["ELECTRA-Small++"] == pytest.approx((0.912 + 0.667) / 2)
    assert "BERT-Small (paper)" not in average["published"]  # an average over other tasks


def test_the_page_shows_the_records_numbers(whole: Path) -> None:
    page = (whole / "evaluation.html").read_text()
    record = read(whole)
    shown = set(re.findall(r'<data value="([^"]+)">', page))
    for row in record["rows"][:3]:
        for score in row["scores"].values():
            assert repr(score["median"]) in shown and repr(score["mean"]) in shown
    assert re.search(r'<span class="soft">\(<data value="0.667">66.7</data>\)</span>', page)
    assert re.search(r'(?<!\()<data value="0.912">91.2</data>', page)
    for said in (
        "RTE, accuracy",
        "no data",
        "trained on 54 of 2,490",
        "toy (fresh weights)",
        "Mean of 2 of 3 tasks",
        "google-research",
    ):
        assert said in page
    assert "<script" not in page and "<figure>" in page


def test_finished_tasks_are_not_repeated_and_seeds_can_be_added(
    whole: Path, model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    shutil.copytree(whole, tmp_path / "out")
    before = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "tasks").rglob("*") if path.is_file()
    }
    assert main(arguments(model, data, tmp_path / "toys.toml", tmp_path / "out", *TWO_SEEDS)) == 0
    assert capsys.readouterr().out.count("already done") == 6
    assert {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "tasks").rglob("*") if path.is_file()
    } == before
    assert read(tmp_path / "out") == read(whole)
    shutil.rmtree(tmp_path / "out" / "tasks" / "toy" / "again")
    assert main(arguments(model, data, tmp_path / "toys.toml", tmp_path / "out", "--seeds", "3")) == 0
    for row, before_row in zip(read(tmp_path / "out")["rows"][:3], read(whole)["rows"], strict=False):
        score = row["scores"]["toy"]
        assert score["n"] == 3 and score["by_seed"][:2] == before_row["scores"]["toy"]["by_seed"]


def test_resume_after_kill_gives_the_same_record(
    whole: Path, model: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    words = arguments(model, data, tmp_path / "toys.toml", tmp_path / "out", *TWO_SEEDS)
    process = start(words)
    seen = until(process, "sst2, toy (fresh weights)")
    process.kill()
    process.communicate(timeout=60)
    assert "no data" in seen
    record = read(tmp_path / "out")
    assert statuses(record)["sst2"][0] == "done" and statuses(record)["again"] == ["waiting"] * 2
    assert main(words) == 0
    assert without_times(read(tmp_path / "out")) == without_times(read(whole))


def test_sigterm_stops_the_evaluation(model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    process = start(arguments(model, data, tmp_path / "toys.toml", tmp_path / "out", "--seeds", "50"))
    until(process, "seed 1 ")
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 143 and "stopped; rerun the command to resume" in rest
    assert statuses(read(tmp_path / "out"))["sst2"] == ["waiting"]
    assert "waiting" in (tmp_path / "out" / "evaluation.html").read_text()


def test_parallel_jobs_give_the_same_record(
    whole: Path, model: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    words = arguments(model, data, tmp_path / "toys.toml", tmp_path / "out", *TWO_SEEDS, "--jobs", "2")
    assert main(words) == 0
    assert without_times(read(tmp_path / "out")) == without_times(read(whole))
    said = capfd.readouterr().out.splitlines()
    assert all(
        re.match(r"(sst2|again|rte), toy( \(fresh weights\))?: |mnli: no data|table: |page: ", line)
        for line in said
    ), said
    assert {line.partition(":")[0] for line in said if " seed 1 " in line} >= {
        "sst2, toy",
        "rte, toy (fresh weights)",
    }


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=pytest.mark.reliability) for number in (signal.SIGTERM, signal.SIGINT)]
    + [signal.SIGKILL],
)
def test_workers_end_with_the_command_which_then_resumes(
    number: signal.Signals, model: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    words = arguments(
        model,
        data,
        tmp_path / "toys.toml",
        tmp_path / "out",
        "--seeds",
        "2000",
        "--untrained-baseline",
        "--jobs",
        "2",
    )
    process = start(words)
    until(process, "seed 1 ")
    workers = [
        int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]
    assert len(workers) >= 2
    process.send_signal(number)
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -9}[number]
    assert ("stopped; rerun the command to resume" in rest) == (number != signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(map(running, workers)):
        assert time.monotonic() < deadline, "a worker outlives the command"
        time.sleep(0.1)
    assert statuses(read(tmp_path / "out"))["sst2"] == ["waiting"] * 2
    words[words.index("--seeds") + 1] = "1"
    assert main(words) == 0 and statuses(read(tmp_path / "out"))["rte"] == ["done"] * 2


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def start(words: Sequence[str]) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "electra", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def until(process: subprocess.Popen[str], text: str) -> str:
    """The output up to a line that contains `text`."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(seen)


def test_models_left_out_of_a_later_command_stay_in_the_plan(tmp_path: Path) -> None:
    def plan(**weights: str) -> dict[str, Any]:
        return {
            "suite": "s",
            "models": {name: {"weights": digest} for name, digest in weights.items()},
            "tasks": {},
            "probes": {},
        }

    def resume(now: dict[str, Any]) -> None:
        folder = EvaluationFolder(tmp_path)
        with folder.session({"plan": now}):
            folder.write_record({"plan": folder.merged_with_recorded(now)})

    for now in (plan(rtd="1"), plan(mlm="2"), plan(rtd="1", mlm="2")):
        resume(now)
    resume(plan(mlm="2"))
    with pytest.raises(RunFolderError) as caught:
        resume(plan(rtd="3", mlm="2"))
    assert "rtd.weights was 1, now 3" in caught.value.what
    for odd in ("[]", '{"plan": 3}', '{"plan": {"models": {}}}'):
        (tmp_path / "evaluation.json").write_text(odd)
        with pytest.raises(RunFolderError):
            resume(plan(rtd="1"))


def test_two_models_never_share_a_folder() -> None:
    with pytest.raises(ConfigError):
        model_entries(["runs/small", "runs/small++"], untrained_baseline=False, with_baselines=False)
    assert (
        len({entry.folder for entry in model_entries(["a/small", "b/small"], untrained_baseline=True)}) == 5
    )


def test_a_failed_seed_is_reported_beside_finished_ones(  # noqa: PLR0917
    whole: Path,
    model: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise RunFailed("the training loss is not a number")

    (tmp_path / "toys.toml").write_text(SUITE)
    shutil.copytree(whole, tmp_path / "out")
    monkeypatch.setattr("electra.laboratory.evaluation.steps.finetune", fail)
    assert (
        main(
            arguments(
                model, data, tmp_path / "toys.toml", tmp_path / "out", "--seeds", "3", "--untrained-baseline"
            )
        )
        == 1
    )
    assert "failed: sst2 (toy)" in capsys.readouterr().out
    row = read(tmp_path / "out")["rows"][0]
    assert row["scores"]["toy"]["n"] == 2 and any(
        "toy" in remark and "the training loss is not a number" in remark for remark in row["remarks"]
    )


def test_another_model_settings_or_files_are_refused_by_name(
    whole: Path, model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    suite = tmp_path / "toys.toml"
    before = (whole / "evaluation.json").read_bytes()
    assert main([*arguments(model, data, suite, whole, "--seeds", "2"), "--finetune.warmup", "0.3"]) == 2
    assert re.search(r"sst2\.settings\.warmup was .*0\.3", capsys.readouterr().err)
    other = shutil.copytree(data, tmp_path / "data")
    (other / "glue" / "SST-2" / "dev.tsv").write_text("sentence\tlabel\nfine\t1\ngrim\t0\n")
    assert main(arguments(model, other, suite, whole)) == 2
    assert re.search(r"again\.files\.dev has other contents; sst2\.files\.dev", capsys.readouterr().err)
    (tmp_path / "other.toml").write_text(SUITE.replace("Toys", "Others"))
    assert main(arguments(model, data, tmp_path / "other.toml", whole)) == 2
    assert "suite was" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    assert main(arguments(model, data, suite, tmp_path / "full")) == 2
    assert "letter.txt" in capsys.readouterr().err
    assert (whole / "evaluation.json").read_bytes() == before


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_failed_task_is_reported_and_the_others_run(
    jobs: str, model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    broken = shutil.copytree(data, tmp_path / "data")
    (broken / "glue" / "rte" / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\n")
    assert main(arguments(model, broken, tmp_path / "toys.toml", tmp_path / "out", "--jobs", jobs)) == 1
    said = capsys.readouterr()
    assert (
        re.search(r"rte, toy: failed, .*dev.tsv:2: 3 columns instead of 4", said.out)
        and "failed: rte (toy)" in said.out
    )
    record = read(tmp_path / "out")
    assert statuses(record) == {"sst2": ["done"], "again": ["done"], "rte": ["failed"], "mnli": ["no data"]}
    assert "3 columns instead of 4" in (tmp_path / "out" / "evaluation.html").read_text()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--finetune.epoch", "1"), "Did you mean --finetune.epochs?"),
        (("--finetune.seed", "3"), "unknown option --finetune.seed"),
        (("--seeds", "0"), "--seeds: must be at least 1"),
        (("--jobs", "0"), "--jobs: must be at least 1"),
        (("--suite", "gleu"), "no suite named 'gleu'"),
        (("--data", ""), "needs --data"),
        (("--data", "nowhere"), "nowhere: no such folder"),
        (("--data", "EMPTY"), "no data for any task (sst2, again, rte, mnli)"),
    ],
)
def test_invalid_input_is_one_line_and_nothing_is_written(
    more: tuple[str, str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    (tmp_path / "EMPTY").mkdir()
    words = arguments(
        request.getfixturevalue("model"),
        request.getfixturevalue("data"),
        tmp_path / "toys.toml",
        tmp_path / "out",
    )
    if more == ("--data", ""):
        at = words.index("--data")
        del words[at : at + 2]
    elif more[0] == "--suite":
        words[words.index("--suite") + 1] = more[1]
    elif more[0] == "--data":
        words[words.index("--data") + 1] = str(tmp_path / "EMPTY") if more[1] == "EMPTY" else more[1]
    else:
        words += more
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "out").exists()


def test_mismatched_genres_have_their_own_row_and_limits_are_remarked(model: Path, tmp_path: Path) -> None:
    folder, labels = tmp_path / "data" / "MNLI", ("neutral", "entailment", "contradiction")
    folder.mkdir(parents=True)
    for name, size in (("train", 24), ("dev_matched", 9), ("dev_mismatched", 12)):
        rows = [f"the film {i} was old .\tthe night .\t{labels[i % 3]}\n" for i in range(size)]
        (folder / f"{name}.tsv").write_text("sentence1\tsentence2\tgold_label\n" + "".join(rows))
    options = ("--finetune.epochs=1", "--finetune.limit-train=18", "--finetune.limit-eval=10")
    command = ["evaluate", str(model), "--suite", "babylm", "--data", str(folder.parent), *options, "--out"]
    assert main([*command, str(tmp_path / "out")]) == 0
    record = read(tmp_path / "out")
    rows = {row["task"]: row for row in record["rows"] if row["task"].startswith("mnli")}
    assert list(rows) == ["mnli", "mnli-mm"] and rows["mnli-mm"]["split"] == "dev_mismatched"
    results = json.loads((tmp_path / "out" / "tasks" / "toy" / "mnli" / "all_results.json").read_text())
    assert rows["mnli"]["scores"]["toy"]["median"] == results["eval_accuracy"]
    assert rows["mnli-mm"]["scores"]["toy"]["median"] == results["dev_mismatched_accuracy"]
    assert (
        rows["mnli-mm"]["published"]["RoBERTa-base, 10 M words"] == 0.74 and not rows["mnli-mm"]["comparable"]
    )
    assert rows["mnli-mm"]["remarks"] == [
        "trained on 18 of 392,702 examples",
        "scored on 10 of 9,832 examples",
    ]
    assert rows["mnli"]["remarks"] == ["trained on 18 of 392,702 examples", "scored on 9 of 9,815 examples"]
    assert {
        "train: 18 of 24 examples, chosen by hash",
        "dev_mismatched: 10 of 12 examples, chosen by hash",
    } <= set(results["notes"])
    (folder / "dev_mismatched.tsv").unlink()
    assert main([*command, str(tmp_path / "without")]) == 0
    assert (
        statuses(read(tmp_path / "without"))["mnli-mm"] == ["no data"] * 3
        and "undefined" not in (tmp_path / "without" / "evaluation.html").read_text()
    )
    (tmp_path / "mine.toml").write_text('title = "Mine"\n[[task]]\nname = "mnli"\n')
    command[command.index("babylm")] = str(tmp_path / "mine.toml")
    assert main([*command, str(tmp_path / "mine")]) == 0
    (row,) = read(tmp_path / "mine")["rows"]
    assert row["remarks"] == [
        "at most 18 training examples, by option",
        "at most 10 scored examples, by option",
    ]


def test_options_of_probes_are_recorded_and_mark_scores_as_not_comparable(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "blimp").mkdir(parents=True)
    pairs = [
        {"sentence_good": f"the film was {word} .", "sentence_bad": f"film the was {word} ."}
        for word in ("old", "new", "red")
    ]
    for name in range(67):
        lines = [
            json.dumps({**pair, "UID": f"p{name}", "linguistics_term": "order"}) + "\n" for pair in pairs
        ]
        (tmp_path / "data" / "blimp" / f"p{name}.jsonl").write_text("".join(lines))
    command = [
        "evaluate",
        str(model),
        "--suite",
        "babylm",
        "--data",
        str(tmp_path / "data"),
        "--probe-option",
        "scorers=original",
    ]
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    assert main([*command, "--out", str(tmp_path / "few"), "--probe-option", "limit=2"]) == 0
    (whole,), (few,) = (
        [row for row in read(tmp_path / name)["rows"] if row["split"] == "all"] for name in ("whole", "few")
    )
    assert whole["comparable"] and not whole["remarks"] and not few["comparable"]
    assert few["remarks"] == ["the first 2 pairs of each file, by option"]
    assert main([*command, "--out", str(tmp_path / "whole"), "--probe-option", "limit=2"]) == 2
    assert " now " in capsys.readouterr().err
    (tmp_path / "data" / "blimp" / "p5.jsonl").write_text(
        "".join(json.dumps({**pair, "UID": "p5"}) + "\n" for pair in pairs[:2])
    )
    assert main([*command, "--out", str(tmp_path / "whole")]) == 2
    assert "minimal_pairs.files.blimp/p5.jsonl has other contents" in capsys.readouterr().err
    assert main([*command, "--out", str(tmp_path / "none"), "--probe-option", "limits=2"]) == 2
    assert "'limit'" in capsys.readouterr().err and not (tmp_path / "none").exists()


def test_an_option_takes_one_value_and_leaves_the_models_alone() -> None:
    def models(*words: str) -> tuple[str, ...]:
        return parse(Evaluate, [*words, "--out", "o"])[0].models

    assert (
        models("--data", "d", "A")
        == models("--finetune.epochs", "1", "A", "--data", "d", "--data", "e")
        == ("A",)
    )
    assert models("A", "B", "--data", "d") == models("--data", "d", "A", "B") == ("A", "B")
    parsed, _ = parse(Evaluate, ["A", "--data", "d", "--data", "e", "--out", "o"])
    assert parsed.data == ("d", "e")


def test_an_invalid_model_is_refused_before_any_work(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "toys.toml").write_text(SUITE)
    assert main(arguments(tmp_path / "nothing", data, tmp_path / "toys.toml", tmp_path / "out")) == 2
    assert "nothing" in capsys.readouterr().err and not (tmp_path / "out").exists()
