"""The first signal asks, the second one ends; and what a run says when its processes have
changed in number.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from electra.foundation.signals import EXIT_CODES, StopRequest

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
