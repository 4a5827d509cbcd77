"""Blocks network access in tests, except to this machine; refused attempts are recorded."""

import ipaddress
import socket
import sys
from typing import Any

attempts: list[str] = []
"""The refused attempts; libraries may have swallowed the error."""
# Audit events, and the index of the address among their arguments.
_WATCHED = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getaddrinfo": 0}


def is_here(place: Any) -> bool:
    """Whether an address, a host name or the path of a Unix socket is on this machine."""
    host = place[0] if isinstance(place, tuple) else None if isinstance(place, str | bytes) else place
    if host in (None, "", b""):
        return True  # a Unix socket, or any address of this machine
    name = host.decode() if isinstance(host, bytes) else str(host)
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _WATCHED:
        return
    place, by_name = arguments[_WATCHED[event]], event == "socket.getaddrinfo"
    if is_here((place,) if by_name else place):
        return
    if not str(place).endswith(".invalid"):  # reserved: no machine has such a name (RFC 2606)
        attempts.append(f"{event} {place!r}")
    raise (socket.gaierror if by_name else OSError)(f"{place!r}: tests use no network")


def block_network() -> None:
    """Blocks network access for the rest of this process, but not of child processes."""
    sys.addaudithook(_refuse)
