"""What every page of ours on a port needs: a socket, headers that keep it to itself, a graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from electra.errors import ConfigError
from electra.signals import StopRequest

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")  # names that a page of elsewhere cannot take on
GRACE = 30  # seconds in which requests that are being answered may end
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


def serve_app(
    app: ASGIApp, taken: socket.socket, *, say: Callable[[str], None], stop: StopRequest, **options: Any
) -> int:
    """Serve `app` on a listening socket until asked to stop, then answer what has arrived; the exit code.

    options: further settings of uvicorn.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE,
        **options,
    )
    say(f"http://{address_of(taken)}:{taken.getsockname()[1]}/ (Ctrl-C stops)")
    if not is_local(taken):
        say("note: this address can be reached from other machines, and nobody has to log in")
    with stop:
        asyncio.run(_until(stop, _Server(config), taken))
    say("stopped")
    return stop.exit_code


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
