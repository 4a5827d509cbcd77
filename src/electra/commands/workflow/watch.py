"""Runs on a live page, from outside: their ledgers are followed, and nothing of theirs is touched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.folder import distinct_names
from electra.artifacts.run import RunFolder
from electra.commands.workflow.artifact import Source, given_path
from electra.commands.workflow.display import Told, display_for
from electra.foundation.machine import not_installed


def watch(runs: Sequence[Source], *, port: int = 8001, progress: Told = None) -> int:
    """Show `runs` on a page of this machine until asked to stop; an exit code. Raises ConfigError and
    RunFolderError before it begins.

    port: on the loopback address (0: any free one).
    """
    try:
        from electra.commands.watching.app import make_app
        from electra.commands.watching.watched import Watched
        from electra.foundation.signals import StopRequest
        from electra.serving.web import listen, serve_app
    except ImportError as missing:
        raise not_installed(missing.name, "serve") from None
    paths = [given_path(run, "runs") for run in runs]
    names = distinct_names([path.absolute().parts for path in paths])
    watched = [Watched(path, name) for path, name in zip(paths, names, strict=True)]
    with listen("127.0.0.1", port) as taken, display_for(progress) as display:
        return serve_app(make_app(watched, _examples), taken, say=display.say, stop=StopRequest())


def _examples(run: Path) -> list[Any]:
    """Worked examples of the newest checkpoint, on one thread: the run needs the others."""
    import torch

    from electra.commands.workflow.model import Model
    from electra.commands.workflow.train import example_texts
    from electra.data.store import TokenStore
    from electra.inference.examples import example_rows

    torch.set_num_threads(1)
    folder = RunFolder(run)
    place = folder.record.get("environment", {}).get("store")
    store = TokenStore.open(folder.store.path if folder.store.exists() or not place else place)
    both = Model(run, device="cpu").pair()
    return [{"text": text, "rows": example_rows(*both, text)} for text in example_texts(store)]
