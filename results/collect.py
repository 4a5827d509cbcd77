"""Gather the numbers of pre-training runs and of the models fine-tuned from them.

    python results/collect.py RESULT RUNS NAME... && python results/records.py pack RESULT

Reads the runs RUNS/NAME and what was fine-tuned from them (RUNS/tuned, RUNS/finetuned). Writes RESULT/curves.svg
and, in RESULT/records, table.json, curves.json and the recipe of each run.
"""

from __future__ import annotations

import json
import sys
from itertools import cycle
from pathlib import Path

from electra.pages.read import RunRecord, read_run

METRICS = ("generator_loss", "auc", "average_precision", "gain")
LOOKS = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
)  # told apart without colour too


def pretrained(run: RunRecord) -> dict[str, object]:
    last = run.evals[-1]
    return {
        "tokens": last.tokens,
        "flops": last.flops,
        "seconds": last.seconds,
        "steps": last.step,
        "heldout": dict(last.values),
    }


def finetuned(path: Path) -> dict[str, object]:
    found = json.loads(path.read_text())
    wanted = ("eval_", "seeds", "seconds", "learning_rate", "train_loss")
    return {key: value for key, value in found.items() if key.startswith(wanted) or key.endswith("_samples")}


def draw(runs: dict[str, RunRecord], target: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "electra"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for (name, run), (colour, dashes) in zip(runs.items(), cycle(LOOKS), strict=False):
        loss, auc = run.curve("eval", "generator_loss", "flops"), run.curve("eval", "auc", "tokens")
        left.plot(
            loss.x, loss.y, dashes, color=colour, label=name + (" (its small generator)" if auc.x else "")
        )
        if auc.x:
            right.plot([x / 1e6 for x in auc.x], auc.y, dashes, color=colour, label=name)
    left.set(
        xlabel="FLOPs (as the paper counts)",
        ylabel="held-out MLM loss, nats",
        title="The masked language models",
    )
    right.axhline(0.5, color="grey", linewidth=0.8)
    right.set(xlabel="million tokens", ylabel="held-out AUC", title="The discriminators (chance 0.5)")
    for axes in (left, right):
        axes.legend(frameon=False)
    figure.savefig(target, metadata={"Date": None})


def main(result: Path, folder: Path, names: list[str]) -> None:
    runs = {name: read_run(folder / name) for name in names}
    table = {
        "pretrained": {name: pretrained(run) for name, run in runs.items()},
        **{
            part: {
                path.parent.name: finetuned(path)
                for path in sorted((folder / part).glob("*/all_results.json"))
            }
            for part in ("tuned", "finetuned")
        },
    }
    records = result / "records"
    records.mkdir(parents=True, exist_ok=True)
    (records / "table.json").write_text(
        json.dumps({part: rows for part, rows in table.items() if rows}, indent=1) + "\n"
    )
    curves = {
        name: {key: list(run.curve("eval", key, "tokens")) for key in METRICS} for name, run in runs.items()
    }
    (records / "curves.json").write_text(json.dumps(curves) + "\n")
    draw(runs, result / "curves.svg")
    for name in names:
        lines = (folder / name / "run.toml").read_text().splitlines(keepends=True)
        # without the command, which names local paths
        (records / f"{name}.toml").write_text(
            "".join(line for line in lines if not line.startswith("command = "))
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
