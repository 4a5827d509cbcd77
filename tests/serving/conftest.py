"""A toy pair behind a real socket, and a browser."""

from __future__ import annotations

import faulthandler
import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra `serve`")

from electra.foundation.signals import StopRequest
from electra.serving.limits import DEFAULT
from electra.serving.models import ServedModel, open_models
from electra.serving.server import serve
from electra.serving.web import listen
from electra.testing import small


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> list[ServedModel]:
    folder = small.write_pair(tmp_path_factory.mktemp("served") / "toy", "modern")
    [model] = open_models([str(folder)])
    assert model.discriminator is not None
    return [replace(model, discriminator=replace(model.discriminator, threshold=0.4))]


@pytest.fixture(scope="module")
def address(served: list[ServedModel]) -> Iterator[str]:
    """http://127.0.0.1:PORT of a server in a thread.

    Tests of other files that send this process a signal would stop it: it lives for one file.
    """
    said: queue.Queue[str] = queue.Queue()
    stop = StopRequest()
    options: dict[str, Any] = {"say": said.put, "stop": stop}
    thread = threading.Thread(target=serve, args=(served, listen("127.0.0.1", 0), DEFAULT), kwargs=options)
    thread.start()
    assert said.get(timeout=10) == "toy: detect, embed, fill, draw"
    yield said.get(timeout=10).partition("/ ")[0]
    stop.request()
    thread.join(timeout=30)  # as promised; requests that are being answered may take most of it
    if thread.is_alive():
        faulthandler.dump_traceback()  # what holds it
    assert not thread.is_alive() and said.get(timeout=1) == "stopped"
