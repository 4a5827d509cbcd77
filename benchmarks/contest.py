"""Contenders side by side: each run is a process of its own, contenders take turns, medians and ratios are
what is told.

A contender is a command whose last line of output is a JSON object. On a busy machine absolute figures swing;
turns make the ratios fair.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Contender:
    name: str
    command: list[str]


def python(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def electra(*arguments: object) -> list[str]:
    return python("-m", "electra", *arguments)


def timed(work: Callable[[], Any], count: int) -> tuple[Any, dict[str, float]]:
    """What `work` gives, and how many of `count` texts a second of the clock, and of a processor, took. The
    latter says more on a machine that others use, too.
    """
    wall, processor = time.perf_counter(), time.process_time()
    results = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return results, {"sentences_per_s": count / wall, "sentences_per_cpu_s": count / processor}


def options(doc: str | None, rounds: int = 3) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help="turns of each contender")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/bench"), help="where the JSON and the figure go"
    )
    return parser


def hold(
    name: str, contenders: list[Contender], *, rounds: int, out: Path, rate: str, unit: str, baseline: str
) -> dict[str, Any]:
    """Let all contenders have their turns; print the table; write OUT/NAME.json and OUT/NAME.svg. `rate`: the
    key that is compared.
    """
    results: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    for turn in range(rounds):
        for contender in contenders:
            sys.stderr.write(f"\rround {turn + 1} of {rounds}: {contender.name:40}")
            ended = subprocess.run(contender.command, capture_output=True, text=True, check=False)
            if ended.returncode:
                sys.exit(f"\n{contender.name} failed: {' '.join(contender.command)}\n{ended.stderr}")
            results[contender.name].append(json.loads(ended.stdout.splitlines()[-1]))
    sys.stderr.write("\r" + " " * 70 + "\r")
    # A ratio is taken within each turn, where both sides met the same machine, and then the median.
    rows = {}
    for contender, turns in results.items():
        rates = [turn[rate] for turn in turns]
        ratios = [turn[rate] / base[rate] for turn, base in zip(turns, results[baseline], strict=True)]
        rows[contender] = {"median": statistics.median(rates), "lowest": min(rates), "highest": max(rates)}
        rows[contender] |= {
            "ratio": round(statistics.median(ratios), 2),
            "ratios": [round(ratio, 2) for ratio in ratios],
            "turns": turns,
        }
    result = {
        "name": name,
        "unit": unit,
        "baseline": baseline,
        "rounds": rounds,
        "platform": platform.platform(),
        "contenders": rows,
    }
    print(f"{'':36}{unit:>14}{'spread':>20}{'ratio':>8}  ({baseline} = 1)")
    for contender, row in rows.items():
        spread = f"{row['lowest']:,.0f}-{row['highest']:,.0f}"
        print(f"{contender:36}{row['median']:14,.0f}{spread:>20}{row['ratio']:8.2f}")
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, out / f"{name}.svg")
    return result


def draw(result: dict[str, Any], path: Path) -> None:
    """Bars of the medians, with the spread of the turns."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    rows = result["contenders"]
    names = list(rows)
    medians = [rows[name]["median"] for name in names]
    below = [rows[name]["median"] - rows[name]["lowest"] for name in names]
    above = [rows[name]["highest"] - rows[name]["median"] for name in names]
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.4 * len(names)), layout="constrained")
    colours = ["#0072B2" if name.startswith("electra") else "#999999" for name in names]
    axes.barh(names, medians, xerr=[below, above], color=colours, error_kw={"ecolor": "#333333", "lw": 1})
    for position, name in enumerate(names):
        axes.annotate(f" {rows[name]['ratio']:.1f}x", (rows[name]["highest"], position), va="center")
    axes.invert_yaxis()
    axes.set_xlabel(result["unit"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(0, max(rows[name]["highest"] for name in names) * 1.15)
    figure.savefig(path)
    pyplot.close(figure)
