"""The first signal asks, the second one ends."""

import os
import signal
import subprocess
import sys
import time

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


BUSY = """
import hashlib, sys
from contextlib import nullcontext
from electra.foundation.signals import StopRequest, answering, interrupt_on_signal, stops_after
cleans_up = lambda: interrupt_on_signal("a store")
works = {"saves": StopRequest, "leaves nothing": cleans_up, "says nothing": nullcontext}
with answering(), works[sys.argv[1]](), stops_after("this baseline"):
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)  # a library that computes for minutes in one call
"""


@pytest.mark.parametrize("work", ["saves", "leaves nothing", "says nothing"])
def test_a_library_that_computes_does_not_delay_the_answer(work: str) -> None:
    words = [sys.executable, "-c", BUSY, work]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        time.sleep(0.3)  # until the call has begun
        process.send_signal(signal.SIGINT)
        answer = process.stderr.readline()
        assert "again" in answer and ("this baseline" in answer) == (work == "saves")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130 and process.stderr.read().count("\n") == 1


def test_signal_handlers_are_restored() -> None:
    before = {number: signal.getsignal(number) for number in EXIT_CODES}
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.received == signal.SIGUSR1 and stop.exit_code == 143
    assert {number: signal.getsignal(number) for number in EXIT_CODES} == before
    assert signal.set_wakeup_fd(-1) == -1
