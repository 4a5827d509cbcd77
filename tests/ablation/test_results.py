"""Results from the run folders of a recorded study, and the page that is drawn from them."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from electra.data.corpus.store import TokenStore
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.laboratory.ablation.plan import Job, all_jobs
from electra.laboratory.ablation.results import primary_metric, study_results, summary_lines
from electra.laboratory.ablation.runs import language_notes, panel_record, runs_of
from electra.laboratory.ablation.statistics import compare
from electra.pages.study_page import StudyPage, write_page

# Three arms, two seeds and two tasks, trained and written by an earlier version.
RECORDED = json.loads((Path(__file__).parents[1] / "fixtures" / "recorded-study.json").read_text())
Plan = dict[str, Any]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """The plan of the recorded study, whose runs are in `tmp_path`."""
    for folder, run in RECORDED["runs"].items():
        (tmp_path / folder).mkdir(parents=True)
        rows = "".join(json.dumps(row) + "\n" for row in run["metrics"])
        (tmp_path / folder / "metrics.jsonl").write_text(rows)
        (tmp_path / folder / "score.json").write_text(json.dumps(run["score"]))
    copied: Plan = deepcopy(RECORDED["study"])
    return copied


def results(out: Path, plan: Plan, failures: dict[str, str] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = study_results(plan, runs_of(out, plan, all_jobs(plan, (1, 2))), failures)
    return made


def test_a_recorded_study_is_reproduced_to_the_last_digit(tmp_path: Path, plan: Plan) -> None:
    made = results(tmp_path, plan)
    assert json.loads(json.dumps(made)) == RECORDED["results"]
    assert len(summary_lines(made)) == 3


@pytest.mark.parametrize(
    ("scores", "changed", "primary"),
    [
        (["generator_loss", "auc"], {}, "auc"),
        (["auc"], {"objective": {"name": "rtd", "temperature": 2.0}}, None),  # each arm has its own samples
        (["auc"], {"model": {"generator_width": 0.5}}, None),
        (["generator_loss"], {"objective": {"name": "mlm"}}, None),  # of another network in each arm
        (["generator_loss", "mlm_loss", "auc"], {"objective": {"name": "mlm"}}, "mlm_loss"),
    ],
)
def test_without_tasks_only_scores_on_one_scale_are_compared(
    scores: list[str], changed: dict[str, Any], primary: str | None
) -> None:
    recipe: dict[str, Any] = {"objective": {"name": "rtd"}, "model": {}}
    arms = {name: {"scores": {key: {} for key in scores}} for name in ("a", "b")}
    assert primary_metric([], arms, {"a": recipe, "b": recipe | changed}) == primary
    assert primary_metric(["panel", "pos"], arms, {}) == "panel"


def test_an_arm_is_tested_against_its_own_baseline(tmp_path: Path, plan: Plan) -> None:
    plan["study"]["arms"]["mlm-wide"]["baseline"] = "rtd"
    arms = results(tmp_path, plan)["budgets"][-1]["arms"]
    by_seed = {name: arm["scores"]["panel"]["by_seed"] for name, arm in arms.items()}
    values = {name: {int(seed): score for seed, score in each.items()} for name, each in by_seed.items()}
    tested = arms["mlm-wide"]["scores"]["panel"]["against_baseline"]
    assert tested["arm"] == "rtd"
    assert tested["difference"] == compare(values["mlm-wide"], values["rtd"])["difference"]


@pytest.mark.usefixtures("no_figures")
def test_an_unfinished_study_names_what_is_missing(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "arms/rtd/seed-2/score.json").unlink()
    with (tmp_path / "arms/rtd/seed-1/metrics.jsonl").open("a") as ledger:
        ledger.write(json.dumps({"kind": "event", "step": 44, "event": "collapse"}) + "\n")
    record = results(tmp_path, plan, {"rtd, seed 2": "a <b> of trouble"})
    assert not record["complete"] and [run["arm"] for run in record["missing"]] == ["rtd"]
    arm = record["budgets"][-1]["arms"]["rtd"]
    assert arm["collapsed"] == 1 and arm["scores"]["panel"]["n"] == 1
    assert arm["scores"]["panel"]["sd"] is None and arm["scores"]["panel"]["against_baseline"]["n"] == 1
    assert record["failed"] == [{"job": "rtd, seed 2", "problem": "a <b> of trouble"}]
    durable.commit_json(tmp_path / "results.json", record)
    page = write_page(tmp_path).read_text()
    assert "a &lt;b&gt; of trouble" in page and "seed 2" in page


def test_curves_are_means_over_all_seeds_or_are_not_drawn(tmp_path: Path, plan: Plan) -> None:
    metrics = tmp_path / "arms/rtd/seed-2/metrics.jsonl"
    rows = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(rows[6:]))  # the second seed was evaluated less often
    curve, whole = (r["curves"]["rtd"]["auc"] for r in (results(tmp_path, plan), RECORDED["results"]))
    assert 0 < len(curve["flops"]) < len(whole["flops"]) and curve["mean"][-1] == whole["mean"][-1]


def test_a_run_scored_with_other_data_is_scored_again(tmp_path: Path, plan: Plan) -> None:
    job = Job("rtd", 1)
    assert runs_of(tmp_path, plan, [job])[0].is_finished()
    plan["panel"]["identity"] = {"pos": {"train": "other"}}
    assert not runs_of(tmp_path, plan, [job])[0].is_finished()


@pytest.mark.slow
@pytest.mark.parametrize("with_tasks", [True, False])
def test_the_page_holds_every_score_exactly_and_loads_nothing(with_tasks: bool, tmp_path: Path, plan: Plan) -> None:
    plan["panel"]["tasks"] = plan["panel"]["tasks"] if with_tasks else {}
    record = results(tmp_path, plan)
    assert ("--eval-data" in summary_lines(record)[0]) == (not with_tasks)
    durable.commit_json(tmp_path / "results.json", record)
    html = write_page(tmp_path).read_text()
    for arm in record["budgets"][-1]["arms"].values():
        for score in arm["scores"].values():
            assert f'<data value="{score["mean"]!r}">' in html
    assert not re.search(r'(src|href)="(?!#|data:)', html) and "<script" not in html


@pytest.mark.parametrize("content", ["[]", "{}", "{"])
def test_damaged_results_are_refused_by_name(content: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ConfigError) as caught:
        write_page(tmp_path)
    assert "results.json" in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "difference", "p", "said"),
    [
        (
            "panel",
            (-0.003, -0.0068, -0.0004),
            0.047,
            "b below a (-0.3 points [-0.7, 0.0], p = .047, 3 seeds)",
        ),
        ("panel", (0.101, 0.05, 0.15), 0.0004, "b above a (+10.1 points [5.0, 15.0], p < .001, 3 seeds)"),
        ("mlm_loss", (-0.25, -0.4, -0.1), 0.01, "b below a (-0.250 [-0.400, -0.100], p = .010, 3 seeds)"),
        ("panel", (0.101, -0.05, 0.25), 0.2, "no measurable difference for any arm"),
    ],
)
def test_the_headline_has_the_size_of_a_difference_and_its_interval(
    metric: str, difference: tuple[float, float, float], p: float, said: str
) -> None:
    test = dict(zip(("difference", "low", "high"), difference, strict=True)) | {"p_holm": p}
    statistics = {"mean": 0.5, "n": 3, "low": 0.4, "high": 0.6}
    scores = {"a": statistics, "b": {**statistics, "against_baseline": test}}
    arms = {name: {"scores": {metric: each}} for name, each in scores.items()}
    study = {"arms": {name: {"title": name} for name in arms}, "baseline": "a"}
    panel = {"pos": {"title": "Tags", "metric": "accuracy"}} if metric == "panel" else {}
    record = {"study": study, "primary": metric, "panel": panel, "budgets": [{"arms": arms}]}
    assert StudyPage(record).verdict().split(": ", 1)[1] == f"{said}."


@pytest.mark.parametrize(
    ("word", "is_foreign"),
    [("the", False), ("unverständlicher", True), ("\u5b66\u6821", True), ("house", False)],
)
def test_a_vocabulary_of_another_language_is_noted(
    word: str, is_foreign: bool, toy_store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "ud-english-ewt"
    folder.mkdir()
    for split in ("train", "dev"):
        lines = "".join(f"{n}\t{word}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n" for n in range(1, 5))
        (folder / f"{split}.conllu").write_text(f"{lines}\n" * 3)
    suite = tmp_path / "tags.toml"
    suite.write_text('title = "T"\n[[task]]\nname = "pos"\nfolders = ["ud-english-ewt"]\n')
    notes = language_notes(panel_record(tmp_path, str(suite)), TokenStore.open(toy_store).tokenizer)
    assert len(notes) == is_foreign
