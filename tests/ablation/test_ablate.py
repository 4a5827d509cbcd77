"""A whole small study through the command line: interrupted, killed, continued, and equal to the bit to one
that never stopped.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from driven import OBJECTS, SUBJECTS, VERBS, fingerprint, spawn, steps_done
from fake_study import STUDY

from electra.artifacts import digests
from electra.artifacts.run import RunFolder
from electra.commands.framework.main import main as run_command
from electra.data.store import TokenStore
from electra.foundation import jobs
from electra.foundation.claims import Job
from electra.foundation.errors import Interrupted, RunFailed
from electra.foundation.signals import Stop, StopRequest
from electra.laboratory.ablation import plan, worker
from electra.testing import toy
from electra.training.compilation import encoder_layers
from electra.training.distributed import World
from electra.training.estimate import UpdateTime
from electra.training.run import build_run

JOBS = [plan.Job(arm, 1.0, seed) for seed in (1, 2) for arm in ("mlm", "rtd")]


def write_panel(folder: Path) -> Path:
    """Sentences in CoNLL-U: what comes first is tagged NOUN, then VERB, then DET."""
    for split, shift in (("train", 0), ("dev", 1)):
        lines = []
        for index, subject in enumerate(SUBJECTS * 5):
            verb, thing = VERBS[(index + shift) % 6], OBJECTS[(index * 5 + shift) % 6]
            words = [
                (word, tag)
                for text, tag in ((subject, "NOUN"), (verb, "VERB"), (thing, "DET"))
                for word in text.split()
            ]
            lines += [
                f"{number}\t{word}\t_\t{tag}\t_\t_\t0\troot\t_\t_"
                for number, (word, tag) in enumerate(words, 1)
            ] + [""]
        path = folder / "ud-english-ewt" / f"{split}.conllu"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return folder


ONCE = (
    "--seeds",
    "--seed",
    "--threads",
    "--budget",
    "--store",
    "--recipe",
    "--jobs",
    "--eval-data",
    "--out",
)


def main(words: list[str]) -> int:
    """The command line, where an option that is given later replaces the one before."""
    kept = list(words)
    for option in ONCE:
        while kept.count(option) > 1:
            first = kept.index(option)
            del kept[first : first + 2]
    return run_command(kept)


@pytest.fixture
def command(study_file: Callable[[], Path], recipe_file: str, toy_store: Path, tmp_path: Path) -> list[str]:
    data = write_panel(tmp_path / "data")
    fixed = [
        "--store",
        str(toy_store),
        "--recipe",
        recipe_file,
        "--out",
        str(tmp_path / "out"),
        "--threads",
        "1",
        "--seeds",
        "2",
    ]
    return [
        "ablate",
        str(study_file()),
        *fixed,
        "--budget",
        "30steps",
        "--eval-data",
        str(data),
        "--eval-task",
        "pos",
    ]


def wait_for(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    while steps_done(folder) < step:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


def score(folder: Path) -> Any:
    return {
        key: value
        for key, value in json.loads((folder / "score.json").read_text()).items()
        if key != "seconds"
    }


def in_this_process(
    todo: Iterable[Job],
    at_once: int,
    *,
    threads: int,
    say: jobs.Say,
    stop: Stop,
    on_poll: Callable[[], None],
) -> Iterator[Job]:
    for job in jobs.run_in_turn(todo, say=say, stop=stop):
        on_poll()
        yield job


@pytest.mark.slow
def test_a_study_from_plan_to_page(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "run_parallel", in_this_process)
    assert main([*command, "--budget", "12steps"]) == 0
    out, said = tmp_path / "out", capfd.readouterr().out
    results = json.loads((out / "results.json").read_text())
    arms = results["budgets"][0]["arms"]
    assert results["complete"] and results["primary"] == "panel" and results["seeds"] == [1, 2]
    assert arms["rtd"]["steps"] == 12 < arms["mlm"]["steps"]
    assert abs(arms["rtd"]["flops"] - arms["mlm"]["flops"]) <= arms["mlm"]["flops_per_step"]
    assert set(arms["rtd"]["scores"]) > {"panel", "pos", "auc", "gain", "generator_loss"}
    assert all(
        0.3 < value <= 1 for arm in arms.values() for value in arm["scores"]["pos"]["by_seed"].values()
    )
    assert arms["rtd"]["scores"]["pos"]["against_baseline"]["n"] == 2
    assert "detection" in (html := (out / "report.html").read_text()) and ">85.0</data>" in html
    assert (
        "4 runs, 0 already done" in said
        and "rtd, seed 2 done  (4 of 4 runs)" in said
        and f"page: {out / 'report.html'}" in said
    )
    compared = digests.compare(out) or {}
    assert not any(compared.values()) and {"study.json", "arms/rtd/seed-2/score.json"} <= compared.keys()
    assert (
        main(["detect", str(out / "arms" / "rtd" / "seed-1"), "the cat sees the sea ."]) == 0
    )  # a run like any other


@pytest.mark.reliability
@pytest.mark.timeout(1200)
def test_a_study_interrupted_and_killed_gives_the_same_weights_and_scores(
    command: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"

    process = spawn(command)
    wait_for(out / "arms" / "mlm" / "seed-1", 6, process)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 143, said
    assert "stopped; rerun to resume" in said
    assert json.loads((out / "results.json").read_text())["complete"] is False

    process = spawn(command)
    wait_for(out / "arms" / "rtd" / "seed-1", 6, process)
    process.kill()
    process.communicate(timeout=60)
    done_before = (out / "arms" / "mlm" / "seed-1" / "score.json").stat().st_mtime_ns

    process = spawn(command)
    said = process.communicate(timeout=400)[0]
    assert process.returncode == 0, said
    assert "4 runs, 1 already done" in said
    assert (out / "arms" / "mlm" / "seed-1" / "score.json").stat().st_mtime_ns == done_before
    results = json.loads((out / "results.json").read_text())
    assert results["complete"] and results["primary"] == "panel"
    assert [arm["runs"] for arm in results["budgets"][0]["arms"].values()] == [2, 2]
    assert "<h2>Result</h2>" in (out / "report.html").read_text()

    calm = tmp_path / "calm"  # the same plan, run here without a stop
    calm.mkdir()
    (calm / "study.json").write_bytes((out / "study.json").read_bytes())
    TokenStore.open(plan.read_plan(out)["store"]).tokenizer.save(calm / "tokenizer")
    with StopRequest() as stop:
        for job in JOBS:
            worker.run_job(calm, job, 1, say=print, stop=stop)
            assert fingerprint(job.folder(out)) == fingerprint(job.folder(calm))
            assert score(job.folder(out)) == score(job.folder(calm))


class Scorer:
    """Stands in for the worker: only writes a score, or fails."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.unlucky: set[str] = set()
        self.real = worker.run_job

    def run_job(self, out: Path, job: plan.Job, threads: int, *, say: jobs.Say, stop: Stop) -> None:
        name = f"{job.arm}{job.seed}"
        self.started.append(name)
        if name in self.unlucky:
            raise RunFailed("no luck")
        folder, panel = job.folder(out), plan.read_plan(out)["panel"]
        folder.mkdir(parents=True, exist_ok=True)
        scores = {task: {"value": 0.5 + job.seed / 10} for task in panel["tasks"]}
        (folder / "score.json").write_text(json.dumps({"panel": panel["identity"], "scores": scores}))


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch) -> Scorer:
    stub = Scorer()
    monkeypatch.setattr(worker, "run_job", stub.run_job)
    monkeypatch.setattr(jobs, "run_parallel", in_this_process)
    monkeypatch.setattr("electra.pages.figures.missing", lambda: "written without figures")
    return stub


