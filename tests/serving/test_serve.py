"""electra serve: where it listens, how it stops, what it refuses to start with."""

import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from contracts import small
from serving.conftest import running

from electra.commands.framework.main import main
from electra.foundation.errors import ConfigError
from electra.serving.models import ServedModel
from electra.serving.operations import DetectRequest
from electra.serving.server import listen


def ask(url: str, body: Any = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


@pytest.mark.parametrize(
    "words",
    [
        ["missing"],
        [],
        ["toy", "--port", "70000"],
        ["toy", "--port", "BUSY"],
        ["toy", "--host", "no.such.host.invalid"],
        ["toy", "--queue", "0"],
        ["toy", "--threads", "0"],
        ["toy", "--threads", "1000000"],
    ],
)
def test_wrong_input_is_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small.write_pair(tmp_path / "toy")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        assert main(["serve", *(port if word == "BUSY" else word for word in words)]) == 2
    error = capfd.readouterr().err
    assert (words[-2:] or ["model"])[0].strip("-") in error.lower() and error.count("\n") == 1


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from electra.commands.serve import serve

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "electra.serving.server")
    with pytest.raises(ConfigError, match=r"uvicorn.*\.\[serve\]"):
        serve(["toy"])


def test_requests_that_arrived_before_a_stop_are_answered(
    served: list[ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    began, work = threading.Event(), DetectRequest.work
    answers: list[Any] = []

    def slowly(self: DetectRequest, *given: Any) -> Any:
        began.set()
        time.sleep(0.5)
        return work(self, *given)

    monkeypatch.setattr(DetectRequest, "work", slowly)
    with running(served) as (address, stop):
        body = {"texts": ["the cat"]}
        asking = threading.Thread(target=lambda: answers.append(ask(f"{address}/detect", body)))
        asking.start()
        assert began.wait(10)
        assert stop() == 130
        asking.join(10)
        assert answers[0]["results"][0]["words"]
        with pytest.raises(OSError):
            ask(f"{address}/detect", {"texts": []})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_only_the_listening_address_is_accepted_as_host(served: list[ServedModel], host: str) -> None:
    try:
        listen(host, 0).close()
    except ConfigError:
        pytest.skip(f"no address {host} on this machine")
    with running(served, host) as (address, _):
        assert ask(f"{address}/healthz") == {"status": "ok", "models": ["toy"]}
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(f"{address}/healthz", host="elsewhere.example")


def test_more_connections_than_the_limit_are_refused(served: list[ServedModel]) -> None:
    with running(served, queue=2) as (address, _):
        port = int(address.rpartition(":")[2])
        silent = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(6)]
        time.sleep(0.2)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            ask(f"{address}/healthz")
        for each in silent:
            each.close()
        time.sleep(0.2)
        assert ask(f"{address}/healthz")["status"] == "ok"
