"""A run folder like a real one, made from a formula: what its page is tested on, and looked at with.

python tests/report/fake_run.py FOLDER      writes FOLDER/rtd and FOLDER/mlm
"""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

RUN_TOML = """\
[model]
size = "tiny"
encoder = "modern"
[objective]
name = "{objective}"
mask_fraction = 0.4
discriminator_weight = 50.0
[training]
length = 128
batch_size = 32
steps = {steps}
epsilon = 1e-06
[evaluation]
mask_fraction = 0.15
[identity]
data = "5f0c1f6ad2a1"
tokenizer = "b1946ac92492"
[environment]
recipe = "budget-tiny"
torch = "2.13.0+cpu"
command = "pretrain --recipe budget-tiny --corpus enwiki --out runs/first-light"
"""
AUDIT: dict[str, Any] = {
    "documents_train": 41873,
    "heldout_by": "hash",
    "padding": {"128": 0.0121, "512": 0.0433},
    "sources": [{"name": "enwiki-2015-000.jsonl.zst", "size": 24117248}],
}
SENTENCE = [  # original, masked, generated, P(replaced)
    ("the", "the", "the", 0.02),
    ("chef", "[MASK]", "cook", 0.83),
    ("cooked", "cooked", "cooked", 0.11),
    ("meal", "[MASK]", "boat", 0.91),
    ("##eng", "[MASK]", "##ing", 0.38),
    ("##ers", "##ers", "##ers", 0.57),
]


def make_run(
    folder: Path, *, objective: str = "rtd", steps: int = 3600, eval_every: int = 200, leaves: int = 900
) -> Path:
    """A finished run that leaves the plateau after `leaves` steps; an `mlm` run has no discriminator."""
    folder.mkdir(parents=True, exist_ok=True)
    noise, seconds = random.Random(7), 0.0
    rows: list[dict[str, Any]] = [event(0, "started")]
    for step in range(steps + 1):
        at = {"step": step, "tokens": step * 4096, "flops": step * 4.1e11, "seconds": round(seconds, 2)}
        if step % 10 == 0 and step:
            speed = 9800 + noise.gauss(0, 180)
            seconds += 10 * 4096 / speed
            measured = {"learning_rate": 1e-3 * min(step / 150, 1 - step / steps), "tokens_per_s": speed}
            generator, _, rate, gain = _losses(step, leaves, 0.4)
            losses = {"mlm": generator + noise.gauss(0, 0.07)}
            if objective == "rtd":
                losses["rtd"] = _entropy(rate) - gain + noise.gauss(0, 0.008)
            total = losses["mlm"] + 50 * losses.get("rtd", 0.0)
            rows.append({"kind": "train", **at, **measured, "loss": total, "losses": losses})
        if step % eval_every == 0:
            rows.append({"kind": "eval", **at, "metrics": _evaluation(step, leaves, objective)})
    rows.append(event(steps, "finished"))
    write_metrics(folder, rows)
    (folder / "run.toml").write_text(RUN_TOML.format(objective=objective, steps=steps))
    (folder / "audit.json").write_text(json.dumps(AUDIT))
    tokens = [
        {"original": a, "masked": b, "generated": c, "label": "replaced" if a != c else "original"}
        | {"p_replaced": p if objective == "rtd" else None}
        for a, b, c, p in SENTENCE
    ]
    (folder / "examples.json").write_text(json.dumps([{"text": "the chef cooked", "rows": tokens}] * 2))
    return folder


def write_metrics(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def event(step: int, name: str, message: str = "a line") -> dict[str, Any]:
    return {"kind": "event", "step": step, "event": name, "message": message}


def _losses(step: float, leaves: int, masked: float) -> tuple[float, float, float, float]:
    """Generator loss and accuracy, base rate, gain: a plateau, then learning."""
    learned = 1 / (1 + math.exp(-(step - leaves) / 260))
    late = max(0.0, math.log((step + 50) / (leaves + 50)))
    accuracy = 0.06 + 0.16 * learned + 0.06 * late
    generator = 6.6 + 2.6 * math.exp(-step / 60) - 1.2 * learned - 0.55 * late
    return generator, accuracy, masked * (1 - accuracy), 0.035 * learned + 0.062 * max(0.0, late - 0.15)


def _entropy(rate: float) -> float:
    return -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)


def _evaluation(step: int, leaves: int, objective: str) -> dict[str, float | None]:
    generator, accuracy, rate, gain = _losses(step, leaves, 0.15)
    metrics: dict[str, float | None] = {"generator_loss": generator, "generator_accuracy": accuracy}
    if objective == "mlm":
        return metrics
    return metrics | {
        "discriminator_loss": _entropy(rate) - gain,
        "average_precision": rate + 3.4 * gain,
        "auc": min(0.97, 0.5 + math.sqrt(max(gain, 0.0))),
        "base_rate": rate,
        "base_rate_entropy": _entropy(rate),
        "gain": gain,
    }


if __name__ == "__main__":
    make_run(Path(sys.argv[1]) / "rtd")
    make_run(Path(sys.argv[1]) / "mlm", objective="mlm", steps=4300)