def results_of(out: Path) -> Any:
    return json.loads((out / "results.json").read_text())


@pytest.mark.slow
def test_finished_runs_are_not_repeated_and_another_study_is_refused(
    command: list[str], capsys: pytest.CaptureFixture[str], scorer: Scorer
) -> None:
    scorer.unlucky = {"rtd2"}
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "rtd, seed 2 failed: no luck  (4 of 4 runs)" in said and "failed: rtd, seed 2: no luck" in said
    assert scorer.started == ["mlm1", "rtd1", "mlm2", "rtd2"]
    assert "mlm: panel 0.6500" in said

    assert main([*command, "--jobs", "2"]) == 1
    assert scorer.started[4:] == ["rtd2"]  # what failed is tried again, the rest is not
    assert main([*command, "--budget", "40steps"]) == 2
    assert ": flops was" in capsys.readouterr().err


@pytest.mark.slow
def test_a_stop_during_scoring_leaves_no_score_and_keeps_the_training(
    command: list[str], tmp_path: Path, scorer: Scorer
) -> None:
    """The stub only stands in for the study's own runs; this one is trained, stopped and scored."""
    assert main([*command, "--budget", "12steps", "--seeds", "1"]) == 0
    out, job = tmp_path / "out", plan.Job("rtd", 1.0, 5)
    run = RunFolder(job.folder(out))

    def trained() -> bool:
        return any(saved.step == 12 for saved in run.saved_checkpoints())

    with pytest.raises(Interrupted):
        scorer.real(out, job, 1, say=print, stop=trained)
    assert trained() and not run.score.exists()
    ledger = run.metrics.read_bytes()
    scorer.real(out, job, 1, say=print, stop=lambda: False)
    assert json.loads(run.score.read_text())["scores"]["pos"]["value"] > 0.3
    repeated = [row["step"] for row in run.ledger().rows_of_kind("train")]
    assert repeated == sorted(set(repeated)) and run.metrics.read_bytes().startswith(ledger)


