"""The differences of the page, each as there: points, 95 % interval, p, and p after Holm within its family.

Unpack the records, then: python results/the-papers-claims/claims.py [RECORDS]

A family is the comparisons of one study on one task (or on the mean of the three), as in `electra ablate`. Three
seeds may agree by luck: where the standard deviation of a difference is below that of its family (pooled, with as
many degrees of freedom as all have together), the interval is that of the pooled one, if that is wider, and marked
with an asterisk; p and Holm are always those of the difference's own t-test.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from electra.laboratory.ablation.statistics import compare, holm

RECORDS = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "records"
TASKS = {"pos": ("pos",), "chunking": ("chunking",), "stsb": ("stsb",), "mean": ("pos", "chunking", "stsb")}
COMPARED = {  # study: pairs of arms, the second is the one compared with
    "objectives": [("rtd", "electra_15"), ("all_tokens_mlm", "mlm"), ("replace_mlm", "mlm")],
    "convergence": [("rtd", "mlm"), ("rtd/budget-0.25", "mlm")],
    "generator-size": [("width-1", "width-0.25"), ("width-0.125", "width-0.25")],
    "open-claims": [
        ("tied-embeddings", "tied-none"),
        ("tied-all", "tied-embeddings"),
        ("two-stage", "rtd"),
        ("two-stage", "tied-none"),
        ("two-stage-fresh", "rtd"),
        ("two-stage-fresh", "tied-none"),
        ("sentence", "rtd"),
        ("frequency", "rtd"),
    ],
}


def scores(study: str, arm: str, tasks: tuple[str, ...]) -> dict[int, float]:
    """Points by seed."""
    found = {}
    for path in sorted((RECORDS / study / "arms" / arm).glob("seed-*/score.json")):
        values = json.loads(path.read_text())["scores"]
        if all(values.get(task, {}).get("value") is not None for task in tasks):
            seed = int(path.parent.name.removeprefix("seed-"))
            found[seed] = 100 * float(np.mean([values[task]["value"] for task in tasks]))
    return found


def family(study: str, task: str) -> None:
    """Prints the comparisons of a study on a task."""
    pairs = [(scores(study, a, TASKS[task]), scores(study, b, TASKS[task])) for a, b in COMPARED[study]]
    tests = [compare(ours, theirs) for ours, theirs in pairs]
    known = [each for each in tests if each["n"] > 1]
    freedom = sum(each["n"] - 1 for each in known)
    sd = math.sqrt(sum(each["sd"] ** 2 * (each["n"] - 1) for each in known) / freedom) if known else math.nan
    corrected = holm([each["p"] for each in tests])
    for (one, other), (ours, theirs), test, p in zip(COMPARED[study], pairs, tests, corrected, strict=True):
        if test["n"] < 2:
            continue
        common = sorted({*ours} & {*theirs})
        means = [np.mean([side[seed] for seed in common]) for side in (ours, theirs)]
        half = student.ppf(0.975, freedom) * sd / math.sqrt(test["n"])
        ends = test["low"], test["high"]
        is_pooled = 2 * half > ends[1] - ends[0]
        if is_pooled:
            ends = test["difference"] - half, test["difference"] + half
        interval = f"[{ends[0]:z.1f}, {ends[1]:z.1f}]{'*' if is_pooled else ''}"
        sys.stdout.write(
            f"{study}, {task}: {one} - {other}: {test['difference']:+.1f} {interval}, p {short(test['p'])}"
            f" ({short(p)})  means {means[0]:.1f}, {means[1]:.1f} of {test['n']} seeds\n"
        )


def short(p: float | None) -> str:
    return "undefined" if p is None else f"{p:.3f}".removeprefix("0")


for study in COMPARED:
    for task in TASKS:
        family(study, task)
