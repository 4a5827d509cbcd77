"""What every page of ours on a port needs: a socket, headers that keep it to itself, a graceful stop."""

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

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")  # names that a page of elsewhere cannot take on
GRACE = 20  # seconds in which requests that are being answered may end
CUT_OFF = 4  # seconds later, connections that are still open are closed
IDLE = 15  # seconds in which a connection must send a whole request head, or read what it is sent
WAITING = 128  # connections that the system keeps until they are accepted
# Connections accepted in one turn of the event loop. The one whose place a new connection takes gives its
# handle back four turns after that one was accepted.
AT_ONCE = 16
SPARE = 4 * AT_ONCE + 64  # file handles for those, for files and for the logs
FEWEST = 8  # connections below which it is not worth serving
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class WithHeaders:
    """Puts the headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = ((name.encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self.app(scope, receive, with_headers)


class ForHosts:
    """Refuses what is addressed to another name than `hosts` ("*": any): a page of elsewhere may have made
    its name point here.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and "*" not in self.hosts:
            name = re.sub(r":[0-9]*$", "", Headers(scope=scope).get("host", "")).lower()
            if name not in self.hosts:
                fix = f"Ask for {' or '.join(self.hosts)}"
                told = {"what": "addressed to another host", "where": name, "fix": fix}
                await JSONResponse({"error": told}, 400)(scope, receive, send)
                return
        await self.app(scope, receive, send)


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


def is_local(taken: socket.socket) -> bool:
    """Whether only this machine can connect."""
    return ipaddress.ip_address(taken.getsockname()[0]).is_loopback


def address_of(taken: socket.socket) -> str:
    """Its address, as it stands in a URL."""
    address = str(taken.getsockname()[0])
    return f"[{address}]" if ":" in address else address


def connections_for(wanted: int) -> int:
    """How many connections the limit of open files allows, at most `wanted`; it is raised if it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else SPARE
    needed = wanted + used + SPARE
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        soft = needed
    found = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft - used - SPARE)
    if found < FEWEST:
        raise ConfigError(f"a limit of {soft} open files is too low to serve", fix="Raise it: ulimit -n 1024")
    return found


def bounded(most: int) -> type[H11Protocol]:
    """Connections, at most so many: a further one takes the place of the one that has been idle longest. One
    that sends no whole request head in time, or does not read its answer, is closed.
    """
    idle: dict[Connection, None] = {}  # the longest idle first

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._clocks: dict[str, asyncio.TimerHandle] = {}
            self._waits()
            if len(self.connections) > most:
                oldest = next(iter(idle))
                del idle[oldest]  # it is lost a moment later, and the next connection takes another's place
                oldest.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._goes_on()
            self._stop("reading")
            super().connection_lost(exc)

        def handle_events(self) -> None:
            super().handle_events()
            if self.cycle is not None and not self.cycle.response_complete:
                self._goes_on()

        def on_response_complete(self) -> None:
            self._waits()
            super().on_response_complete()  # which may begin the next request

        def pause_writing(self) -> None:
            super().pause_writing()
            self._start("reading")

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop("reading")

        def _waits(self) -> None:
            idle[self] = None
            self._start("asking")

        def _goes_on(self) -> None:
            idle.pop(self, None)
            self._stop("asking")

        def _start(self, what: str) -> None:
            self._stop(what)
            self._clocks[what] = self.loop.call_later(IDLE, self.transport.abort)

        def _stop(self, what: str) -> None:
            if what in self._clocks:
                self._clocks.pop(what).cancel()

    return Connection


def serve_app(
    app: ASGIApp,
    taken: socket.socket,
    *,
    say: Callable[[str], None],
    stop: StopRequest,
    connections: int = 256,
    at_last: Callable[[], None] = lambda: None,
) -> int:
    """Serve `app` on a listening socket until asked to stop, then answer what has arrived; the exit code.

    connections: how many may be open.
    at_last:     what to do when GRACE is over: to refuse what is not answered.
    """
    allowed = connections_for(connections)
    config = uvicorn.Config(
        app,
        http=bounded(allowed),
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=AT_ONCE,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=GRACE + CUT_OFF,
    )
    say(f"http://{address_of(taken)}:{taken.getsockname()[1]}/ (Ctrl-C stops)")
    if allowed < connections:
        say(f"note: at most {allowed} connections at a time, by the limit of open files (ulimit -n)")
    if not is_local(taken):
        say("note: this address can be reached from other machines, and nobody has to log in")
    with stop:
        asyncio.run(_until(stop, _Server(config), taken, say, at_last))
    say("stopped")
    return stop.exit_code


class _Server(uvicorn.Server):
    """Leaves signals to us, and lets more connections wait than it accepts at once."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(WAITING)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _until(
    stop: StopRequest,
    server: _Server,
    taken: socket.socket,
    say: Callable[[str], None],
    at_last: Callable[[], None],
) -> None:
    loop, told = asyncio.get_running_loop(), -60.0

    def problem(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal told
        if getattr(context.get("exception"), "errno", None) not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif time.monotonic() - told >= 60:
            told = time.monotonic()
            say("warning: no file handle is free for another connection. Raise the limit (ulimit -n)")

    loop.set_exception_handler(problem)
    serving = asyncio.create_task(server.serve([taken]))
    while not serving.done():
        await asyncio.wait([serving], timeout=0.1)
        if stop() and not server.should_exit:
            server.should_exit = True
            loop.call_later(GRACE, at_last)
    await serving
