"""No network but this machine's own: what a test looks up or connects to elsewhere is refused and kept."""

from __future__ import annotations

import ipaddress
import socket
import sys
from typing import Any

attempts: list[str] = []
"""What was refused; libraries may have swallowed the error."""
_WATCHED = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getaddrinfo": 0}  # where to


def is_here(place: Any) -> bool:
    """Whether an address, a host's name or the path of a Unix socket is on this machine."""
    host = place[0] if isinstance(place, tuple) else None if isinstance(place, str | bytes) else place
    if host in (None, "", b""):
        return True  # a Unix socket, or any address of this machine
    name = host.decode() if isinstance(host, bytes) else str(host)
    try:
        found = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return found.is_loopback or found.is_unspecified


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _WATCHED:
        return
    place, by_name = arguments[_WATCHED[event]], event == "socket.getaddrinfo"
    if is_here((place,) if by_name else place):
        return
    if not str(place).endswith(".invalid"):  # a name that no machine may have (RFC 2606)
        attempts.append(f"{event} {place!r}")
    raise (socket.gaierror if by_name else OSError)(f"{place!r}: tests use no network")


def block_network() -> None:
    """For the rest of this process: an audit hook stays. Programs that it starts are not held."""
    sys.addaudithook(_refuse)
