"""Gather the runs' numbers into table.json, curves.json and curves.svg beside this file: python collect.py RUNS_FOLDER"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from electra.report.read import RunRecord, read_run

HERE = Path(__file__).parent
LOOKS = {"mini-rtd": ("#0072B2", "-"), "mini-mlm": ("#D55E00", "--")}
METRICS = ("generator_loss", "auc", "average_precision", "gain")


def results(path: Path) -> dict[str, object]:
    found = json.loads(path.read_text())
    wanted = ("eval_", "seeds", "seconds", "learning_rate", "train_loss")
    return {key: value for key, value in found.items() if key.startswith(wanted) or key.endswith("_samples")}


def draw(runs: dict[str, RunRecord]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "second-light"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, run in runs.items():
        colour, dashes = LOOKS[name]
        loss = run.curve("eval", "generator_loss", "flops")
        left.plot(loss.x, loss.y, dashes, color=colour, label=name + (" (its generator, 1/4 width)" if name == "mini-rtd" else ""))
    auc = runs["mini-rtd"].curve("eval", "auc", "tokens")
    right.plot([x / 1e6 for x in auc.x], auc.y, color="#0072B2")
    left.set(xlabel="FLOPs (as the paper counts)", ylabel="held-out MLM loss, nats", title="The masked language models")
    left.legend(frameon=False)
    right.axhline(0.5, color="grey", linewidth=0.8)
    right.set(xlabel="million tokens", ylabel="held-out AUC", title="The discriminator (chance 0.5)")
    figure.savefig(HERE / "curves.svg", metadata={"Date": None})


def main(folder: Path) -> None:
    runs = {name: read_run(folder / name) for name in LOOKS}
    table = {
        "pretrained": {
            name: {"tokens": run.evals[-1].tokens, "flops": run.evals[-1].flops, "seconds": run.evals[-1].seconds, **dict(run.evals[-1].values)}
            for name, run in runs.items()
        },
        **{part: {path.parent.name: results(path) for path in sorted((folder / part).glob("*/all_results.json"))} for part in ("tuned", "finetuned")},
    }
    (HERE / "table.json").write_text(json.dumps(table, indent=1) + "\n")
    curves = {name: {key: list(run.curve("eval", key, "tokens")) for key in METRICS} for name, run in runs.items()}
    (HERE / "curves.json").write_text(json.dumps(curves) + "\n")
    draw(runs)
    for name in runs:
        lines = (folder / name / "run.toml").read_text().splitlines(keepends=True)
        (HERE / f"{name}.toml").write_text("".join(line for line in lines if not line.startswith("command = ")))  # it names local paths


if __name__ == "__main__":
    main(Path(sys.argv[1]))
