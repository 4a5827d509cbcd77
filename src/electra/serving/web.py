"""The HTTP server: socket, security headers, connection limits, graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import re
import resource
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from electra.foundation.errors import ConfigError
from electra.foundation.signals import StopRequest

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")  # Host headers that another site's page cannot send
GRACE = 20  # seconds that open requests have to finish after a stop request
CLOSE_AFTER_GRACE = 4  # seconds after GRACE until open connections are closed
IDLE = 15  # seconds within which a client must send a complete request head, or read its response
BACKLOG = 128  # length of the system's queue of connections that are not yet accepted
# Connections accepted per iteration of the event loop. An evicted connection releases its file handle four
# iterations after its successor is accepted.
ACCEPTED_PER_ITERATION = 16
SPARE_HANDLES = 4 * ACCEPTED_PER_ITERATION + 64  # file handles for evicted connections, files and logs
MIN_CONNECTIONS = 8
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class SecurityHeaders:
    """Middleware that adds HEADERS to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI connection."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = ((name.encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self.app(scope, receive, send_with_headers)


class AllowedHosts:
    """Middleware that rejects requests with a Host header outside `hosts` ("*": any is allowed).

    This stops DNS rebinding, where another site makes its own name resolve to this address.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI connection."""
        if scope["type"] == "http" and "*" not in self.hosts:
            name = re.sub(r":[0-9]*$", "", Headers(scope=scope).get("host", "")).lower()
            if name not in self.hosts:
                fix = f"Use {' or '.join(self.hosts)} in the URL"
                error = {"what": "the Host header names another host", "where": name, "fix": fix}
                await JSONResponse({"error": error}, 400)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket (port 0: any free port). Raises ConfigError if that fails."""
    if not 0 <= port <= 65535:  # the library would take it modulo 65536
        raise ConfigError(f"must be from 0 to 65535, not {port}", key="port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"unknown address {host!r}", key="host") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # from here on, another program that binds the port fails
    except OSError as problem:
        listener.close()
        if problem.errno == errno.EADDRINUSE:
            fix = "Stop the program that uses it, or choose another `port` (0: any free one)"
            raise ConfigError(f"port {port} of {host} is in use", key="port", fix=fix) from None
        raise ConfigError(f"cannot listen on {host}:{port} ({problem.strerror})", key="host") from None
    return listener


def is_local(listener: socket.socket) -> bool:
    """Whether the socket's address is a loopback address."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def address_of(listener: socket.socket) -> str:
    """Returns the socket's address as in a URL, with IPv6 addresses in brackets."""
    address = str(listener.getsockname()[0])
    return f"[{address}]" if ":" in address else address


def connection_limit(connections: int) -> int:
    """Returns how many connections the limit of open files allows, at most `connections`.

    Increases the process's soft limit if that helps.

    Raises:
        ConfigError: fewer than MIN_CONNECTIONS are possible.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    num_used = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else SPARE_HANDLES
    needed_limit = connections + num_used + SPARE_HANDLES
    if hard != resource.RLIM_INFINITY:
        needed_limit = min(needed_limit, hard)
    if soft != resource.RLIM_INFINITY and soft < needed_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed_limit, hard))
        soft = needed_limit
    limit = (
        connections if soft == resource.RLIM_INFINITY else min(connections, soft - num_used - SPARE_HANDLES)
    )
    if limit < MIN_CONNECTIONS:
        raise ConfigError(f"a limit of {soft} open files is too low to serve", fix="Raise it: ulimit -n 1024")
    return limit


def limited_protocol(max_connections: int) -> type[H11Protocol]:
    """Returns an HTTP protocol that keeps at most `max_connections` open.

    A further connection evicts the one that has been idle longest. A connection that sends no complete
    request head within IDLE seconds, or does not read its response, is closed.
    """
    idle: dict[Connection, None] = {}  # the longest idle first

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._timers: dict[str, asyncio.TimerHandle] = {}
            self._set_idle()
            if len(self.connections) > max_connections:
                oldest = next(iter(idle))
                del idle[oldest]  # connection_lost follows later; the next connection must evict another
                oldest.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._set_busy()
            self._stop_timer("write")
            super().connection_lost(exc)

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None and not self.cycle.response_complete:
                self._set_busy()

        def on_response_complete(self) -> None:
            self._set_idle()
            super().on_response_complete()  # which may start the next request

        def pause_writing(self) -> None:
            super().pause_writing()
            self._start_timer("write")

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_timer("write")

        def _set_idle(self) -> None:
            idle[self] = None
            self._start_timer("request")

        def _set_busy(self) -> None:
            idle.pop(self, None)
            self._stop_timer("request")

        def _start_timer(self, name: str) -> None:
            self._stop_timer(name)
            self._timers[name] = self.loop.call_later(IDLE, self.transport.abort)

        def _stop_timer(self, name: str) -> None:
            if name in self._timers:
                self._timers.pop(name).cancel()

    return Connection


def serve_app(
    app: ASGIApp,
    listener: socket.socket,
    *,
    say: Callable[[str], None],
    stop: StopRequest,
    connections: int = 256,
    on_deadline: Callable[[], None] = lambda: None,
) -> int:
    """Serves `app` until `stop` is requested, then finishes open requests. Returns the exit code.

    Args:
        app: any ASGI application.
        listener: a listening socket.
        say: prints one line.
        stop: the stop request, usually from a signal.
        connections: maximum number of open connections.
        on_deadline: called GRACE seconds after the stop request, to refuse unanswered requests.

    Raises:
        ConfigError: the limit of open files is too low.
    """
    limit = connection_limit(connections)
    config = uvicorn.Config(
        app,
        http=limited_protocol(limit),
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=ACCEPTED_PER_ITERATION,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=GRACE + CLOSE_AFTER_GRACE,
    )
    say(f"http://{address_of(listener)}:{listener.getsockname()[1]}/ (Ctrl-C stops)")
    if limit < connections:
        say(f"note: at most {limit} connections at a time, because of the limit of open files (ulimit -n)")
    if not is_local(listener):
        say("note: other machines can reach this address, and no login is required")
    with stop:
        asyncio.run(_run_until(stop, _Server(config), listener, say, on_deadline))
    say("stopped")
    return stop.exit_code


class _Server(uvicorn.Server):
    """A server that leaves signals to the caller, and queues more connections than it accepts at a time."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _run_until(
    stop: StopRequest,
    server: _Server,
    listener: socket.socket,
    say: Callable[[str], None],
    on_deadline: Callable[[], None],
) -> None:
    loop, last_warning = asyncio.get_running_loop(), -60.0

    def handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last_warning
        if getattr(context.get("exception"), "errno", None) not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif time.monotonic() - last_warning >= 60:
            last_warning = time.monotonic()
            say("warning: no file handle is free for another connection. Raise the limit (ulimit -n)")

    loop.set_exception_handler(handle_exception)
    server_task = asyncio.create_task(server.serve([listener]))
    while not server_task.done():
        await asyncio.wait([server_task], timeout=0.1)
        if stop() and not server.should_exit:
            server.should_exit = True
            loop.call_later(GRACE, on_deadline)
    await server_task
