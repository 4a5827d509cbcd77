"""Gather the runs' numbers into table.json, curves.json and curves.svg beside this file: python collect.py RUNS_FOLDER"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from electra.report.read import RunRecord, read_run

HERE = Path(__file__).parent
RUNS = ("budget-rtd", "budget-mlm", "tiny-rtd", "tiny-mlm")
LOOKS = {"budget-rtd": ("#0072B2", "-"), "budget-mlm": ("#D55E00", "--"), "tiny-rtd": ("#009E73", "-."), "tiny-mlm": ("#CC79A7", ":")}


def pretrained(run: RunRecord) -> dict[str, object]:
    last = run.evals[-1]
    return {"tokens": last.tokens, "flops": last.flops, "seconds": last.seconds, "steps": last.step, "heldout": dict(last.values)}


def finetuned(folder: Path) -> dict[str, object]:
    results = json.loads((folder / "all_results.json").read_text())
    return {key: value for key, value in results.items() if key.startswith(("eval_", "seeds", "seconds")) or key.endswith("_samples")}


def curves(runs: dict[str, RunRecord]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "first-light"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, run in runs.items():
        colour, dashes = LOOKS[name]
        loss = run.curve("eval", "generator_loss", "flops")
        left.plot(loss.x, loss.y, dashes, color=colour, label=name)
        if name.endswith("rtd"):
            auc = run.curve("eval", "auc", "tokens")
            right.plot([x / 1e6 for x in auc.x], auc.y, dashes, color=colour, label=name)
    left.set(xlabel="FLOPs (as the paper counts)", ylabel="held-out MLM loss, nats", title="The masked language models")
    right.axhline(0.5, color="grey", linewidth=0.8)
    right.axhline(0.8, color="grey", linewidth=0.8, linestyle=":")
    right.set(xlabel="million tokens", ylabel="held-out AUC", title="The discriminators (chance 0.5, target 0.8)")
    for axes in (left, right):
        axes.legend(frameon=False)
    figure.savefig(HERE / "curves.svg", metadata={"Date": None})


def main(folder: Path) -> None:
    runs = {name: read_run(folder / name) for name in RUNS if (folder / name / "run.toml").exists()}
    table = {
        "pretrained": {name: pretrained(run) for name, run in runs.items()},
        "finetuned": {path.parent.name: finetuned(path.parent) for path in sorted((folder / "finetuned").glob("*/all_results.json"))},
    }
    (HERE / "table.json").write_text(json.dumps(table, indent=1) + "\n")
    curve = {
        name: {key: list(run.curve("eval", key, "tokens")) for key in ("generator_loss", "auc", "average_precision", "gain")}
        for name, run in runs.items()
    }
    (HERE / "curves.json").write_text(json.dumps(curve) + "\n")
    for name in runs:
        lines = (folder / name / "run.toml").read_text().splitlines(keepends=True)
        (HERE / f"{name}.toml").write_text("".join(line for line in lines if not line.startswith("command = ")))  # it names local paths
    curves(runs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
