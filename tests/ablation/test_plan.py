"""The plan: equal FLOPs for every arm, one order of the data, and the refusal of another plan."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_study import STUDY

from electra.foundation import durable
from electra.foundation.errors import ConfigError, ElectraError, RunFolderError
from electra.laboratory.ablation.plan import Job, all_jobs, job_recipe, make_plan, seeds_begun
from electra.laboratory.ablation.study import read_study
from electra.testing import toy
from electra.training.assemble import build_run
from electra.training.distributed import World

Plan = Callable[..., dict[str, Any]]
NO_PANEL: dict[str, Any] = {"folder": "", "tasks": {}, "identity": {}}


@pytest.fixture
def plan(study_file: Callable[[str], Path], recipe_file: str, tmp_path: Path) -> Plan:
    def make(text: str = STUDY, budget: str = "50steps", **changes: Any) -> dict[str, Any]:
        options = {"recipe": recipe_file, "budget_text": budget, "threads": 1, "panel": NO_PANEL} | changes
        return make_plan(read_study(study_file(text)), toy.store(), tmp_path / "out", **options)

    return make


def spent(plan: dict[str, Any]) -> dict[str, float]:
    return {name: arm["steps"][-1] * arm["flops_per_step"] for name, arm in plan["fixed"]["arms"].items()}


@pytest.mark.parametrize("budget", ["50steps", "7ktokens", "3e10flops"])
def test_every_arm_gets_the_same_flops_to_half_an_update(budget: str, plan: Plan) -> None:
    made = plan(budget=budget)
    for name, flops in spent(made).items():
        assert abs(flops - made["fixed"]["flops"]) <= made["fixed"]["arms"][name]["flops_per_step"] / 2
    steps = {name: arm["steps"][-1] for name, arm in made["fixed"]["arms"].items()}
    assert steps["mlm"] > steps["rtd"]  # one network against two
    if budget == "50steps":
        assert steps["rtd"] == 50, "no arm gets fewer"


@pytest.mark.parametrize("changed_key", ["data", "tokenizer"])
def test_a_store_of_other_text_or_tokens_is_refused(
    changed_key: str, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.commit_json(tmp_path / "out" / "study.json", plan(budget="3e10flops"))
    changed = {"description": {"digest": "other"}} if changed_key == "data" else {"tokenizer_digest": "other"}
    other = replace(toy.store(), **changed)
    monkeypatch.setattr(toy, "store", lambda: other)
    with pytest.raises(RunFolderError) as caught:
        plan(budget="3e10flops")
    assert changed_key in caught.value.what


def test_arms_of_one_replicate_read_the_same_rows_in_the_same_order(plan: Plan) -> None:
    made = plan()
    runs = {
        (arm, seed): build_run(job_recipe(made, Job(arm, seed), threads=1), Path("."), toy.store(), World())
        for arm in ("mlm", "rtd")
        for seed in (1, 2)
    }
    for (arm, _), run in runs.items():  # what the plan says of a run is so
        planned = made["fixed"]["arms"][arm]
        assert (run.flops_per_step, run.total_steps) == (planned["flops_per_step"], planned["steps"][-1])
    digests = {
        key: [run.batches.batch(step, run.training.batch_size).digest for step in range(5)] for key, run in runs.items()
    }
    assert digests["mlm", 1] == digests["rtd", 1] != digests["mlm", 2] == digests["rtd", 2]


def test_each_arm_runs_with_each_seed(plan: Plan, tmp_path: Path) -> None:
    made = plan(budget="80steps")
    jobs = all_jobs(made, range(1, 3))
    assert [(job.seed, job.arm) for job in jobs] == [(1, "mlm"), (1, "rtd"), (2, "mlm"), (2, "rtd")]
    assert len({job.folder(tmp_path) for job in jobs}) == 4
    training = job_recipe(made, Job("rtd", 2), threads=3).training
    assert (training.steps, training.seed, training.threads) == (80, 2, 3)


def test_a_budget_of_time_is_turned_into_flops_once(plan: Plan, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("electra.laboratory.ablation.plan.measure", lambda run, limit: next(seconds))
    seconds = itertools.cycle([0.9, 0.5, 0.7, 8.0])  # a busy machine
    made = plan(budget="30s")
    steps = [arm["steps"][0] for arm in made["fixed"]["arms"].values()]
    assert sum(steps) / len(steps) * 0.5 == pytest.approx(30, rel=0.02)
    durable.commit_json(tmp_path / "out" / "study.json", made)
    monkeypatch.setattr("electra.laboratory.ablation.plan.measure", lambda run, limit: 0.25)
    assert plan(budget="30s")["fixed"] == made["fixed"]


@pytest.mark.parametrize("budget", ["9steps", "1e7flops"])
def test_a_budget_too_small_for_the_evaluations_is_refused(budget: str, plan: Plan) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(budget=budget)
    assert caught.value.key == "budget"


def test_an_arm_with_an_invalid_recipe_is_named(plan: Plan) -> None:
    with pytest.raises(ElectraError) as caught:
        plan(STUDY + "objective.mask_fraction = 1.5\n")
    assert {"toy", "rtd", "mask_fraction"} <= set(re.findall(r"\w+", str(caught.value)))


@pytest.mark.slow
def test_another_study_in_the_same_folder_is_refused_naming_what_differs(plan: Plan, tmp_path: Path) -> None:
    durable.commit_json(tmp_path / "out" / "study.json", plan())
    weight = "objective.discriminator_weight"
    for keys, text, budget in (
        ([f"arms.rtd.recipe.{weight}"], f"{STUDY}{weight} = 7.0\n", "50steps"),
        (["flops", "arms.mlm.steps", "arms.rtd.steps"], STUDY, "60steps"),
        (["arms.rtd"], STUDY.partition("[arms.rtd]")[0], f"{plan()['fixed']['flops']!r}flops"),
    ):
        with pytest.raises(RunFolderError) as caught:
            plan(text, budget)
        assert all(f"{key} was" in caught.value.what for key in keys)


def test_a_study_of_a_version_with_fewer_options_resumes(plan: Plan, tmp_path: Path) -> None:
    older = plan()
    for arm in older["fixed"]["arms"].values():
        del arm["recipe"]["training"]["bias_correction"], arm["recipe"]["model"]["generator_width"]
    durable.commit_json(tmp_path / "out" / "study.json", older)
    assert plan() != older
    with pytest.raises(RunFolderError) as caught:
        plan(STUDY.replace("[arms.mlm]", "[base]\ntraining.bias_correction = false\n[arms.mlm]"))
    assert "arms.mlm.recipe.training.bias_correction" in caught.value.what


def test_seeds_begun_are_those_of_the_run_folders(plan: Plan, tmp_path: Path) -> None:
    made = plan(budget="80steps")
    for job in (Job("rtd", 3), Job("mlm", 12)):
        job.folder(tmp_path).mkdir(parents=True)
    (tmp_path / "arms" / "rtd" / "seed-7.out").write_text("what a worker said")
    assert seeds_begun(tmp_path, made) == {3, 12}
