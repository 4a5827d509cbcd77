"""A run folder like a real one, made from a formula: what its page is tested on, and looked at with."""

import json
import math
from pathlib import Path
from typing import Any

RUN_TOML = """\
model = {{ size = "tiny", encoder = "modern" }}
objective = {{ name = "{objective}", mask_fraction = 0.4 }}
training = {{ length = 128, batch_size = 32, steps = {steps}, epsilon = 1e-06 }}
evaluation = {{ mask_fraction = 0.15 }}
identity = {{ data = "5f0c1f6ad2a1", tokenizer = "b1946ac92492" }}
[environment]
recipe = "budget-tiny"
torch = "2.13.0+cpu"
command = "pretrain --recipe budget-tiny --corpus enwiki --out runs/first-light"
"""
AUDIT: dict[str, Any] = {
    "documents_train": 41873,
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


def make_run(folder: Path, *, objective: str = "rtd", steps: int = 3600, eval_every: int = 200) -> Path:
    """A finished run; an `mlm` run has no discriminator."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = [event(0, "started")]
    for step in range(0, steps + 1, 10):
        learned, wave = 1 / (1 + math.exp((900 - step) / 260)), math.sin(step)
        at = {"step": step, "tokens": step * 4096, "flops": step * 4.1e11, "seconds": step * 0.42}
        losses = {"mlm": 8 - 3 * learned + wave / 9} | ({"rtd": 0.6 - learned / 9} if objective == "rtd" else {})
        more = {"learning_rate": 1e-3 * (1 - step / steps), "tokens_per_s": 9800 + 90 * wave}
        rows += [{"kind": "train", **at, **more, "loss": sum(losses.values()), "losses": losses}] * (step > 0)
        metrics = {"generator_loss": 8 - 3 * learned, "generator_accuracy": 0.3 * learned}
        if objective == "rtd":
            metrics |= {"base_rate": 0.15 - learned / 20, "base_rate_entropy": 0.41 - learned / 9}
            metrics |= {"average_precision": 0.16 + 0.4 * learned, "auc": 0.5 + 0.35 * learned}
            metrics |= {"discriminator_loss": 0.4 - learned / 6, "gain": 0.01 + learned / 18}
        rows += [{"kind": "eval", **at, "metrics": metrics}] * (step % eval_every == 0)
    write_metrics(folder, [*rows, event(steps, "finished")])
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
