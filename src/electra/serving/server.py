"""The process: a socket, signals, a graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn

from electra.errors import ConfigError
from electra.serving.app import make_app
from electra.serving.limits import Limits
from electra.serving.models import Served
from electra.signals import StopRequest

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
GRACE = 30  # seconds in which requests that are being answered may end


def serve(
    models: Sequence[Served],
    taken: socket.socket,
    limits: Limits,
    *,
    say: Callable[[str], None],
    stop: StopRequest,
) -> int:
    """Serve on a listening socket until asked to stop, then answer what has arrived; the exit code."""
    address, number = taken.getsockname()[:2]
    local = ipaddress.ip_address(address).is_loopback
    config = uvicorn.Config(
        make_app(models, limits, LOOPBACK if local else ("*",)),
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=2 * limits.queue,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE,
    )
    shown = f"[{address}]" if ":" in address else address
    for served in models:
        say(f"{served.name}: {', '.join(served.abilities)}")
    say(f"http://{shown}:{number}/ (Ctrl-C stops)")
    if not local:
        say("note: this address can be reached from other machines, and nobody has to log in")
    with stop:
        asyncio.run(_until(stop, _Server(config), taken))
    say("stopped")
    return stop.exit_code


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or one line on why there is none."""
    if not 0 <= port <= 65535:  # the library would take it modulo 65536
        raise ConfigError(f"must be from 0 to 65535, not {port}", key="port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"unknown address {host!r}", key="host") from None
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen()  # whoever takes the port a moment later is told, not we
    except OSError as problem:
        taken.close()
        if problem.errno == errno.EADDRINUSE:
            fix = "Stop the program that uses it, or choose another `port` (0: any free one)"
            raise ConfigError(f"port {port} of {host} is in use", key="port", fix=fix) from None
        raise ConfigError(f"cannot listen on {host}:{port} ({problem.strerror})", key="host") from None
    return taken


class _Server(uvicorn.Server):
    """Leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _until(stop: StopRequest, server: _Server, taken: socket.socket) -> None:
    serving = asyncio.create_task(server.serve([taken]))
    while not serving.done():
        await asyncio.wait([serving], timeout=0.1)
        server.should_exit = server.should_exit or stop()
    await serving
