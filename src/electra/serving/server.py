"""Serves models on a socket, within uvicorn's limits."""

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from typing_extensions import override

from electra.foundation.errors import ConfigError
from electra.foundation.signals import StopRequest
from electra.serving.app import make_app
from electra.serving.limits import Limits
from electra.serving.models import ServedModel

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")  # Host headers that another site's page cannot send
GRACE = 20  # seconds that open requests have to finish after a stop request
IDLE = 15  # seconds after which a connection without a request is closed


def listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket (port 0: any free port). Raises ConfigError if that fails."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"must be from 0 to 65535, not {port}", key="port")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as problem:
        what = f"cannot listen on {host}, port {port} ({getattr(problem, 'strerror', None) or problem})"
        fix = "Choose another `host` or `port` (0: any free one)"
        raise ConfigError(what, key="port", fix=fix) from None


def serve(
    models: Sequence[ServedModel],
    listener: socket.socket,
    limits: Limits,
    *,
    say: Callable[[str], None],
    stop: StopRequest,
) -> int:
    """Serves models until `stop` is requested, finishes open requests, and returns the exit code."""
    address, port = listener.getsockname()[:2]
    is_local = ipaddress.ip_address(address).is_loopback
    shown = f"[{address}]" if ":" in address else str(address)
    for served in models:
        say(f"{served.name}: {', '.join(served.abilities)}")
    say(f"http://{shown}:{port}/ (Ctrl-C stops)")
    if not is_local:
        say("note: other machines can reach this address, and no login is required")
    config = uvicorn.Config(
        make_app(models, limits, (*LOOPBACK, address, shown) if is_local else ("*",)),
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=2 * limits.queue,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=GRACE,
    )
    with stop:
        _Server(config, stop).run(sockets=[listener])
    say("stopped")
    return stop.exit_code


class _Server(uvicorn.Server):
    """A server that leaves signals to the caller."""

    def __init__(self, config: uvicorn.Config, stop: StopRequest) -> None:
        super().__init__(config)
        self._stop = stop

    @override
    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._stop()

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
