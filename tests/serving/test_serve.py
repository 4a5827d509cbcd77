"""electra serve as a process: where it listens, how it stops, what it refuses to start with."""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from electra.commands.framework.main import main
from electra.foundation.errors import ConfigError
from electra.foundation.signals import StopRequest
from electra.serving.limits import DEFAULT
from electra.serving.models import ServedModel, open_models
from electra.serving.server import serve
from electra.serving.web import listen
from electra.testing import small


def test_a_port_in_use_is_one_line(address: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    port = address.rpartition(":")[2]
    folder = small.write_pair(tmp_path / "toy")
    assert main(["serve", str(folder), "--port", port]) == 2
    error = capfd.readouterr().err
    assert f"port {port} of 127.0.0.1 is in use" in error and "--port" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["missing"], "missing"),
        ([], "needs MODELS"),
        (["toy", "--port", "70000"], "from 0 to 65535, not 70000"),
        (["toy", "--host", "no.such.host.invalid"], "unknown address"),
        (["toy", "--queue", "0"], "--queue: must be above 0"),
        (["toy", "--threads", "0"], "--threads: must be from 1 to 1024, not 0"),
        (["toy", "--threads", "1000000"], "--threads: must be from 1 to 1024"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    options: Any,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    small.write_pair(tmp_path / "toy")
    assert main(["serve", *options]) == 2
    error = capfd.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from electra.commands.serve import serve as verb

    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    for name in ("server", "web"):
        monkeypatch.delitem(__import__("sys").modules, f"electra.serving.{name}")
    with pytest.raises(ConfigError, match=r"uvicorn is not installed.*\.\[serve\]"):
        verb(["toy"])


def test_requests_that_arrived_before_a_stop_are_answered(
    served: list[ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()
    detect = ServedModel.detect

    def slowly(self: ServedModel, *given: Any) -> Any:
        began.set()
        time.sleep(0.5)
        return detect(self, *given)

    monkeypatch.setattr(ServedModel, "detect", slowly)
    said: queue.Queue[str] = queue.Queue()
    stop, codes = StopRequest(), []
    options: dict[str, Any] = {"say": said.put, "stop": stop}
    thread = threading.Thread(
        target=lambda: codes.append(serve(served, listen("127.0.0.1", 0), DEFAULT, **options))
    )
    thread.start()
    said.get(timeout=10)
    base = said.get(timeout=10).partition("/ ")[0]
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(post(f"{base}/detect", {"texts": ["the cat"]})))
    asking.start()
    assert began.wait(10)
    stop.request()
    asking.join(10)
    thread.join(10)
    assert answers[0]["results"][0]["words"] and codes == [130]
    with pytest.raises(OSError):
        post(f"{base}/detect", {"texts": []})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_only_the_listening_address_is_accepted_as_host(served: list[ServedModel], host: str) -> None:
    try:
        taken = listen(host, 0)
    except ConfigError:
        pytest.skip(f"no address {host} on this machine")
    said: queue.Queue[str] = queue.Queue()
    stop = StopRequest()
    options: dict[str, Any] = {"say": said.put, "stop": stop}
    thread = threading.Thread(target=serve, args=(served, taken, DEFAULT), kwargs=options)
    thread.start()
    try:
        said.get(timeout=10)
        url = said.get(timeout=10).partition(" ")[0]
        with urllib.request.urlopen(f"{url}healthz", timeout=10) as answer:
            assert json.load(answer)["status"] == "ok"
        other = urllib.request.Request(f"{url}healthz", headers={"host": "elsewhere.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(other, timeout=10)
    finally:
        stop.request()
        thread.join(10)


def test_models_are_named_by_their_folders(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "toy", tmp_path / "b" / "toy", tmp_path / "c"]
    for path in paths:
        small.write_pair(path)
    assert [one.name for one in open_models(list(map(str, paths)))] == [*map(str, paths[:2]), "c"]


def test_a_public_address_prints_a_note(tmp_path: Path) -> None:
    with listen("localhost", 0) as taken:
        assert taken.getsockname()[0] in ("127.0.0.1", "::1")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        with pytest.raises(ConfigError, match="is in use"):
            listen("127.0.0.1", busy.getsockname()[1])


def post(url: str, body: Any) -> Any:
    headers = {"content-type": "application/json"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return json.load(answer)
