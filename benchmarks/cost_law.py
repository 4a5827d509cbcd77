"""Measures what a training token costs on a grid of settings, and fits a law of five terms.

    python benchmarks/cost_law.py [--seconds 2] [--recipe budget-tiny] [--sizes tiny mini small] [--compile]
    [--out runs/bench]

    seconds per token = c0 + c1 x FLOPs in layers and heads + c2 x FLOPs in the vocabulary layer
                      + c3 x attention weights + c4 x parameters / tokens in a batch

FLOPs are those of forward and backward passes, without dense lookups (model/flops.py). There are layers x
heads x length attention weights per token, which cost memory traffic rather than FLOPs. The last term is the
optimizer's. The coefficients are fitted by non-negative least squares on relative errors. A single thread
runs, and processor seconds are counted, because other programs affect them less than wall-clock seconds. One
setting at a time is varied around a centre. Writes cost-law.json and cost-law.svg.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from electra.foundation.config import find_recipe, merge, read_toml
from electra.model import flops
from electra.training import compilation
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.estimate import random_store
from electra.training.loop import update
from electra.training.recipe import make_recipe
from electra.training.run import RunState
from electra.training.telemetry import Telemetry

TERMS = (
    "each token",
    "each FLOP in layers",
    "each FLOP in the vocabulary layer",
    "each attention weight",
    "each parameter, once per batch",
)


@dataclass(frozen=True)
class Point:
    size: str
    length: int = 128
    batch: int = 16
    vocabulary: int = 8192


def grid(sizes: list[str]) -> list[Point]:
    centre = Point(sizes[0])
    points = [Point(size) for size in sizes]
    points += [
        replace(centre, length=length, batch=centre.batch * centre.length // length) for length in (64, 256, 512)
    ]
    points += [replace(centre, batch=batch) for batch in (4, 64)]
    return points + [replace(centre, vocabulary=vocabulary) for vocabulary in (2048, 30522)]


def build(point: Point, recipe: str) -> RunState:
    settings = {
        "length": point.length,
        "batch_size": point.batch,
        "steps": 1 << 30,
        "budget": None,
        "log_every": 1 << 30,
        "threads": 1,
    }
    sections = merge(
        read_toml(find_recipe(recipe)),
        {"model": {"size": point.size}, "training": {**settings, "device": "cpu"}},
    )
    run = build_run(make_recipe(sections), Path("memory"), random_store(point.vocabulary), World())
    return replace(run, telemetry=Telemetry(run.folder, is_main=False))


def measure(point: Point, recipe: str, seconds: float, compiled: bool) -> dict[str, Any]:
    """Returns the processor seconds per token of the fastest update, and the terms of the law for a token."""
    run = build(point, recipe)
    if compiled and (problem := compilation.compile_layers(run)):
        sys.exit(f"the layers cannot be compiled: {problem}")
    times: list[float] = []
    while len(times) < 4 or sum(times) < seconds:
        began = time.process_time()
        update(run)
        times.append(time.process_time() - began)
    vocabulary, layers, weights = 0.0, 0.0, 0.0
    for kind, network in run.pair.named.items():
        config = network.encoder.config
        layers += config.num_layers * flops.layer_flops(config, point.length) + flops.input_flops(
            config, point.length, False
        )
        weights += config.num_layers * config.num_heads * point.length
        if kind == "generator":
            vocabulary += flops.generator_head_flops(
                config, point.length, getattr(run.objective.config, "mask_fraction", 0.15)
            )
        else:
            layers += flops.discriminator_head_flops(config, point.length)
    parameters = sum(parameter.numel() for parameter in run.pair.parameters())
    return {
        **asdict(point),
        "seconds_per_token": min(times) / run.tokens_per_step,
        "steps": len(times),
        "terms": [
            1.0,
            3 * layers / point.length,
            3 * vocabulary / point.length,
            weights,
            parameters / run.tokens_per_step,
        ],
    }


def fit(rows: list[dict[str, Any]]) -> list[float]:
    """Returns the non-negative coefficients with the least squared relative errors."""
    from scipy.optimize import nnls

    measured = np.array([row["seconds_per_token"] for row in rows])
    terms = np.array([row["terms"] for row in rows])
    scale = terms.max(axis=0)
    coefficients, _ = nnls(terms / scale / measured[:, None], np.ones(len(rows)))
    return [float(value) for value in coefficients / scale]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draws, for each setting, the measured tokens per second and those by the law."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    names = [f"{row['size']}, {row['batch']} x {row['length']}, {row['vocabulary']:,} entries" for row in rows]
    figure, axes = pyplot.subplots(figsize=(7, 0.8 + 0.3 * len(rows)), layout="constrained")
    axes.scatter([1 / row["seconds_per_token"] for row in rows], names, color="#0072B2", label="measured", zorder=2)
    axes.scatter(
        [1 / row["predicted"] for row in rows],
        names,
        color="#D55E00",
        marker="|",
        s=150,
        label="by the law",
        zorder=3,
    )
    axes.grid(axis="x", color="#DDDDDD")
    axes.invert_yaxis()
    axes.set(xlabel="tokens per processor second", xlim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", frameon=False)
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="seconds of training at each point (at least four updates)"
    )
    parser.add_argument("--recipe", default="budget-tiny")
    parser.add_argument("--sizes", nargs="+", default=["tiny", "mini", "small"])
    parser.add_argument("--compile", action="store_true", help="compile the layers, as long runs do")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for point in grid(arguments.sizes):
        rows.append(measure(point, arguments.recipe, arguments.seconds, arguments.compile))
        sys.stderr.write(f"{point}: {1 / rows[-1]['seconds_per_token']:,.0f} tokens/s\n")
    coefficients = fit(rows)
    for row in rows:
        row["predicted"] = float(np.dot(coefficients, row["terms"]))
    law = dict(zip(TERMS, coefficients, strict=True))
    errors = [row["predicted"] / row["seconds_per_token"] - 1 for row in rows]
    arguments.out.mkdir(parents=True, exist_ok=True)
    result = {
        "recipe": arguments.recipe,
        "compiled": arguments.compile,
        "platform": platform.platform(),
        "torch": torch.__version__,
        "seconds": law,
        "points": rows,
    }
    (arguments.out / "cost-law.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(rows, arguments.out / "cost-law.svg")
    print(f"{'size':8}{'length':>8}{'batch':>8}{'vocabulary':>12}{'tokens/s':>12}{'by the law':>12}")
    for row in rows:
        shape = f"{row['size']:8}{row['length']:8}{row['batch']:8}{row['vocabulary']:12,}"
        print(f"{shape}{1 / row['seconds_per_token']:12,.0f}{1 / row['predicted']:12,.0f}")
    for name, value in law.items():
        print(f"{name}: {value:.3g} s" + (f" ({1 / value / 1e9:,.1f} G a second)" if "FLOP" in name and value else ""))
    print(f"largest error of the law: {max(map(abs, errors)):.0%}")


if __name__ == "__main__":
    main()
