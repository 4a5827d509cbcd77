"""Results from run folders, and the page that is drawn from them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import fake_study
import pytest

from electra.commands.results.run import Study
from electra.foundation.errors import ConfigError
from electra.laboratory.ablation import runner
from electra.laboratory.ablation.plan import Job, all_jobs
from electra.laboratory.ablation.results import primary_metric, study_results, summary_lines, write
from electra.laboratory.ablation.statistics import compare, summarise
from electra.laboratory.ablation.study import find_study, read_study
from electra.pages.figures import PALETTE, draw
from electra.pages.study import StudyPage, write_page


def test_scores_are_read_from_the_run_folders(tmp_path: Path) -> None:
    record = fake_study.make(tmp_path, "objectives")
    plan = fake_study.plan_of(read_study(find_study("objectives")))
    values = {
        arm: {seed: fake_study.value_of(plan, Job(arm, 1.0, seed)) for seed in (1, 2, 3)}
        for arm in plan["fixed"]["arms"]
    }
    arms = record["budgets"][-1]["arms"]
    for arm, by_seed in values.items():
        panel = arms[arm]["scores"]["panel"]
        assert panel["by_seed"] == pytest.approx(
            {str(seed): value - 0.015 for seed, value in by_seed.items()}
        )
        assert panel["mean"] == pytest.approx(summarise([value - 0.015 for value in by_seed.values()]).mean)
    tested = arms["rtd"]["scores"]["pos"]["against_baseline"]
    assert tested["p"] == pytest.approx(compare(values["rtd"], values["mlm"]).p)
    assert tested["p_holm"] >= tested["p"]
    assert "against_baseline" not in arms["mlm"]["scores"]["pos"]
    assert "auc" not in arms["mlm"]["scores"]
    assert arms["rtd"]["scores"]["auc"]["by_seed"]["2"] == pytest.approx(0.5 + 0.3 * values["rtd"][2]), (
        "of the last evaluation"
    )
    curve = record["curves"]["rtd"]["auc"]
    assert len(curve["flops"]) == 10 and curve["mean"][-1] == arms["rtd"]["scores"]["auc"]["mean"], (
        "the untrained network is left out"
    )
    assert (record["primary"], record["complete"], record["seeds"]) == ("panel", True, [1, 2, 3])
    assert summary_lines(record)[-1].startswith(
        f"rtd: panel {arms['rtd']['scores']['panel']['mean']:.4f} sd "
    )


def test_the_table_of_a_study_has_the_panel(tmp_path: Path) -> None:
    """What a study is made for: each task's score and their mean, as score.json has them."""
    fake_study.make(tmp_path, "objectives", seeds=1)
    (tmp_path / "study.json").write_text("{}")
    scored = sorted(tmp_path.glob("arms/*/seed-1/score.json"))
    for path in scored:
        path.with_name("run.toml").write_text("[training]\nsteps = 1\n")
    scored[-1].unlink()  # of a run that the panel has yet to score
    rows = list(Study(tmp_path).table)
    assert len(rows) > 2 and [row for row in rows if "panel" not in row] == [rows[-1]]
    for row in rows[:-1]:
        record = json.loads((tmp_path / "arms" / row["arm"] / "seed-1" / "score.json").read_text())
        scores = {task: one["value"] for task, one in record["scores"].items()}
        assert {task: row[task] for task in scores} == scores and set(scores) == {"pos", "chunking"}
        assert row["panel"] == pytest.approx(sum(scores.values()) / 2)


def test_without_a_panel_only_scores_on_one_scale_are_compared(tmp_path: Path) -> None:
    assert (
        fake_study.make(tmp_path / "a", "objectives", with_panel=False)["primary"] is None
    )  # some arms judge, one does not
    assert fake_study.make(tmp_path / "b", "lambda", with_panel=False)["primary"] == "auc"
    for name in (
        "temperature",
        "generator-size",
        "training-algorithm",
    ):  # each arm's own samples, of a generator of its own
        assert fake_study.make(tmp_path / name, name, with_panel=False)["primary"] is None
    assert "--eval-data" in summary_lines(fake_study.make(tmp_path / "c", "convergence", with_panel=False))[0]


