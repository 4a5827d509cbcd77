"""Ray: the copies are tasks on a running cluster."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from electra.foundation.errors import ConfigError, Interrupted, reason_of
from electra.foundation.machine import library
from electra.foundation.progress import Say

POLL_SECONDS = 0.2
SECONDS_TO_CONNECT = 10.0
MAX_SHOWN = 2000  # characters shown of the end of a failed copy's output


def run(
    command: Sequence[str],
    copies: int,
    *,
    folder: Path,
    options: Sequence[str],
    say: Say,
    stop: Callable[[], bool],
) -> None:
    """Runs the copies as tasks on the cluster at RAY_ADDRESS (default: this machine's).

    `options` are the resources that each task needs, such as num_cpus=4 or num_gpus=1. A task whose node is
    lost is restarted on another node.

    Raises:
        ConfigError: Ray is not installed, there is no cluster, or an option is not a number.
        Interrupted: the user stopped; the tasks are cancelled.
    """
    ray = library("ray", "ray", key="engine")
    resources = dict(map(_resource, options))
    address = os.environ.get("RAY_ADDRESS", "auto")
    try:
        _connect(address)
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        problem = f"no Ray cluster at {address} ({reason_of(error)})"
        fix = "Start one (ray start --head), or set RAY_ADDRESS"
        raise ConfigError(problem, key="engine", fix=fix) from None
    try:
        start = ray.remote(max_retries=-1, **resources)(run_copy).remote
        running = [start(list(command), os.getcwd()) for _ in range(copies)]
        say(f"Ray at {address}: {copies} copies")
        while running:
            ended, running = ray.wait(running, timeout=POLL_SECONDS)
            for result in map(ray.get, ended):
                if result:
                    say(f"a copy failed: {result}")
            if stop():
                for task in running:
                    ray.cancel(task)
                ray.wait(running, num_returns=len(running), timeout=30)
                raise Interrupted(folder)
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    """Raises OSError if nothing listens at a host:port; Ray itself would take minutes to notice."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()


def run_copy(command: Sequence[str], folder: str) -> str:
    """Runs the command in `folder`. Returns its exit code and last output if it failed, else ""."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            output, _ = process.communicate()
        except BaseException:  # cancelled: let the command save its work and end
            process.terminate()
            process.wait()
            raise
    return f"exit code {process.returncode}: {output[-MAX_SHOWN:].strip()}" if process.returncode else ""


def _resource(word: str) -> tuple[str, Any]:
    name, _, value = word.partition("=")
    try:
        return name, float(value)
    except ValueError:
        fix = "Write NAME=NUMBER, such as num_cpus=4"
        raise ConfigError(f"not an option of a Ray task: {word!r}", key="engine_options", fix=fix) from None
