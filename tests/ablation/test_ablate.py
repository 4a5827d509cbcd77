"""A whole small study through the command line: killed, continued, equal to the bit to one never stopped."""

import html
import json
import runpy
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driven import OBJECTS, SUBJECTS, VERBS, fingerprint, spawn, steps_done

from electra.artifacts.run_files import RunFolder
from electra.commands.ablate import Ablate
from electra.commands.framework.main import main
from electra.commands.framework.parser import parse
from electra.data.corpus.store import TokenStore
from electra.foundation.errors import Interrupted, RunFailed
from electra.foundation.progress import Say
from electra.foundation.signals import Stop, StopRequest
from electra.laboratory.ablation import plan, runs

SUITE = """
title = "Tags"
[[task]]
name = "pos"
folders = ["ud-english-ewt"]
settings = { head = "frozen" }
"""

Command = dict[str, str]
Captured = pytest.CaptureFixture[str]


def write_panel(folder: Path) -> Path:
    """Sentences in CoNLL-U: what comes first is tagged NOUN, then VERB, then DET."""
    for split, shift in (("train", 0), ("dev", 1)):
        lines = []
        for index, subject in enumerate(SUBJECTS * 5):
            verb, thing = VERBS[(index + shift) % 6], OBJECTS[(index * 5 + shift) % 6]
            tagged = ((subject, "NOUN"), (verb, "VERB"), (thing, "DET"))
            words = [(word, tag) for text, tag in tagged for word in text.split()]
            lines += [f"{n}\t{word}\t_\t{tag}\t_\t_\t0\troot\t_\t_" for n, (word, tag) in enumerate(words, 1)]
            lines.append("")
        path = folder / "ud-english-ewt" / f"{split}.conllu"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    (folder / "tags.toml").write_text(SUITE)
    return folder


@pytest.fixture
def command(study_file: Callable[[], Path], recipe_file: str, toy_store: Path, tmp_path: Path) -> Command:
    """The options of a study of two arms and two seeds, by name; "" is the study."""
    return {
        "": str(study_file()),
        "--store": str(toy_store),
        "--recipe": recipe_file,
        "--out": str(tmp_path / "out"),
        "--threads": "1",
        "--seeds": "2",
        "--budget": "12steps",
        "--eval-data": str(write_panel(tmp_path / "data")),
        "--eval-suite": str(tmp_path / "data" / "tags.toml"),
    }


def words(command: Command, *flags: str) -> list[str]:
    options = [word for name, value in command.items() if name for word in (name, value)]
    return ["ablate", command[""], *options, *flags]


