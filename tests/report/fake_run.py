"""A run folder like a real one, made from a formula: what the report is tested on, and looked at with.

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
generator_depth = 1.0
sharing = "embeddings"
dropout = 0.0
attention_dropout = 0.0
initialisation = "fan_in"

[objective]
name = "rtd"
mask_fraction = 0.4
discriminator_weight = 50.0

[training]
seed = 1
length = 128
batch_size = 32
steps = 3600
budget = "14.7Mtokens"
learning_rate = 0.001
warmup = 0.04
schedule = "linear"
optimizer = "adamw"
betas = [0.9, 0.999]
epsilon = 1e-06
weight_decay = 0.01
bias_correction = true
clip = 1.0
precision = "auto"
log_every = 10

[evaluation]
rows = 256
mask_fraction = 0.15

[tokenizer]
vocab_size = 10000
lowercase = true

[data]
unit = "file"
text_field = "text"
heldout = 0.005

[identity]
objective = "rtd"
data = "5f0c1f6ad2a1b3d0c44e7c1f2ad0f55c3a1be7d9e0a6a58f1d9c0e5b7b2f3a11"
tokenizer = "b1946ac92492d2347c6235b4d2611184a3f1b0aee2b7a55e6f2c1d7cc9a0de42"
seed_scheme = 1
precision = "bf16"

[environment]
recipe = "budget-tiny"
python = "3.11.7"
platform = "Linux-6.1.0-x86_64-with-glibc2.36"
torch = "2.13.0+cpu"
device = "cpu"
command = "pretrain --recipe budget-tiny --corpus enwiki --out runs/first-light"
threads = 2
processes = 1
"""

AUDIT: dict[str, Any] = {
    "documents_read": 42439,
    "documents_empty": 12,
    "documents_duplicate": 345,
    "documents_train": 41873,
    "documents_heldout": 209,
    "heldout_by": "hash",
    "characters": 65211034,
    "words": 11204558,
    "tokens_train": 15129121,
    "tokens_heldout": 75231,
    "tokens_unknown": 1211,
    "tokens_lost": 0,
    "vocabulary_used": 9987,
    "vocab_size": 10000,
    "bytes_replaced": 0,
    "nuls_dropped": 0,
    "padding": {"128": 0.0121, "512": 0.0433},
    "sources": [
        {
            "name": "enwiki-2015-000.jsonl.zst",
            "size": 24117248,
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        },
        {
            "name": "enwiki-2015-001.jsonl.zst",
            "size": 24120011,
            "sha256": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
        },
    ],
    "tokens": 15204352,
    "unknown_rate": 7.965e-05,
    "tokens_per_word": 1.357,
}

SENTENCE = [
    ("the", "the", "the", 0.02),
    ("chef", "[MASK]", "cook", 0.83),
    ("cooked", "cooked", "cooked", 0.11),
    ("the", "[MASK]", "the", 0.05),
    ("meal", "[MASK]", "boat", 0.91),
    ("for", "for", "for", 0.04),
    ("the", "the", "the", 0.03),
    ("pass", "pass", "pass", 0.21),
    ("##eng", "[MASK]", "##ing", 0.38),
    ("##ers", "##ers", "##ers", 0.57),
    ("on", "on", "on", 0.07),
    ("the", "the", "the", 0.02),
    ("evening", "[MASK]", "last", 0.64),
    ("train", "train", "train", 0.12),
    ("to", "to", "to", 0.02),
    ("edinburgh", "[MASK]", "london", 0.27),
    (".", ".", ".", 0.01),
]


def make_run(
    folder: Path,
    *,
    objective: str = "rtd",
    steps: int = 3600,
    every: int = 10,
    eval_every: int = 200,
    leaves: int = 900,
) -> Path:
    """A finished run of `steps` steps that leaves the plateau after `leaves`; an `mlm` run has no
    discriminator.
    """
    folder.mkdir(parents=True, exist_ok=True)
    noise = random.Random(7)
    seconds = 0.0
    rows = [
        _event(
            0,
            "started",
            f"started at step 0 of {steps}: {objective}, size tiny; 32 x 128 tokens an update; cpu, bf16, 2"
            " threads",
        )
    ]
    rows.append({**_place("eval", 0, 0.0), "metrics": _evaluation(0, leaves, objective, noise)})
    for step in range(1, steps + 1):
        if step % every == 0:
            speed = 9800 + noise.gauss(0, 180) - (2500 if step % eval_every == 0 else 0)
            seconds += every * 32 * 128 / speed
            rows.append(
                {
                    **_place("train", step, seconds),
                    **_train(step, steps, leaves, objective, noise),
                    "tokens_per_s": round(speed, 1),
                }
            )
        if step % eval_every == 0:
            rows.append(
                {**_place("eval", step, seconds), "metrics": _evaluation(step, leaves, objective, noise)}
            )
            rows.append(_event(step, "checkpoint", f"checkpoints/step-{step:08}"))
    rows.append(_event(steps, "finished", f"finished after {steps} steps"))
    write_metrics(folder, rows)
    (folder / "run.toml").write_text(
        RUN_TOML.replace('"rtd"', f'"{objective}"').replace("steps = 3600", f"steps = {steps}"),
        encoding="utf-8",
    )
    (folder / "audit.json").write_text(json.dumps(AUDIT), encoding="utf-8")
    (folder / "examples.json").write_text(json.dumps(examples(objective)), encoding="utf-8")
    return folder


