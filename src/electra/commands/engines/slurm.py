"""Slurm: the copies are the tasks of one job array."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from electra.foundation import durable
from electra.foundation.errors import ConfigError, Interrupted, RunFailed
from electra.foundation.progress import Say

POLL_SECONDS = 0.2


def run(
    command: Sequence[str],
    copies: int,
    *,
    folder: Path,
    options: Sequence[str],
    say: Say,
    stop: Callable[[], bool],
) -> None:
    """Submits the array with `sbatch --wait`; `options` are those of sbatch, such as --partition=gpu.

    Raises:
        ConfigError: sbatch is not installed, or rejects the job.
        Interrupted: the user stopped; the array is cancelled.
        RunFailed: sbatch was killed.
    """
    if shutil.which("sbatch") is None:
        fix = "Run the command on the login node, or use `engine=local` on each machine"
        raise ConfigError("sbatch is not installed here", key="engine", fix=fix)
    logs = folder / ".engine"
    with durable.explain_disk_errors(logs):
        durable.make_folder(logs)
    script = f"#!/bin/sh\ncd {shlex.quote(os.getcwd())} && exec {shlex.join(command)}\n"
    words = ["sbatch", "--parsable", "--wait", f"--array=0-{copies - 1}", "--job-name=electra"]
    words += [f"--output={logs}/%A_%a.log", *options]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as sbatch:
        assert sbatch.stdin is not None and sbatch.stdout is not None and sbatch.stderr is not None
        sbatch.stdin.write(script)
        sbatch.stdin.close()
        job = sbatch.stdout.readline().strip().partition(";")[0]
        if not job:
            problem = (sbatch.stderr.read().strip().splitlines() or ["no job number"])[-1]
            raise ConfigError(f"sbatch: {problem}", key="engine_options", fix="Check the options")
        say(f"slurm job {job}: {copies} copies, logs in {logs}")
        while sbatch.poll() is None:
            if stop():
                subprocess.run(["scancel", job], check=False)
                sbatch.terminate()
                raise Interrupted(folder)
            time.sleep(POLL_SECONDS)
        if sbatch.returncode < 0:
            raise RunFailed("sbatch was killed", where=f"slurm job {job}", fix=f"See {logs}")
        if sbatch.returncode:
            say(f"slurm job {job}: a copy ended with exit code {sbatch.returncode}; see {logs}")
