"""A run from outside: how it is, what alarms, and curves of any length in few points."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledgers import add, event, held_out, train

pytest.importorskip("starlette", reason="needs the extra `serve`")

from starlette.testclient import TestClient

from electra.commands.cli.main import main
from electra.commands.watching.app import make_app
from electra.commands.watching.series import Series
from electra.commands.watching.watched import Watched
from electra.foundation import durable
from electra.serving.web import listen

Make = Callable[..., Path]


def seen(run: Path) -> dict[str, Any]:
    watched = Watched(run, run.name)
    watched.look()
    return watched.state()


def age(run: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(run / "metrics.jsonl", (then, then))


def test_how_a_run_is(make: Make) -> None:
    run = make("one", [train(step) for step in range(1, 20)])
    watched = Watched(run, "one")

    def state() -> dict[str, Any]:
        watched.look()
        return watched.state()

    assert state()["status"] == "training", "it may train on another machine"
    with durable.lock(run):
        age(run, 30)
        assert (state()["status"], state()["alarms"]) == ("training", [])
        age(run, 300)
        assert "No new line for 5 min" in state()["alarms"][0]["text"] and state()["status"] == "stalled"
        add(run, [train(20)])
        assert state()["status"] == "training" and state()["seconds_left"] == pytest.approx(98)
    assert state()["status"] == "killed", "at once: its process was there a moment ago"
    assert "step 20; its process is gone" in state()["alarms"][0]["text"]
    with durable.lock(run):
        add(run, [event(20, "resumed")])
        assert state()["status"] == "training"
    add(run, [event(20, "stopped")])
    assert state()["status"] == "stopped" and not state()["alarms"]
    add(run, [train(1000)])
    assert state()["status"] == "finished"


def test_a_run_that_was_killed_long_ago(make: Make) -> None:
    run = make("old", [train(1)])
    age(run, 3600)
    assert seen(run)["status"] == "killed"


def test_alarms(make: Make) -> None:
    rows = [train(step) for step in range(1, 20)]
    spike, collapse = event(7, "spike", "loss spike at 7"), event(9, "collapse", "collapse alarm at 9")
    assert seen(make("well", rows))["alarms"] == []
    told = seen(make("ill", [*rows, spike, collapse, train(20, float("nan"))]))["alarms"]
    assert [one["text"][:24] for one in told] == [
        "The loss is not a number",
        "collapse alarm at 9",
        "1 loss spike; the last: ",
    ]
    slow = [train(step, speed=300.0) for step in range(20, 26)]
    assert "300 tokens per second, where 1,000" in seen(make("slow", [*rows, *slow]))["alarms"][0]["text"]


def test_a_long_curve_takes_few_points_and_keeps_its_spike() -> None:
    series = Series(most=100)
    for step in range(12345):
        series.add(step, None, None, 50.0 if step == 777 else 1.0)
    drawn = series.columns()
    assert 50 <= len(drawn["step"]) <= 100 and drawn["step"][-1] == 12344
    assert max(drawn["high"]) == 50.0 and set(drawn["low"]) == {1.0}  # type: ignore[type-var]
    assert sum(bucket.count for bucket in series.buckets) == 12345


def test_only_what_is_new_is_sent(make: Make) -> None:
    runs = [make("a", [train(1), held_out(1, 0.5)]), make("b", [train(1)])]
    client = TestClient(make_app([Watched(run, run.name) for run in runs]), base_url="http://localhost")
    first = client.get("/state").json()
    assert [chart["key"] for chart in first["charts"]][:2] == ["eval.auc", "train.losses.rtd"]
    versions = ",".join(str(run["version"]) for run in first["runs"])
    add(runs[1], [train(2)])
    time.sleep(0.6)
    again = client.get(f"/state?seen={versions}").json()["runs"]
    assert "curves" not in again[0] and again[1]["curves"]["train.loss"]["step"] == [1, 2]
    assert client.get("/state", headers={"host": "elsewhere.example"}).status_code == 400
    assert client.post("/examples/0", headers={"origin": "https://elsewhere.example"}).status_code == 403
    assert client.post("/examples/0", headers={"origin": "http://localhost"}).status_code == 404
    assert "default-src 'none'" in client.get("/").headers["content-security-policy"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no run given"),
        (["gone"], "no such run folder"),
        (["."], "not a run folder"),
        (["one", "--port", "70000"], "from 0 to 65535"),
    ],
)
def test_wrong_input_is_one_line(
    make: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: Any, said: str
) -> None:
    monkeypatch.chdir(make("one", []).parent)
    assert main(["watch", *words]) == 2
    error = capfd.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_port_in_use_is_one_line(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert main(["watch", str(make("one", [])), "--port", port]) == 2
    error = capfd.readouterr().err
    assert f"port {port} of 127.0.0.1 is in use" in error and error.count("\n") == 1