def test_the_panel_scores_the_full_size_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subjects: list[Any] = []

    class Task:
        def score(self, subject: Any) -> dict[str, float]:
            subjects.append(subject)
            return {"value": 0.5}

    monkeypatch.setattr(worker.panel, "TASKS", {"one": Task(), "two": Task()})
    panel = {"folder": str(tmp_path / "data"), "tasks": {"one": {}, "two": {}}, "identity": {"of": "panel"}}
    store = toy.store()
    vars(store)["tokenizer"] = "its tokenizer"
    run = build_run(toy.recipe(), tmp_path, store, World())
    with StopRequest() as stop:
        record = worker.score(run, panel, 7, stop)
        assert (
            record is not None
            and record["panel"] == {"of": "panel"}
            and set(record["scores"]) == {"one", "two"}
        )
        assert run.pair.main is not None
        assert all(subject.encoder is run.pair.main.encoder for subject in subjects)
        assert {(subject.seed, subject.data, subject.tokenizer) for subject in subjects} == {
            (7, tmp_path / "data", "its tokenizer")
        }
        os.kill(os.getpid(), signal.SIGTERM)
        assert worker.score(run, panel, 7, stop) is None and len(subjects) == 2, (
            "what is not whole is no score"
        )


def test_scoring_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of the tasks have many shapes: to compile each took ten times as long as to score."""
    store = toy.store()
    vars(store)["tokenizer"] = "its tokenizer"
    run = build_run(toy.recipe(), tmp_path, store, World())
    compiled: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        compiled.append(inputs)
        return graph.forward

    for layer in encoder_layers(run.pair):
        layer.compile(backend=backend, dynamic=False)

    class Task:
        def score(self, subject: Any) -> dict[str, float]:
            for length in (5, 6):
                subject.encoder(torch.ones(2, length, dtype=torch.long))
            return {"value": 0.5}

    monkeypatch.setattr(worker.panel, "TASKS", {"one": Task()})
    panel = {"folder": str(tmp_path), "tasks": {"one": {}}, "identity": {}}
    with StopRequest() as stop:
        assert worker.score(run, panel, 7, stop) is not None
    assert not compiled


@pytest.mark.slow
def test_a_study_may_be_run_arm_by_arm_and_seed_by_seed(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], scorer: Scorer
) -> None:
    out, page = tmp_path / "out", tmp_path / "out" / "report.html"
    assert main([*command, "--only", "rtd"]) == 0
    assert scorer.started == ["rtd1", "rtd2"]
    assert "(2 of 2 runs)" in capsys.readouterr().out
    assert not results_of(out)["complete"] and "Missing: mlm, seeds 1, 2." in page.read_text()

    assert main(command) == 0
    assert scorer.started[2:] == ["mlm1", "mlm2"]
    assert results_of(out)["complete"] and "Missing" not in page.read_text()

    assert main([*command, "--seed", "3", "--seeds", "1", "--only", "mlm"]) == 0  # another day
    assert scorer.started[4:] == ["mlm3"]
    record = results_of(out)
    assert record["seeds"] == [1, 2, 3] and list(
        record["budgets"][0]["arms"]["mlm"]["scores"]["pos"]["by_seed"]
    ) == ["1", "2", "3"]
    assert "Missing: detection, seed 3." in page.read_text()
    assert main([*command, "--seeds", "3"]) == 0
    assert scorer.started[5:] == ["rtd3"] and results_of(out)["complete"]


def test_a_study_resumes_from_its_kept_records(command: list[str], tmp_path: Path, scorer: Scorer) -> None:
    assert main([*command, "--seeds", "1"]) == 0
    for arm in ("mlm", "rtd"):
        rows = [
            {"kind": "train", "step": 1},
            {"kind": "eval", "step": 30, "flops": 1e9, "seconds": 1.0, "metrics": {"auc": 0.7}},
            {"kind": "train", "step": 30},
        ]
        folder = tmp_path / "out" / "arms" / arm / "seed-1"
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    there = tmp_path / "elsewhere"
    kept = runpy.run_path(str(Path(__file__).parents[2] / "results" / "keep_study.py"))["keep"]
    assert kept(tmp_path / "out", there) == ["arms/mlm/seed-1", "arms/rtd/seed-1"]
    assert not any(str(tmp_path) in path.read_text() for path in there.rglob("*") if path.is_file())
    (tmp_path / "out").rename(tmp_path / "gone")

    assert main([str(there) if word == str(tmp_path / "out") else word for word in command]) == 0
    assert scorer.started[2:] == ["mlm2", "rtd2"] and (there / "tokenizer").is_dir()
    scores = results_of(there)["budgets"][0]["arms"]["rtd"]["scores"]
    assert scores["pos"]["by_seed"] == {"1": 0.6, "2": 0.7} and scores["auc"]["by_seed"] == {"1": 0.7}


def test_a_study_keeps_its_panel_when_a_later_command_has_none(
    command: list[str], tmp_path: Path, scorer: Scorer
) -> None:
    assert main(command) == 0
    bare = command[: command.index("--eval-data")]
    assert main(bare) == 0
    assert len(scorer.started) == 4
    assert list(results_of(tmp_path / "out")["panel"]) == ["pos"]


def test_a_panel_without_data_is_refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    at = command.index("--eval-data")
    assert main([*command[:at], *command[at + 2 :]]) == 2
    assert "--eval-task: needs --eval-data" in capsys.readouterr().err


@pytest.mark.slow
def test_a_dry_run_prints_the_cost_and_trains_nothing(
    command: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    scorer: Scorer,
) -> None:
    monkeypatch.setattr("electra.training.estimate.measure", lambda run: UpdateTime(36.0, 1))
    assert main([*command, "--dry-run", "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    steps = {arm: int(said.partition(f"  {arm}: ")[2].partition(" updates")[0]) for arm in ("mlm", "rtd")}
    assert steps["rtd"] == 30 < steps["mlm"]
    assert "rtd: 36000 ms per update, 60 updates left, 36 min" in said  # two seeds
    total, unit, half, half_unit = re.search(  # type: ignore[union-attr]
        r"  ([\d.]+) (min|h) one after the other, ([\d.]+) (min|h) with 2 at a time", said
    ).groups()
    seconds = {"min": 60.0, "h": 3600.0}
    assert float(total) * seconds[unit] == pytest.approx(2 * 36 * sum(steps.values()), rel=0.01)
    assert float(half) * seconds[half_unit] == pytest.approx(36 * sum(steps.values()), rel=0.01)
    assert not scorer.started and not (tmp_path / "out").exists()
    assert main([*command, "--only", "mlm"]) == 0
    capsys.readouterr()
    assert main([*command, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "4 runs, 2 already done" in said and "mlm: 36000 ms per update, 0 updates left" in said


REFUSED = {
    ("--seeds", "0"): "--seeds: must be at least 1, not 0",
    ("--jobs", "0"): "--jobs: must be at least 1, not 0",
    ("--threads", "1000000"): "--threads: must be at most 1024, not 1000000",
    ("--budget", "3steps"): "too few for the 10 held-out evaluations",
    ("--budget", "much"): "invalid budget",
    ("--budget", "1e400flops"): "invalid budget",
    ("--eval-task", "pox"): "no task named 'pox'",
    ("--eval-data", "nowhere"): "no train file for the panel",
    ("--store", "nowhere"): "no such token store",
    ("--recipe", "tinny"): "no recipe named 'tinny'",
    ("--only", "rdt"): "no arm named 'rdt'. Did you mean 'rtd'?",
}


@pytest.mark.parametrize("option", REFUSED, ids=" ".join)
def test_an_invalid_option_is_one_line(
    option: tuple[str, str], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *option]) == 2
    said = capsys.readouterr().err
    assert REFUSED[option] in said and said.count("\n") == 1


def test_invalid_studies_and_folders_are_one_line(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.toml").write_text(STUDY.replace("mlm", "mln", 1))
    assert main(["ablate", str(tmp_path / "bad.toml"), *command[2:]]) == 2
    assert "'mln' is not one of the arms. Did you mean 'mlm'?" in capsys.readouterr().err
    (tmp_path / "bad.toml").write_text(STUDY.replace('"rtd"', '"rdt"'))
    assert main(["ablate", str(tmp_path / "bad.toml"), *command[2:]]) == 2
    assert (
        "toy" not in (said := capsys.readouterr().err) and "arm rtd" in said and "Did you mean 'rtd'?" in said
    )
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "study.json").write_text('{"format": 1}')
    (tmp_path / "out" / ".lock").unlink(missing_ok=True)
    assert main(command) == 2
    assert "study.json: the record of a study has no 'study'. Choose another --out" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["study.json"], (
        "nothing is written beside what is not ours"
    )
    (tmp_path / "out" / "study.json").unlink()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    assert main(command) == 2
    assert "thesis.tex" in capsys.readouterr().err


@pytest.mark.slow
def test_two_commands_share_a_study_and_each_run_is_trained_once(command: list[str], tmp_path: Path) -> None:
    both = [spawn(command) for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    out = tmp_path / "out"
    runs = sorted((out / "arms").glob("*/seed-*/metrics.jsonl"))
    assert len(runs) == 4 and results_of(out)["complete"]
    for run in runs:
        events = [row["event"] for row in map(json.loads, run.read_text().splitlines()) if "event" in row]
        assert events.count("started") == 1 and events.count("finished") == 1
    assert main([*command, "--missing"]) == 0
