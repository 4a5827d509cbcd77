"""Run folders as a study leaves them, made from a formula: what results and page are tested on.

python tests/ablation/fake_study.py FOLDER      writes one study of each shape under FOLDER, with its page
"""

from __future__ import annotations

import json
import math
import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from electra.foundation import durable
from electra.laboratory.ablation.plan import Job, all_jobs
from electra.laboratory.ablation.results import study_results
from electra.laboratory.ablation.runs import runs_of
from electra.laboratory.ablation.study import ARM_KEYS, Study, find_study, read_study

TASKS = {
    "pos": {"title": "Part of speech", "metric": "accuracy"},
    "chunking": {"title": "Chunking", "metric": "accuracy"},
}
FLOPS = 2e14
STUDY = """
title = "Toy"
question = "Does it work?"
baseline = "mlm"
[arms.mlm]
objective.name = "mlm"
[arms.rtd]
title = "detection"
paper = 85.0
objective.name = "rtd"
"""
RECIPE = """
[model]
size = "tiny"
dropout = 0.1
[training]
length = 16
batch_size = 8
learning_rate = 1e-3
precision = "fp32"
log_every = 1
checkpoint_every = 4
[evaluation]
rows = 8
"""


def plan_of(study: Study, *, with_panel: bool = True) -> dict[str, Any]:
    arms = {}
    for index, (name, arm) in enumerate(study.arms.items()):
        per_step = 3e10 * (1 + index / 4)
        objective = {"name": "rtd"} | dict(arm.sections.get("objective", {}))
        arms[name] = {
            "recipe": {"objective": objective, "model": dict(arm.sections.get("model", {}))},
            "flops_per_step": per_step,
            "tokens_per_step": 4096,
            "steps": [round(share * FLOPS / per_step) for share in study.budgets],
        }
    fixed = {"flops": FLOPS, "data": "0" * 64, "tokenizer": "1" * 64, "budgets": list(study.budgets)}
    described = {key: getattr(study, key) for key in ("name", "title", "question", "axis", "baseline")}
    described["arms"] = {name: {key: getattr(a, key) for key in ARM_KEYS} for name, a in study.arms.items()}
    return {
        "format": 1,
        "study": described | {"paper": asdict(study.paper)},
        "recipe": "budget-tiny",
        "budget": "2e14flops",
        "fixed": fixed | {"arms": arms},
        "store": "",
        "panel": {"folder": "", "tasks": TASKS if with_panel else {}, "identity": {}},
    }


def value_of(plan: dict[str, Any], job: Job) -> float:
    """The score that the formula gives a run."""
    arm = list(plan["fixed"]["arms"]).index(job.arm)
    noise = random.Random(f"{job}").gauss(0, 0.004)
    return 0.78 + 0.012 * arm + 0.02 * math.log2(job.share) + noise + 0.003 * job.seed


def write_run(folder: Path, plan: dict[str, Any], job: Job) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arm = plan["fixed"]["arms"][job.arm]
    steps = arm["steps"][plan["fixed"]["budgets"].index(job.share)]
    value, rows = value_of(plan, job), []
    for tenth in range(11):
        step = steps * tenth // 10
        metrics = {
            "generator_loss": 9 - 4 * math.sqrt(tenth / 10) - value,
            "generator_accuracy": 0.03 * tenth,
        }
        if job.arm != "mlm":
            metrics["auc"], metrics["gain"] = 0.5 + 0.03 * tenth * value, 0.006 * tenth
            metrics["average_precision"] = 0.1 + 0.03 * tenth
        rows.append({"kind": "train", "step": step, "tokens_per_s": 9000.0})
        evaluated = {"flops": step * arm["flops_per_step"], "seconds": step / 3, "metrics": metrics}
        rows.append({"kind": "eval", "step": step, **evaluated})
    if job.arm == "two-stage-fresh":
        rows.append({"kind": "event", "step": steps, "event": "collapse"})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = {name: {"value": value - 0.03 * index} for index, name in enumerate(plan["panel"]["tasks"])}
    (folder / "score.json").write_text(json.dumps({"panel": plan["panel"]["identity"], "scores": scores}))


def named_plan(name: str, *, with_panel: bool = True) -> dict[str, Any]:
    return plan_of(read_study(find_study(name)), with_panel=with_panel)


def make(out: Path, name: str, seeds: int = 3, *, with_panel: bool = True) -> dict[str, Any]:
    """The results of a whole study, written to `out`."""
    plan = named_plan(name, with_panel=with_panel)
    jobs = all_jobs(plan, range(1, seeds + 1))
    for job in jobs:
        write_run(job.folder(out), plan, job)
    record = study_results(plan, runs_of(out, plan, jobs))
    durable.commit_json(out / "results.json", record)
    return record


if __name__ == "__main__":
    from electra.pages.study import write_page

    for shape in ("objectives", "convergence", "generator-size", "training-algorithm", "model-size"):
        make(Path(sys.argv[1]) / shape, shape)
        sys.stdout.write(f"{write_page(Path(sys.argv[1]) / shape)}\n")
