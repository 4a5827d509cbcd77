"""Serves models on a socket."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from electra.foundation.signals import StopRequest
from electra.serving.app import make_app
from electra.serving.limits import Limits
from electra.serving.models import ServedModel
from electra.serving.web import LOOPBACK, address_of, is_local, serve_app


def serve(
    models: Sequence[ServedModel],
    listener: socket.socket,
    limits: Limits,
    *,
    say: Callable[[str], None],
    stop: StopRequest,
) -> int:
    """Serves models on a listening socket until `stop` is requested. Returns the exit code.

    Raises:
        ConfigError: the limit of open files is too low.
    """
    app = make_app(models, limits, (*LOOPBACK, address_of(listener)) if is_local(listener) else ("*",))
    for served in models:
        say(f"{served.name}: {', '.join(served.abilities)}")
    return serve_app(
        app,
        listener,
        say=say,
        stop=stop,
        connections=2 * limits.queue,
        on_deadline=app.state.batcher.refuse_all,
    )
