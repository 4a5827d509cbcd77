"""The network interfaces of this machine, and which of them reaches another machine."""

from __future__ import annotations

import fcntl
import socket
import struct
from ipaddress import ip_address
from pathlib import Path

_SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface
_IPV6 = Path("/proc/net/if_inet6")


def local_address(host: str) -> str | None:
    """Returns the address of this machine on the route to `host`, or None if there is no route.

    Nothing is sent: connecting a UDP socket only chooses the route.
    """
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
    except OSError:
        pass
    return None


def interfaces() -> dict[str, set[str]]:
    """Returns the interfaces other than the loopback one, with their addresses; {} if they are not known."""
    addresses_by_interface: dict[str, set[str]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has no IPv4 address, or this is not Linux
                continue
            addresses_by_interface.setdefault(name, set()).add(socket.inet_ntoa(answer[20:24]))
    lines = _IPV6.read_text(encoding="ascii").splitlines() if _IPV6.is_file() else []
    for fields in map(str.split, lines):
        addresses_by_interface.setdefault(fields[-1], set()).add(str(ip_address(bytes.fromhex(fields[0]))))
    return {
        name: addresses
        for name, addresses in addresses_by_interface.items()
        if not all(ip_address(address).is_loopback for address in addresses)
    }


def interface_of(address: str) -> str | None:
    """Returns the interface with this address; None if none has it."""
    plain = address.partition("%")[0]  # without the zone of a link-local IPv6 address
    return next((name for name, addresses in interfaces().items() if plain in addresses), None)
