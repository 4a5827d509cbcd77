"""The guard of the test session refuses connections to other machines only."""

import socket
import urllib.request

import offline
import pytest

ELSEWHERE = "192.0.2.1"  # of documentation (RFC 5737): nobody's


def test_connections_to_other_machines_are_refused_and_recorded() -> None:
    with socket.socket() as one, pytest.raises(OSError):
        one.connect((ELSEWHERE, 80))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, pytest.raises(OSError):
        one.sendto(b"x", (ELSEWHERE, 53))
    with pytest.raises(OSError):
        socket.getaddrinfo("example.org", 443)
    with pytest.raises(OSError):
        urllib.request.urlopen("http://example.org/")
    assert len(offline.attempts) == 4
    offline.attempts.clear()


def test_connections_to_this_machine_are_allowed() -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        for host in ("localhost", "127.0.0.1"):
            socket.create_connection((host, port)).close()
    for one in socket.socketpair():
        one.close()
    assert offline.is_here("/tmp/a.socket") and offline.is_here(("::1", 1, 0, 0))
    assert not offline.is_here(("::2", 1))