def test_losses_of_the_full_size_network_are_on_one_scale() -> None:
    """The generator's loss is another thing where all tokens are predicted, or a small network is meant."""
    recipes = {name: {"objective": {"name": name}, "model": {}} for name in ("mlm", "all_tokens_mlm")}
    arms = {name: {"scores": {"generator_loss": {}, "mlm_loss": {}}} for name in recipes}
    assert primary_metric([], arms, recipes) == "mlm_loss"
    arms["all_tokens_mlm"]["scores"].pop("mlm_loss")
    assert primary_metric([], arms, recipes) is None


@pytest.mark.slow
def test_an_arm_is_tested_against_its_own_baseline(tmp_path: Path) -> None:
    record = fake_study.make(tmp_path, "model-size")
    plan = fake_study.plan_of(read_study(find_study("model-size")))
    arms = record["budgets"][-1]["arms"]
    values = {
        arm: {seed: fake_study.value_of(plan, Job(arm, 1.0, seed)) for seed in (1, 2, 3)} for arm in arms
    }
    for size in ("tiny", "mini", "small"):
        tested = arms[f"rtd-{size}"]["scores"]["pos"]["against_baseline"]
        assert tested["arm"] == f"mlm-{size}"
        assert tested["difference"] == pytest.approx(
            compare(values[f"rtd-{size}"], values[f"mlm-{size}"]).difference
        )
        assert "against_baseline" not in arms[f"mlm-{size}"]["scores"]["pos"]
    assert any("against mlm-small" in line for line in summary_lines(record))
    html = write_page(tmp_path).read_text()
    assert "Every arm is tested against its own baseline" in html and html.count("(baseline)") == 3


def test_an_unfinished_study_lists_what_is_done(tmp_path: Path) -> None:
    plan = fake_study.plan_of(read_study(find_study("objectives")))
    jobs = all_jobs(plan, (1, 2))
    for job in jobs[:7]:
        fake_study.write_run(job.folder(tmp_path), plan, job)
    standing = [runner.job_status(tmp_path, job, plan) for job in jobs]
    assert [progress.state for progress in standing] == ["done"] * 7 + ["waiting"] * 3
    record = study_results(plan, standing)
    assert not record["complete"]
    scores = {arm: one["scores"]["panel"] for arm, one in record["budgets"][-1]["arms"].items()}
    assert [score["n"] for score in scores.values()] == [2, 2, 1, 1, 1]
    assert scores["rtd"]["sd"] is None and scores["rtd"]["against_baseline"]["n"] == 1


@pytest.mark.slow
def test_an_unfinished_study_has_a_page_that_names_what_is_missing(tmp_path: Path) -> None:
    plan = fake_study.plan_of(read_study(find_study("objectives")))
    jobs = all_jobs(plan, (1, 2))
    for job in jobs:
        if job.arm in ("rtd", "electra_15") or (job.arm, job.seed) == ("replace_mlm", 1):
            fake_study.write_run(job.folder(tmp_path), plan, job)
    write(tmp_path, study_results(plan, [runner.job_status(tmp_path, job, plan) for job in jobs]))
    html = write_page(tmp_path).read_text()
    assert "Missing: BERT, seeds 1, 2; All-tokens MLM, seeds 1, 2; Replace MLM, seed 2." in html
    assert "Not finished" in html and "tested against BERT" in html  # though BERT is among what is missing


@pytest.mark.slow
def test_an_arm_keeps_its_colour_where_another_lacks_the_metric(tmp_path: Path) -> None:
    drawn = {figure.name: figure for figure in StudyPage(fake_study.make(tmp_path, "objectives")).curves()}
    order = list(fake_study.plan_of(read_study(find_study("objectives")))["fixed"]["arms"])
    for metric, arms in (("generator_loss", order), ("auc", order[1:])):  # the masked LM has no AUC
        colours = dict.fromkeys(re.findall("|".join(PALETTE), draw(drawn[f"curve-{metric}"]) or ""))
        assert set(colours) == {PALETTE[order.index(arm)] for arm in arms}


