"""The first signal asks, the second one ends; and what a run says when its processes have
changed in number.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from electra.artifacts.run import RunFolder
from electra.foundation.signals import EXIT_CODES, StopRequest
from electra.testing import toy
from electra.training import loop
from electra.training.distributed import World
from electra.training.start import start

STUBBORN = """
import time
from electra.foundation.signals import StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    while not stop.received:
        time.sleep(0.01)
    print("asked", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", list(EXIT_CODES))
def test_the_second_signal_ends_the_process_at_once(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for expected in ("ready", "asked"):
            assert process.stdout.readline().strip() == expected
            process.send_signal(number)
        assert process.wait(10) == EXIT_CODES[number]


def test_signal_handlers_are_restored() -> None:
    before = {number: signal.getsignal(number) for number in EXIT_CODES}
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.received == signal.SIGUSR1 and stop.exit_code == 143
    assert {number: signal.getsignal(number) for number in EXIT_CODES} == before


@pytest.mark.slow
def test_resuming_with_another_number_of_processes_is_noted(tmp_path: Path) -> None:
    with start(toy.recipe(), tmp_path, toy.store(), World()) as run, StopRequest() as stop:
        assert loop.train(run, stop)
    folder = RunFolder(tmp_path)
    record = folder.record
    for part in (record["environment"], *record["environment"].get("parts", ())):
        part["processes"] = 2
    folder.write_record(record)
    shutil.rmtree(folder.saved_checkpoints()[0].path)  # the last: a step is left to do
    with start(toy.recipe(), tmp_path, toy.store(), World()):
        pass
    assert "processes 1 instead of 2: not bit-exact" in (tmp_path / "log.txt").read_text()
