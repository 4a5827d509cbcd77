"""Trackio: a database in OUT; `TRACKIO_DIR=OUT trackio show` shows it."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

from typing_extensions import override

from electra.exchange.trackers.interface import Target, Tracker
from electra.foundation.errors import ConfigError


class Trackio(Tracker):
    """One run in Trackio."""

    id = ""

    def __init__(self, target: Target) -> None:
        os.environ["TRACKIO_DIR"] = str(target.out)  # the library reads it when imported
        import trackio
        from trackio.utils import TRACKIO_DIR

        if Path(TRACKIO_DIR).resolve() != target.out.resolve():
            fix = "Start another process, or set TRACKIO_DIR to `out` before trackio is imported"
            raise ConfigError(f"trackio writes to {TRACKIO_DIR} in this process", key="out", fix=fix)
        self._trackio = trackio
        with redirect_stdout(io.StringIO()):  # it prints an advertisement for its dashboard
            trackio.init(
                project=target.project,
                name=target.run,
                config=dict(target.settings),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    @override
    def log(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        self._trackio.log({**values, "seconds": seconds}, step=step)

    @override
    def flush(self) -> None:
        pass  # the library writes in a thread of its own

    @override
    def close(self, finished: bool) -> None:
        with redirect_stdout(io.StringIO()):
            self._trackio.finish()


open = Trackio
