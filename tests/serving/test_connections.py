"""One client cannot stop the others: silent connections, handles that run out, a stop under load."""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from electra.foundation.signals import StopRequest
from electra.serving import web
from electra.serving.limits import DEFAULT
from electra.serving.models import ServedModel
from electra.serving.operations import Predict
from electra.serving.server import serve
from electra.testing import small

SOME = 20  # connections in these tests


@contextmanager
def server(served: list[ServedModel], **limits: Any) -> Iterator[int]:
    said: queue.Queue[str] = queue.Queue()
    stop = StopRequest()
    given = (served, web.listen("127.0.0.1", 0), replace(DEFAULT, **limits))
    thread = threading.Thread(target=serve, args=given, kwargs={"say": said.put, "stop": stop})
    thread.start()
    said.get(timeout=10)
    yield int(re.findall(r":(\d+)/", said.get(timeout=10))[0])
    stop.request()
    thread.join(timeout=10)
    assert not thread.is_alive()


def ask(port: int, path: str = "/healthz", body: Any = None) -> tuple[int, Any]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    data = None if body is None else json.dumps(body)
    client.request("GET" if body is None else "POST", path, data, {"content-type": "application/json"})
    answer = client.getresponse()
    found = answer.status, json.loads(answer.read())
    client.close()
    return found


def closed(taken: socket.socket) -> bool:
    """Whether the other side closes it, once what it sent is read."""
    taken.settimeout(5)
    try:
        while taken.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("sent", [b"", b"POST /embed HTTP/1.1\r\nhost: localhost\r\n"])
def test_idle_connections_are_evicted_for_new_ones(served: list[ServedModel], sent: bytes) -> None:
    with ExitStack() as open_, server(served, queue=SOME // 2) as port:
        for _ in range(SOME + 10):
            silent = open_.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            silent.sendall(sent)
        assert ask(port) == (200, {"status": "ok", "models": ["toy"]})


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\n",
    ],
)
def test_a_connection_without_a_complete_request_head_is_closed(
    served: list[ServedModel], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(web, "IDLE", 0.3)
    with server(served) as port, socket.create_connection(("127.0.0.1", port), timeout=5) as silent:
        silent.sendall(sent)
        if b"\r\n\r\n" in sent:
            assert silent.recv(1 << 16).startswith(b"HTTP/1.1 200")
        time.sleep(0.1)
        for _ in range(3):  # bytes that make no whole head do not keep it open
            with suppress(OSError):
                silent.sendall(b"x: y\r\n" if sent else b"")
            time.sleep(0.1)
        assert closed(silent)


def test_a_connection_that_does_not_read_its_response_is_closed(
    served: list[ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "IDLE", 0.5)
    with server(served) as port, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(5)
        deaf.connect(("127.0.0.1", port))
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 600)
        time.sleep(1.5)
        answers = b""
        with suppress(ConnectionResetError):
            while part := deaf.recv(1 << 20):
                answers += part
        assert answers.count(b"HTTP/1.1 200") < 600


def test_ids_count_within_a_request() -> None:
    together = Predict.model_validate_json('{"inputs": [{"text": "a"}, {"text": "b", "id": "mine"}]}')
    found = together.finish([{"id": "10", "label": "x"}, {"id": "mine", "label": "y"}])
    assert [row["id"] for row in found] == ["0", "mine"]
    tagged = Predict.model_validate_json('{"inputs": [["a", "b"], ["c"]]}')
    words = [{"words": [{"id": "7"}, {"id": "7"}]}, {"words": [{"id": "8"}]}]
    assert [[row["id"] for row in one["words"]] for one in tagged.finish(words)] == [["0", "0"], ["1"]]


@pytest.mark.slow
def test_few_file_handles_are_one_line_and_a_stop_under_load_is_in_time(tmp_path: Path) -> None:
    """As a process, because the limit of open files is one of a process."""
    folder = small.write_pair(tmp_path / "toy", "modern")
    program = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
    program += "from electra.commands.framework.main import main; from electra.serving import web\n"
    program += "web.GRACE = 2; sys.exit(main())"
    started = subprocess.Popen(
        [sys.executable, "-c", program, "serve", str(folder), "--port", "0", "--threads", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert started.stdout is not None
    try:
        lines = [started.stdout.readline() for _ in range(3)]
        port = int(re.findall(r"http://127\.0\.0\.1:(\d+)/", "".join(lines))[0])
        assert any("ulimit -n" in line for line in lines)
        with ExitStack() as open_:
            # Others connect faster than it accepts
            client = "import socket, sys; a = [socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5) "
            client += "for _ in range(400)]; print(flush=True); sys.stdin.read()"
            others = [
                open_.enter_context(
                    subprocess.Popen(
                        [sys.executable, "-S", "-c", client, str(port)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                    )
                )
                for _ in range(4)
            ]
            for other in others:
                assert other.stdout is not None and other.stdout.readline()
            assert ask(port)[0] == 200
            text = "the cat sat on the mat " * 60
            asked = [
                threading.Thread(
                    target=lambda: ask(port, "/detect", {"texts": [text], "scorer": "language-model"}),
                    daemon=True,
                )
                for _ in range(10)
            ]
            for one in asked:
                one.start()
            time.sleep(0.3)
            began = time.monotonic()
            started.send_signal(signal.SIGTERM)
            said, _ = started.communicate(timeout=15)
        assert started.returncode == 143 and time.monotonic() - began < 2 + 10  # 10 s before the limit of 30
        assert said.splitlines() == ["stopped"], "no warning: each connection took another's place"
    finally:
        started.kill()
        started.wait()
