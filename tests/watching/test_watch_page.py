"""The live page in a real browser: it grows with its runs, tells of a killed one, and works by keyboard."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ledgers import add, event, held_out, train

pytest.importorskip("selenium", reason="needs selenium")
pytest.importorskip("starlette", reason="needs the extra `serve`")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from electra.commands.watching.app import make_app
from electra.commands.watching.watched import Watched
from electra.foundation import durable
from electra.foundation.signals import StopRequest
from electra.serving.web import listen, serve_app

HOSTILE = "<img src=x onerror=fail()>"


@pytest.fixture
def runs(make: Callable[..., Path]) -> list[Path]:
    rows = [train(step, 4 - step / 50) for step in range(1, 60)]
    one = make("one", [held_out(0, 0.4), *rows, held_out(59, 0.7), event(59, "spike", HOSTILE)])
    row = {
        "original": HOSTILE,
        "masked": "[MASK]",
        "generated": HOSTILE,
        "label": "replaced",
        "p_replaced": 0.9,
    }
    (one / "examples.json").write_text(json.dumps([{"text": HOSTILE, "rows": [row]}]), encoding="utf-8")
    return [one, make(HOSTILE.replace("/", ""), rows[:30])]


@pytest.fixture
def page(browser: Any, runs: list[Path]) -> Iterator[Any]:
    said: queue.Queue[str] = queue.Queue()
    stop = StopRequest()
    app = make_app([Watched(run, run.name) for run in runs])
    thread = threading.Thread(
        target=serve_app, args=(app, listen("127.0.0.1", 0)), kwargs={"say": said.put, "stop": stop}
    )
    thread.start()
    with durable.lock(runs[0]):
        browser.get(said.get(timeout=10).partition(" ")[0])
        wait(browser, lambda: len(texts(browser, "figure svg polyline")) == 7)
        yield browser
    browser.get("about:blank")
    stop.ask()
    thread.join(timeout=20)
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors  # a violation of the policy is one


def wait(browser: Any, condition: Any) -> None:
    WebDriverWait(browser, 10, poll_frequency=0.1).until(lambda _: condition())


def texts(browser: Any, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    found: list[str] = browser.execute_script(script, selector)
    return found


def test_the_page_follows_its_runs(page: Any, runs: list[Path]) -> None:
    assert texts(page, ".pill") == ["training", "training"]
    assert texts(page, "figcaption b") == [
        "AUC",
        "Discriminator loss in training",
        "Total loss",
        "Throughput",
    ]
    add(runs[0], [train(60, 0.1234)])
    wait(page, lambda: "one 0.123" in texts(page, ".readout")[2])
    assert texts(page, ".said")[0].startswith("Step 60 of 1,000. Training; last line ")

    total = page.find_elements(By.CSS_SELECTOR, "figure svg")[2]
    page.execute_script("arguments[0].focus()", total)
    total.send_keys(Keys.HOME)
    assert texts(page, ".readout")[2].endswith("step 1") and "one 3.98" in texts(page, ".readout")[2]
    total.send_keys(Keys.ARROW_RIGHT)
    assert texts(page, ".readout")[2].endswith("step 2")
    page.find_element(By.CSS_SELECTOR, "#axis input").send_keys(Keys.ARROW_RIGHT)
    total.send_keys(Keys.END)
    assert texts(page, ".readout")[2].endswith("6,000 tokens"), "the axis is a choice by keyboard, too"
    page.find_elements(By.CSS_SELECTOR, ".shown input")[1].send_keys(Keys.SPACE)
    assert len(texts(page, "figure svg polyline")) == 4

    assert HOSTILE in texts(page, ".alarm-line")[0] and HOSTILE in texts(page, ".token")
    assert not page.find_elements(By.CSS_SELECTOR, "main img"), "text is never markup"

    phone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 400
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_a_process_that_is_killed_is_told(page: Any, runs: list[Path]) -> None:
    wait(page, lambda: "0 s ago" not in texts(page, ".said")[0])  # it was looked at while it lived
    (runs[0] / ".lock").unlink()  # as if the kernel had let go
    wait(page, lambda: texts(page, ".pill")[0] == "killed")
    assert "its process is gone" in texts(page, ".alarm-line.grave")[0]
