"""Results from run folders, and the page that is drawn from them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fake_study
import pytest

from electra.commands.results.folders import Study
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.laboratory.ablation.plan import Job, all_jobs
from electra.laboratory.ablation.results import primary_metric, study_results, summary_lines
from electra.laboratory.ablation.runs import runs_of
from electra.laboratory.ablation.statistics import compare, summarise
from electra.pages.study import write_page

RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded-study.json"
OBJECTIVES = fake_study.named_plan("objectives")


def results_with(out: Path, plan: dict[str, Any], jobs: list[Job], done: list[Job]) -> dict[str, Any]:
    for job in done:
        fake_study.write_run(job.folder(out), plan, job)
    return study_results(plan, runs_of(out, plan, jobs))


def test_a_recorded_study_is_reproduced_to_the_last_digit(tmp_path: Path) -> None:
    """Three arms, two budgets, two seeds and two tasks, trained and written by an earlier version."""
    recorded = json.loads(RECORDED.read_text())
    for folder, run in recorded["runs"].items():
        (tmp_path / folder).mkdir(parents=True)
        rows = "".join(json.dumps(row) + "\n" for row in run["metrics"])
        (tmp_path / folder / "metrics.jsonl").write_text(rows)
        (tmp_path / folder / "score.json").write_text(json.dumps(run["score"]))
    plan = recorded["study"]
    made = study_results(plan, runs_of(tmp_path, plan, all_jobs(plan, (1, 2))))
    assert json.loads(json.dumps(made)) == recorded["results"]


def test_scores_are_read_from_the_run_folders(tmp_path: Path) -> None:
    record, plan = fake_study.make(tmp_path, "objectives"), OBJECTIVES
    values = {
        arm: {seed: fake_study.value_of(plan, Job(arm, 1.0, seed)) for seed in (1, 2, 3)}
        for arm in plan["fixed"]["arms"]
    }
    arms = record["budgets"][-1]["arms"]
    for arm, by_seed in values.items():
        panel, expected = arms[arm]["scores"]["panel"], [value - 0.015 for value in by_seed.values()]
        assert list(panel["by_seed"].values()) == pytest.approx(expected)
        assert panel["mean"] == pytest.approx(summarise(expected).mean)
    tested = arms["rtd"]["scores"]["pos"]["against_baseline"]
    assert tested["p"] == pytest.approx(compare(values["rtd"], values["mlm"]).p)
    assert tested["p_holm"] >= tested["p"]
    assert "against_baseline" not in arms["mlm"]["scores"]["pos"] and "auc" not in arms["mlm"]["scores"]
    last = 0.5 + 0.3 * values["rtd"][2]
    assert arms["rtd"]["scores"]["auc"]["by_seed"]["2"] == pytest.approx(last), "of the last evaluation"
    curve = record["curves"]["rtd"]["auc"]
    assert len(curve["flops"]) == 10, "the untrained network is left out"
    assert curve["mean"][-1] == arms["rtd"]["scores"]["auc"]["mean"]
    assert (record["primary"], record["complete"], record["seeds"]) == ("panel", True, [1, 2, 3])
    assert len(summary_lines(record)) == len(arms)


def test_the_table_of_a_study_has_the_panel(tmp_path: Path) -> None:
    fake_study.make(tmp_path, "objectives", seeds=1)
    (tmp_path / "study.json").write_text("{}")
    scored = sorted(tmp_path.glob("arms/*/seed-1/score.json"))
    for path in scored:
        path.with_name("run.toml").write_text("[training]\nsteps = 1\n")
    scored[-1].unlink()  # of a run that the panel has yet to score
    rows = list(Study(tmp_path).table)
    assert [row for row in rows if "panel" not in row] == [rows[-1]]
    for row in rows[:-1]:
        record = json.loads((tmp_path / "arms" / row["arm"] / "seed-1" / "score.json").read_text())
        scores = {task: one["value"] for task, one in record["scores"].items()}
        assert {task: row[task] for task in scores} == scores
        assert row["panel"] == pytest.approx(sum(scores.values()) / 2)


@pytest.mark.parametrize(
    ("study", "primary"),
    [
        ("objectives", None),  # some arms have a discriminator, one has not
        ("lambda", "auc"),
        ("temperature", None),  # each arm has its own samples
        ("generator-size", None),
        ("training-algorithm", None),
        ("convergence", None),
    ],
)
def test_without_a_panel_only_scores_on_one_scale_are_compared(
    study: str, primary: str | None, tmp_path: Path
) -> None:
    record = fake_study.make(tmp_path, study, with_panel=False)
    assert record["primary"] == primary
    assert ("--eval-data" in summary_lines(record)[0]) == (primary is None)


def test_losses_of_the_full_size_network_are_on_one_scale() -> None:
    """The generator's loss is another thing where all tokens are predicted, or a small network is meant."""
    recipes = {name: {"objective": {"name": name}, "model": {}} for name in ("mlm", "all_tokens_mlm")}
    arms = {name: {"scores": {"generator_loss": {}, "mlm_loss": {}}} for name in recipes}
    assert primary_metric([], arms, recipes) == "mlm_loss"
    arms["all_tokens_mlm"]["scores"].pop("mlm_loss")
    assert primary_metric([], arms, recipes) is None


