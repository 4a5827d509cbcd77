"""A toy pair behind a real socket."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra `serve`")

from contracts import small

from electra.foundation.signals import StopRequest
from electra.serving.limits import Limits
from electra.serving.models import ServedModel, open_models
from electra.serving.server import listen, serve


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> list[ServedModel]:
    folder = small.write_pair(tmp_path_factory.mktemp("served") / "toy", "modern")
    [model] = open_models([str(folder)])
    discriminator = replace(model.networks.network("discriminator"), threshold=0.4)
    model.networks.loaded |= {"discriminator": discriminator, "encoder": discriminator}
    return [model]


@contextmanager
def running(
    served: list[ServedModel], host: str = "127.0.0.1", **limits: Any
) -> Iterator[tuple[str, Callable[[], int]]]:
    """The address of a server in a thread, and a function that stops it and returns its exit code."""
    said, codes, stopping = queue.Queue[str](), list[int](), StopRequest()
    options: dict[str, Any] = {"say": said.put, "stop": stopping}
    given = served, listen(host, 0), Limits(**limits)
    thread = threading.Thread(target=lambda: codes.append(serve(*given, **options)))
    thread.start()
    for each in served:
        assert said.get(timeout=10) == f"{each.name}: {', '.join(each.abilities)}"

    def stop() -> int:
        stopping.request()
        thread.join(timeout=30)
        return codes[0]

    yield said.get(timeout=10).partition("/ ")[0], stop
    assert stop() == 130 and said.get(timeout=1) == "stopped"


@pytest.fixture(scope="module")
def address(served: list[ServedModel]) -> Iterator[str]:
    """http://127.0.0.1:PORT of a server that lives for one file: others send this process signals."""
    with running(served) as (address, _):
        yield address