def test_curves_are_means_over_all_seeds_or_are_not_drawn(tmp_path: Path) -> None:
    plan = fake_study.plan_of(read_study(find_study("objectives")))
    jobs = [Job("rtd", 1.0, seed) for seed in (1, 2)]
    for job in jobs:
        fake_study.write_run(job.folder(tmp_path), plan, job)
    rows = (jobs[1].folder(tmp_path) / "metrics.jsonl").read_text().splitlines(keepends=True)
    kept = [
        row for row in rows if '"eval"' not in row or rows.index(row) > 12
    ]  # the second seed was evaluated less often
    (jobs[1].folder(tmp_path) / "metrics.jsonl").write_text("".join(kept))
    record = study_results(plan, [runner.job_status(tmp_path, job, plan) for job in jobs])
    assert 1 < len(record["curves"]["rtd"]["auc"]["flops"]) < 10


def test_a_panel_of_other_data_is_scored_again(tmp_path: Path) -> None:
    plan = fake_study.plan_of(read_study(find_study("objectives")))
    job = Job("rtd", 1.0, 1)
    fake_study.write_run(job.folder(tmp_path), plan, job)
    plan["panel"]["identity"] = {"pos": {"train": "other"}}
    assert runner.job_status(tmp_path, job, plan).state == "waiting"


@pytest.mark.usefixtures("no_figures")
def test_compute_to_reach_the_baseline(tmp_path: Path) -> None:
    record = fake_study.make(tmp_path, "convergence")
    assert record["reached"]["mlm"] == pytest.approx(fake_study.FLOPS)
    assert record["reached"]["rtd"] < fake_study.FLOPS
    html = write_page(tmp_path).read_text()
    assert (
        f"ELECTRA reaches the final mean of BERT with {100 * record['reached']['rtd'] / fake_study.FLOPS:.0f}"
        " % of its compute." in html
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["objectives", "generator-size", "convergence"])
def test_the_page_holds_every_score_exactly_and_loads_nothing(name: str, tmp_path: Path) -> None:
    record = fake_study.make(tmp_path, name)
    html = write_page(tmp_path).read_text()
    for arm in record["budgets"][-1]["arms"].values():
        for score in arm["scores"].values():
            assert f'<data value="{score["mean"]!r}">' in html
        assert f'<data value="{arm["flops"]!r}">' in html
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert "<script" not in html
    for part in (
        "Result",
        "All scores",
        "During training",
        "Arms",
    ):
        assert f"<h2>{part}</h2>" in html
    assert html.count("<figure>") >= 7


@pytest.mark.usefixtures("no_figures")
def test_published_numbers_are_marked_as_another_scale(tmp_path: Path) -> None:
    fake_study.make(tmp_path, "objectives")
    html = write_page(tmp_path).read_text()
    assert "Paper (another scale)" in html and "never the values" in html
    assert [f'<data value="{value}">{value}</data>' in html for value in (82.2, 82.4, 84.3, 85.0)] == [
        True
    ] * 4
    fake_study.make(tmp_path / "b", "lambda")
    assert "Paper (another scale)" not in write_page(tmp_path / "b").read_text()


@pytest.mark.usefixtures("no_figures")
def test_one_seed_no_panel_and_failures_still_make_a_page(tmp_path: Path) -> None:
    record = fake_study.make(tmp_path, "training-algorithm", seeds=1, with_panel=False)
    assert record["budgets"][0]["arms"]["two-stage-fresh"]["collapsed"] == 1
    record |= {"complete": False, "failed": [{"job": "rtd, seed 1", "problem": "a <b> of trouble"}]}
    (tmp_path / "results.json").write_text(json.dumps(record))
    html = write_page(tmp_path).read_text()
    assert (
        "Failed: rtd, seed 1: a &lt;b&gt; of trouble" in html
        and "Not finished" in html
        and "only pre-training metrics" in html
    )
    assert "1 of 1" in html  # the collapse alarm
    fake_study.make(tmp_path / "b", "lambda", seeds=1)
    assert "One seed so far" in write_page(tmp_path / "b").read_text()


@pytest.mark.parametrize("content", ["[]", "{}", "{"])
def test_damaged_results_are_refused_by_name(content: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ConfigError) as caught:
        write_page(tmp_path)
    assert "results.json" in str(caught.value)
