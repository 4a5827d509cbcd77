"""Models, served on a socket."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from electra.foundation.signals import StopRequest
from electra.serving.app import make_app
from electra.serving.limits import Limits
from electra.serving.models import Served
from electra.serving.web import LOOPBACK, address_of, is_local, serve_app


def serve(
    models: Sequence[Served],
    taken: socket.socket,
    limits: Limits,
    *,
    say: Callable[[str], None],
    stop: StopRequest,
) -> int:
    """Serve on a listening socket until asked to stop; the exit code."""
    app = make_app(models, limits, (*LOOPBACK, address_of(taken)) if is_local(taken) else ("*",))
    for served in models:
        say(f"{served.name}: {', '.join(served.abilities)}")
    return serve_app(
        app, taken, say=say, stop=stop, connections=2 * limits.queue, at_last=app.state.batcher.refuse_all
    )