def test_an_arm_is_tested_against_its_own_baseline(tmp_path: Path) -> None:
    arms = fake_study.make(tmp_path, "model-size")["budgets"][-1]["arms"]
    plan = fake_study.named_plan("model-size")
    values = {
        arm: {seed: fake_study.value_of(plan, Job(arm, 1.0, seed)) for seed in (1, 2, 3)} for arm in arms
    }
    for size in ("tiny", "mini", "small"):
        tested = arms[f"rtd-{size}"]["scores"]["pos"]["against_baseline"]
        assert tested["arm"] == f"mlm-{size}"
        expected = compare(values[f"rtd-{size}"], values[f"mlm-{size}"]).difference
        assert tested["difference"] == pytest.approx(expected)
        assert "against_baseline" not in arms[f"mlm-{size}"]["scores"]["pos"]


@pytest.mark.usefixtures("no_figures")
def test_an_unfinished_study_names_what_is_missing(tmp_path: Path) -> None:
    jobs = all_jobs(OBJECTIVES, (1, 2))
    record = results_with(tmp_path, OBJECTIVES, jobs, jobs[:7])
    assert not record["complete"] and len(record["missing"]) == 3
    scores = {arm: one["scores"]["panel"] for arm, one in record["budgets"][-1]["arms"].items()}
    assert [score["n"] for score in scores.values()] == [2, 2, 1, 1, 1]
    assert scores["rtd"]["sd"] is None and scores["rtd"]["against_baseline"]["n"] == 1
    failed = study_results(OBJECTIVES, runs_of(tmp_path, OBJECTIVES, jobs), {str(jobs[-1]): "no luck"})
    assert failed["failed"] == [{"job": str(jobs[-1]), "problem": "no luck"}]
    durable.commit_json(tmp_path / "results.json", failed)
    page = write_page(tmp_path).read_text()
    assert "no luck" in page and "seed 2" in page


def test_curves_are_means_over_all_seeds_or_are_not_drawn(tmp_path: Path) -> None:
    jobs = [Job("rtd", 1.0, seed) for seed in (1, 2)]
    results_with(tmp_path, OBJECTIVES, jobs, jobs)
    metrics = jobs[1].folder(tmp_path) / "metrics.jsonl"
    rows = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(rows[14:]))  # the second seed was evaluated less often
    record = study_results(OBJECTIVES, runs_of(tmp_path, OBJECTIVES, jobs))
    assert 1 < len(record["curves"]["rtd"]["auc"]["flops"]) < 10


def test_a_panel_of_other_data_is_scored_again(tmp_path: Path) -> None:
    plan, job = fake_study.named_plan("objectives"), Job("rtd", 1.0, 1)
    fake_study.write_run(job.folder(tmp_path), plan, job)
    assert runs_of(tmp_path, plan, [job])[0].is_finished()
    plan["panel"]["identity"] = {"pos": {"train": "other"}}
    assert not runs_of(tmp_path, plan, [job])[0].is_finished()


def test_compute_to_reach_the_baseline(tmp_path: Path) -> None:
    record = fake_study.make(tmp_path, "convergence")
    assert record["reached"]["mlm"] == pytest.approx(fake_study.FLOPS)
    assert record["reached"]["rtd"] < fake_study.FLOPS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["objectives", "generator-size", "convergence", "lambda"])
def test_the_page_holds_every_score_exactly_and_loads_nothing(name: str, tmp_path: Path) -> None:
    record = fake_study.make(tmp_path, name)
    html = write_page(tmp_path).read_text()
    for arm in record["budgets"][-1]["arms"].values():
        for score in arm["scores"].values():
            assert f'<data value="{score["mean"]!r}">' in html
    assert not re.search(r'(src|href)="(?!#|data:)', html) and "<script" not in html


@pytest.mark.usefixtures("no_figures")
def test_one_seed_no_panel_and_failures_still_make_a_page(tmp_path: Path) -> None:
    record = fake_study.make(tmp_path, "training-algorithm", seeds=1, with_panel=False)
    assert record["budgets"][0]["arms"]["two-stage-fresh"]["collapsed"] == 1
    record |= {"complete": False, "failed": [{"job": "rtd, seed 1", "problem": "a <b> of trouble"}]}
    durable.commit_json(tmp_path / "results.json", record)
    assert "a &lt;b&gt; of trouble" in write_page(tmp_path).read_text()


@pytest.mark.parametrize("content", ["[]", "{}", "{"])
def test_damaged_results_are_refused_by_name(content: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ConfigError) as caught:
        write_page(tmp_path)
    assert "results.json" in str(caught.value)
