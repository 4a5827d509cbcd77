"""Compares contenders, which take turns; prints medians and ratios.

A contender is a command whose last line of output is a JSON object; each turn is a process of its own. On a
busy machine absolute figures vary a lot, but within a turn all contenders meet the same conditions.
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
    """Returns the result of `work`, and how many of `count` texts it did per second and per processor second.

    Processor seconds vary less on a machine that other programs use.
    """
    wall, processor = time.perf_counter(), time.process_time()
    results = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return results, {"sentences_per_s": count / wall, "sentences_per_cpu_s": count / processor}


def options(doc: str | None, rounds: int = 3) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help="number of turns of each contender")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for the JSON file and the figure")
    return parser


def compare(
    name: str,
    contenders: list[Contender],
    arguments: argparse.Namespace,
    *,
    rate: str,
    unit: str,
    baseline: str,
) -> dict[str, Any]:
    """Runs all contenders, prints a table, and writes OUT/NAME.json and OUT/NAME.svg.

    Args:
        name: Name of the files.
        contenders: The contenders.
        arguments: The parsed `options`.
        rate: Key of the value that is compared.
        unit: Its unit.
        baseline: The contender with ratio 1.
    """
    results: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    rounds, out = arguments.rounds, arguments.out
    for turn in range(rounds):
        for contender in contenders:
            sys.stderr.write(f"\rround {turn + 1} of {rounds}: {contender.name:40}")
            ended = subprocess.run(contender.command, capture_output=True, text=True, check=False)
            if ended.returncode:
                sys.exit(f"\n{contender.name} failed: {' '.join(contender.command)}\n{ended.stderr}")
            results[contender.name].append(json.loads(ended.stdout.splitlines()[-1]))
    sys.stderr.write("\r" + " " * 70 + "\r")
    # a ratio is taken within each turn; the median is that of the ratios
    rows = {}
    for contestant, turns in results.items():
        rates = [turn[rate] for turn in turns]
        ratios = [turn[rate] / base[rate] for turn, base in zip(turns, results[baseline], strict=True)]
        rows[contestant] = {"median": statistics.median(rates), "lowest": min(rates), "highest": max(rates)}
        rows[contestant] |= {
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
    for contestant, row in rows.items():
        spread = f"{row['lowest']:,.0f}-{row['highest']:,.0f}"
        print(f"{contestant:36}{row['median']:14,.0f}{spread:>20}{row['ratio']:8.2f}")
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, out / f"{name}.svg")
    return result


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws a bar for each median, with the spread over the turns."""
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
