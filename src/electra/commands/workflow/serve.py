"""Models behind HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence

from electra.commands.workflow.artifact import Source
from electra.commands.workflow.display import Told, display_for
from electra.foundation.errors import ConfigError
from electra.foundation.machine import MOST_THREADS, Device, not_installed
from electra.serving.limits import DEFAULT, Limits


def serve(
    models: Sequence[Source],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits = DEFAULT,
    device: Device = "auto",
    threads: int | None = None,
    progress: Told = None,
) -> int:
    """Serve `models` until asked to stop; an exit code. Raises ConfigError and ModelError before it begins.

    threads: on a CPU (None: torch's choice).
    """
    try:
        from electra.foundation.signals import StopRequest
        from electra.serving.models import open_models
        from electra.serving.server import serve as run
        from electra.serving.web import listen
    except ImportError as missing:
        raise not_installed(missing.name, "serve") from None
    if threads is not None:
        import torch

        if not 1 <= threads <= MOST_THREADS:
            raise ConfigError(f"must be from 1 to {MOST_THREADS}, not {threads}", key="threads")
        torch.set_num_threads(threads)
    with listen(host, port) as taken, display_for(progress) as display:
        opened = open_models([os.fspath(model) for model in models], device)
        return run(opened, taken, limits, say=display.say, stop=StopRequest())
