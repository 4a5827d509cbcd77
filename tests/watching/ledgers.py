"""Ledgers that grow as a test wants them to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOML = """
[training]
steps = 1000
[objective]
name = "rtd"
[model]
size = "tiny"
"""
Rows = list[dict[str, Any]]


def train(step: int, loss: float = 4.0, speed: float = 1000.0) -> dict[str, Any]:
    place = {"step": step, "tokens": 100 * step, "flops": 1e9 * step, "seconds": 0.1 * step}
    return {"kind": "train", **place, "loss": loss, "losses": {"rtd": loss / 10}, "tokens_per_s": speed}


def held_out(step: int, auc: float) -> dict[str, Any]:
    return {
        "kind": "eval",
        "step": step,
        "tokens": 100 * step,
        "seconds": 0.1 * step,
        "metrics": {"auc": auc},
    }


def event(step: int, name: str, message: str = "a line") -> dict[str, Any]:
    return {"kind": "event", "step": step, "event": name, "message": message}


def add(run: Path, rows: Rows) -> None:
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