def ablate(command: Command, *flags: str, **changes: str) -> int:
    changed = {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return main(words(command | changed, *flags))


def results_of(out: Path) -> Any:
    return json.loads((out / "results.json").read_text())


def score(folder: Path) -> Any:
    record = json.loads((folder / "score.json").read_text())
    return record.pop("seconds") and record


@pytest.mark.slow
def test_a_study_from_plan_to_page(command: Command, tmp_path: Path, capfd: Captured) -> None:
    """By two commands at once, which train each run once; with more seeds later."""
    both = [spawn(words(command | {"--seeds": "1"})) for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert ablate(command) == 0
    out = tmp_path / "out"
    for run in sorted((out / "arms").glob("*/seed-*/metrics.jsonl")):
        events = [row["event"] for row in map(json.loads, run.read_text().splitlines()) if "event" in row]
        assert events.count("started") == 1 and events.count("finished") == 1
    results = results_of(out)
    arms = results["budgets"][0]["arms"]
    assert results["complete"] and results["primary"] == "panel" and results["seeds"] == [1, 2]
    assert arms["rtd"]["steps"] == 12 < arms["mlm"]["steps"]
    assert abs(arms["rtd"]["flops"] - arms["mlm"]["flops"]) <= arms["mlm"]["flops_per_step"]
    assert set(arms["rtd"]["scores"]) > {"panel", "pos", "auc", "gain", "generator_loss"}
    for arm in arms.values():
        assert all(0.3 < value <= 1 for value in arm["scores"]["pos"]["by_seed"].values())
    assert arms["rtd"]["scores"]["pos"]["against_baseline"]["n"] == 2
    floors = [results["at_start"][arm]["panel"] for arm in ("rtd", "mlm")]
    assert floors[0] == floors[1] == results["at_start"]["rtd"]["pos"], "one shape, scored once"
    [record] = out.glob("untrained/*/score.json")
    assert json.loads(record.read_text())["scores"]["pos"]["value"] == floors[0] > 0
    tuned = json.loads(next(out.glob("untrained/*/panel/pos/finetune.json")).read_text())["settings"]
    assert (tuned["init"], tuned["head"]) == ("random", "frozen")
    assert "detection" in (out / "report.html").read_text()
    assert main(["detect", str(out / "arms/rtd/seed-1"), "the cat sees the sea ."]) == 0  # a run like any


def wait_for(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    while steps_done(folder) < step:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


@pytest.mark.reliability
@pytest.mark.timeout(1200)
def test_a_study_interrupted_and_killed_gives_the_same_weights_and_scores(command: Command, tmp_path: Path) -> None:
    out, line = tmp_path / "out", words(command | {"--budget": "30steps"})
    process = spawn(line)
    wait_for(out / "arms" / "mlm" / "seed-1", 6, process)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 143, said
    assert results_of(out)["complete"] is False

    process = spawn(line)
    wait_for(out / "arms" / "rtd" / "seed-1", 6, process)
    process.kill()
    process.communicate(timeout=60)
    done_before = (out / "arms" / "mlm" / "seed-1" / "score.json").stat().st_mtime_ns

    process = spawn(line)
    said = process.communicate(timeout=400)[0]
    assert process.returncode == 0, said
    assert (out / "arms" / "mlm" / "seed-1" / "score.json").stat().st_mtime_ns == done_before
    results = results_of(out)
    assert results["complete"] and results["primary"] == "panel"
    assert [arm["runs"] for arm in results["budgets"][0]["arms"].values()] == [2, 2]

    calm = tmp_path / "calm"  # the same plan, run here without a stop
    calm.mkdir()
    (calm / "study.json").write_bytes((out / "study.json").read_bytes())
    TokenStore.open(plan.read_plan(out)["store"]).tokenizer.save(calm / "tokenizer")
    with StopRequest() as stop:
        for job in [plan.Job(arm, seed) for seed in (1, 2) for arm in ("mlm", "rtd")]:
            runs.run_job(calm, job, 1, say=print, stop=stop)
            assert fingerprint(job.folder(out)) == fingerprint(job.folder(calm))
            assert score(job.folder(out)) == score(job.folder(calm))


class Scorer:
    """Stands in for training and scoring: only writes a score, or fails."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.unlucky: set[str] = set()
        self.real = runs.run_job

    def run_job(self, out: Path, job: plan.Job, threads: int, fixed: bool, *, say: Say, stop: Stop) -> None:
        name = f"{job.arm}{job.seed}"
        self.started.append(name)
        if name in self.unlucky:
            raise RunFailed("no luck")
        folder, described = job.folder(out), plan.read_plan(out)["panel"]
        folder.mkdir(parents=True, exist_ok=True)
        scores = {task: {"value": 0.5 + job.seed / 10} for task in described["tasks"]}
        record = {"panel": described["identity"], "scores": scores}
        (folder / "score.json").write_text(json.dumps(record))


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch, no_figures: None) -> Scorer:
    stub = Scorer()
    monkeypatch.setattr(runs, "run_job", stub.run_job)
    return stub


def test_what_is_done_is_not_repeated_and_arms_and_seeds_may_be_added(
    command: Command, tmp_path: Path, capsys: Captured, scorer: Scorer
) -> None:
    out = tmp_path / "out"
    assert ablate(command, only="rtd") == 0 and scorer.started == ["rtd1", "rtd2"]
    assert not results_of(out)["complete"]
    scorer.unlucky = {"mlm2"}
    assert ablate(command) == 1 and scorer.started[2:] == ["mlm1", "mlm2"]
    assert "no luck" in capsys.readouterr().out and results_of(out)["failed"][0]["job"] == "mlm, seed 2"
    scorer.unlucky.clear()
    bare = {name: value for name, value in command.items() if not name.startswith("--eval")}
    assert ablate(bare) == 0 and scorer.started[4:] == ["mlm2"]  # what failed is tried again; the same panel
    assert results_of(out)["complete"] and list(results_of(out)["panel"]) == ["pos"]
    assert ablate(command, seed="3", seeds="1", only="mlm") == 0 and scorer.started[5:] == ["mlm3"]
    by_seed = results_of(out)["budgets"][0]["arms"]["mlm"]["scores"]["pos"]["by_seed"]
    assert by_seed == {"1": 0.6, "2": 0.7, "3": 0.8} and len(results_of(out)["missing"]) == 1
    capsys.readouterr()
    assert ablate(command, budget="40steps") == 2
    assert "flops" in capsys.readouterr().err
    given = [words(command | {"--only": "rtd"}), words(command), words(bare)]
    given.append(words(command | {"--seed": "3", "--seeds": "1", "--only": "mlm"}))
    lines = html.unescape((out / "report.html").read_text()).split("<pre>")[1].split("</pre>")[0].splitlines()
    shown = [shlex.split(line)[1:] for line in lines]
    assert [parse(Ablate, each[1:]) for each in shown] == [parse(Ablate, each[1:]) for each in given]


@pytest.mark.slow
def test_a_stop_during_scoring_leaves_no_score_and_keeps_the_training(
    command: Command, tmp_path: Path, scorer: Scorer
) -> None:
    """The stub only stands in for the study's own runs; this one is trained, stopped and scored."""
    assert ablate(command, seeds="1") == 0
    out, job = tmp_path / "out", plan.Job("rtd", 5)
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


def test_a_study_resumes_from_its_kept_records(command: Command, tmp_path: Path, scorer: Scorer) -> None:
    assert ablate(command, seeds="1") == 0
    for arm in ("mlm", "rtd"):
        evaluated = {"kind": "eval", "step": 30, "flops": 1e9, "seconds": 1.0, "metrics": {"auc": 0.7}}
        rows = [{"kind": "train", "step": 1}, evaluated, {"kind": "train", "step": 30}]
        metrics = tmp_path / "out" / "arms" / arm / "seed-1" / "metrics.jsonl"
        metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    there = tmp_path / "elsewhere"
    keep = runpy.run_path(str(Path(__file__).parents[2] / "results" / "keep_study.py"))["keep"]
    assert keep(tmp_path / "out", there) == ["arms/mlm/seed-1", "arms/rtd/seed-1"]
    assert not any(str(tmp_path) in path.read_text() for path in there.rglob("*") if path.is_file())
    (tmp_path / "out").rename(tmp_path / "gone")
    assert ablate(command, out=str(there)) == 0
    assert scorer.started[2:] == ["mlm2", "rtd2"] and (there / "tokenizer").is_dir()
    scores = results_of(there)["budgets"][0]["arms"]["rtd"]["scores"]
    assert scores["pos"]["by_seed"] == {"1": 0.6, "2": 0.7} and scores["auc"]["by_seed"] == {"1": 0.7}


def test_a_dry_run_prints_the_cost_and_trains_nothing(
    command: Command, tmp_path: Path, capsys: Captured, scorer: Scorer
) -> None:
    assert ablate(command, "--dry-run", budget="30steps") == 0
    said = capsys.readouterr().out
    assert "  rtd: 30 updates" in said
    assert not scorer.started and not (tmp_path / "out").exists()


INVALID = [
    ("--seeds", "0", "seeds"),
    ("--threads", "1000000", "1024"),
    ("--budget", "3steps", "too few"),
    ("--budget", "1e400flops", "invalid budget"),
    ("--eval-suite", "glu", "'glue'"),
    ("--eval-suite", "transfer", "chunking"),
    ("--eval-data", "nowhere", "no such folder"),
    ("--eval-data", None, "--eval-data"),
    ("--only", "rdt", "'rtd'"),
]


@pytest.mark.parametrize(("option", "value", "fact"), INVALID)
def test_an_invalid_option_is_one_line(
    option: str, value: str | None, fact: str, command: Command, capsys: Captured
) -> None:
    changed = {name: given for name, given in (command | {option: value}).items() if given is not None}
    assert main(words(changed)) == 2  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert fact in said and said.count("\n") == 1


def test_a_folder_of_something_else_is_one_line(command: Command, capsys: Captured, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    (out / ".lock").unlink(missing_ok=True)
    for name, text in (("study.json", '{"format": 1}'), ("thesis.tex", "mine")):
        (out / name).write_text(text)
        assert ablate(command) == 2
        assert name in capsys.readouterr().err
        assert [path.name for path in out.glob("[!.]*")] == [name], "nothing is written beside it"
        (out / name).unlink()