def write_metrics(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def examples(objective: str = "rtd") -> list[dict[str, Any]]:
    rows = [
        {
            "original": original,
            "masked": masked,
            "generated": generated,
            "label": "replaced" if generated != original else "original",
            "p_replaced": p if objective == "rtd" else None,
        }
        for original, masked, generated, p in SENTENCE
    ]
    return [
        {
            "text": "the chef cooked the meal for the passengers on the evening train to edinburgh.",
            "rows": rows,
        }
    ] * 2


def _place(kind: str, step: int, seconds: float) -> dict[str, Any]:
    return {
        "kind": kind,
        "step": step,
        "tokens": step * 4096,
        "flops": step * 4.1e11,
        "seconds": round(seconds, 2),
    }


def _event(step: int, name: str, message: str) -> dict[str, Any]:
    return {"kind": "event", "step": step, "event": name, "message": message}


def _losses(step: float, leaves: int, masked: float) -> tuple[float, float, float, float]:
    """Generator loss and accuracy, base rate, gain: a plateau, then learning."""
    learned = 1 / (1 + math.exp(-(step - leaves) / 260))
    late = max(0.0, math.log((step + 50) / (leaves + 50)))
    generator = 6.6 + 2.6 * math.exp(-step / 60) - 1.2 * learned - 0.55 * late
    accuracy = 0.06 + 0.16 * learned + 0.06 * late
    gain = 0.035 * learned + 0.062 * max(0.0, late - 0.15)
    return generator, accuracy, masked * (1 - accuracy), gain


def _entropy(rate: float) -> float:
    return -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)


def _train(step: int, steps: int, leaves: int, objective: str, noise: random.Random) -> dict[str, Any]:
    generator, _, rate, gain = _losses(step, leaves, 0.4)
    losses = {"mlm": generator + noise.gauss(0, 0.07)}
    counts = {"mlm": 1638}
    if objective == "rtd":
        losses["rtd"] = _entropy(rate) - gain + 0.25 * math.exp(-step / 30) + noise.gauss(0, 0.008)
        counts["rtd"] = 4096
    return {
        "loss": losses["mlm"] + 50 * losses.get("rtd", 0.0),
        "losses": losses,
        "counts": counts,
        "learning_rate": 1e-3 * min(step / 150, (steps - step) / (steps - 150)),
        "gradient_norm": 1.1 + 3 * math.exp(-step / 80) + abs(noise.gauss(0, 0.2)),
        "batch_digest": f"{noise.getrandbits(64):016x}",
    }


def _evaluation(step: int, leaves: int, objective: str, noise: random.Random) -> dict[str, float | None]:
    generator, accuracy, rate, gain = _losses(step, leaves, 0.15)
    metrics: dict[str, float | None] = {
        "generator_loss": generator + 0.05 + noise.gauss(0, 0.01),
        "generator_accuracy": accuracy - 0.004,
    }
    if objective == "mlm":
        return metrics
    gain += noise.gauss(0, 0.001)
    recall = max(0.0, 4.2 * gain - 0.04)
    precision = 0.62 + gain if recall else None
    metrics |= {
        "sample_accuracy": accuracy / 2,
        "discriminator_loss": _entropy(rate) - gain,
        "accuracy": 1 - rate + gain / 2,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if precision else 0.0,
        "average_precision": rate + 3.4 * gain,
        "auc": min(0.97, 0.5 + 1.35 * math.sqrt(max(gain, 0.0)) * 0.72),
        "base_rate": rate,
        "base_rate_entropy": _entropy(rate),
        "gain": gain,
    }
    return metrics


if __name__ == "__main__":
    target = Path(sys.argv[1])
    make_run(target / "rtd")
    make_run(target / "mlm", objective="mlm", steps=4300)
