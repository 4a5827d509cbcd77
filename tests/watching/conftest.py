"""Run folders that have begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ledgers import TOML, Rows, add, event


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """make("name", rows): a run folder that began."""

    def made(name: str, rows: Rows) -> Path:
        run = tmp_path / name
        run.mkdir()
        (run / "run.toml").write_text(TOML, encoding="utf-8")
        add(run, [event(0, "started"), *rows])
        return run

    return made
