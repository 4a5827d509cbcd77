"""Prints the tables of a grid that states_and_counts.py measured, and draws its curves.

    python benchmarks/states_and_counts_table.py OUT [--picture curves.svg]

A score is the mean over the seeds; their number is in brackets unless it is three. Differences are paired:
the same task, sample and seed. Their standard error is that of the means of tasks, as the samples of a task
are not independent.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from samples import GLUE
from states_and_counts import CURVES, TEXTS, WORDS

BASELINES = {"majority": "majority", "counts": "baseline", "frozen encoder": "frozen"}
COLUMNS = {
    "majority": "majority",
    "crf": "CRF",
    "tfidf": "TF-IDF, tuned",
    "spacy": "spaCy",
    "trainer": "Trainer",
    "baseline": "baseline `counts`",
    "frozen": "`frozen`",
    "transformers": "`transformers`",
    "counts": "`counts`",
    "earlier": "`counts`, earlier",
    "auto": "`auto`",
}
COLOURS = {
    "crf": "#D55E00",
    "baseline": "#999999",
    "frozen": "#56B4E9",
    "transformers": "#009E73",
    "counts": "#0072B2",
}
Scores = dict[tuple[str, str, str], dict[str, float]]  # task, labels, method: score of each seed


def read(folder: Path) -> tuple[Scores, dict[tuple[str, str, str], list[dict[str, Any]]]]:
    """Returns the scores, and the records behind them, of heads and peers."""
    scores, records = defaultdict[Any, Any](dict), defaultdict[Any, Any](list)
    for path in sorted((folder / "cells").glob("*.json")):
        task, size, seed, method = path.stem.rsplit("-", 3)
        cell = json.loads(path.read_text(encoding="utf-8"))
        scores[task, size, method][seed] = cell["record"]["score"]
        records[task, size, method].append(cell)
        for name, values in (cell["record"].get("baselines") or {}).items() if method in ("counts", "earlier") else ():
            if name in BASELINES:
                scores[task, size, BASELINES[name]][seed] = values[f"eval_{cell['record']['metric']}"]
    return scores, records


def table(scores: Scores, rows: list[tuple[str, str]]) -> str:
    """Returns a Markdown table of mean scores, the best one of a row in bold."""
    shown = [name for name in COLUMNS if any((*row, name) in scores for row in rows)]
    lines = [
        "| task | labels | " + " | ".join(COLUMNS[name] for name in shown) + " |",
        "|---" * (2 + len(shown)) + "|",
    ]
    for row in rows:
        values = {name: [*scores[(*row, name)].values()] for name in shown if (*row, name) in scores}
        if not values:
            continue
        best = max(round(fmean(each), 3) for each in values.values())
        cells = []
        for name in shown:
            each = values.get(name, [])
            text = f"{fmean(each):.3f}".removeprefix("0") if each else ""
            text = f"**{text}**" if each and round(fmean(each), 3) == best else text
            cells.append(text + (f" ({len(each)})" if len(each) in (1, 2) else ""))
        lines.append(f"| {row[0]} | {row[1]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def difference(scores: Scores, first: str, second: str, tasks: list[str], size: str) -> str:
    """Returns the mean difference of two methods over the tasks that have both, with its standard error."""
    means = {}
    for task in tasks:
        a, b = (scores.get((task, size, name), {}) for name in (first, second))
        if both := a.keys() & b.keys():
            means[task] = fmean(a[seed] - b[seed] for seed in both)
    if len(means) < 2:
        return ""
    values = [*means.values()]
    error = stdev(values) / len(values) ** 0.5
    each = ", ".join(f"{task} {100 * value:+.1f}" for task, value in means.items())
    return f"{100 * fmean(values):+.1f} +- {100 * error:.1f} points over {len(values)} tasks ({each})"


def draw(scores: Scores, path: Path) -> None:
    """Draws scores over numbers of labels, seed 0."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    shown = [task for task in CURVES if len({size for name, size, _ in scores if name == task}) > 2]
    figure, grid = pyplot.subplots(1, len(shown), figsize=(4 * len(shown), 3), layout="constrained", squeeze=False)
    axes = grid[0]
    for axis, task in zip(axes, shown, strict=True):
        whole = {"is-pos": 5000, "yor-pos": 893, "yor-ner": 6876}[task]
        for method, colour in COLOURS.items():
            points = {
                whole if size == "all" else int(size): scores[task, size, method]["0"]
                for known, size, name in scores
                if (known, name) == (task, method) and "0" in scores[task, size, method]
            }
            ordered = sorted(points)
            if len(ordered) < 2:
                continue
            title = COLUMNS[method].replace("`", "")
            axis.plot(ordered, [points[x] for x in ordered], "o-", ms=3, lw=1.2, color=colour, label=title)
        axis.set_xscale("log")
        axis.set_xticks([50, 100, 200, 500, 1000, 2000, 5000], ["50", "", "200", "500", "", "2,000", "5,000"])
        axis.minorticks_off()
        axis.set_title(task, fontsize=9)
        axis.set_xlabel("labelled sentences", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy (entities: F1)", fontsize=8)
    axes[-1].legend(frameon=False, fontsize=7, loc="lower right")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    scores, records = read(given.out)
    for names, sizes in ((WORDS, ("100", "500")), ([*TEXTS, *GLUE], ("100", "500", "1000"))):
        print(table(scores, [(name, size) for size in sizes for name in names]), end="\n\n")
    print(table(scores, [(n, size) for n in CURVES for size in ("50", "100", "200", "500", "1000", "2000", "all")]))
    for first, second in (
        ("counts", "crf"),
        ("counts", "transformers"),
        ("counts", "frozen"),
        ("counts", "baseline"),
    ):
        for size in ("100", "500"):
            print(f"\n{first} - {second}, {size} sentences: {difference(scores, first, second, WORDS, size)}")
    for method in COLUMNS:
        for size in ("100", "500"):
            known = [cell for name in WORDS for cell in records.get((name, size, method), ())]
            if cells := [cell for cell in known if "cpu_seconds" in cell]:
                seconds, cpu = (median(cell[key] for cell in cells) for key in ("seconds", "cpu_seconds"))
                mb = median(cell["record"].get("bytes", 0) for cell in cells) / 2**20
                print(f"{method} {size}: {seconds:.0f} s, {cpu:.0f} s of processor time, {mb:.1f} MiB")
    for key, cells in records.items():
        for cell in cells if key[2] == "auto" else ():
            print(*key, cell["record"]["head"], *cell["record"]["notes"])
    if given.picture:
        draw(scores, given.picture)


if __name__ == "__main__":
    main()
