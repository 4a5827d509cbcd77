"""Trains in this process, or in several of this machine, which torch's launcher starts.

Each of them runs `main` with a file that says what to train; under torchrun, each runs the command itself.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.run import RunFolder
from electra.commands.framework.display import Display, Terminal
from electra.commands.parts.train import Origin, Text, open_store, train_here
from electra.foundation import machine
from electra.foundation.errors import (
    ConfigError,
    ElectraError,
    Interrupted,
    LostProcess,
    RunFailed,
    from_json,
    out_of_memory,
)
from electra.foundation.machine import is_distributed
from electra.foundation.signals import EXIT_CODES, describe_exit
from electra.training.recipe import Recipe, make_recipe

if TYPE_CHECKING:
    from electra.commands.results.run import Run

SIGNALS = "SIGTERM,SIGINT,SIGUSR1"  # passed on to the processes, which save and end
SAVING_SECONDS = 300  # for them to do so
FAILED = "failed.jsonl"  # in the folder of a job: the errors that ended processes, one per line
_ROOT = str(Path(__file__).parents[3])
_START = f"import sys; sys.path.append({_ROOT!r}); from electra.commands.parts import processes as p; "


def run_training(
    recipe: Recipe, text: Text, out: Path, origin: Origin, display: Display, *, processes: int
) -> Run:
    """Trains in the run folder `out`, in this process or in several, or resumes. Returns the run.

    `recipe` is complete. Raises ConfigError if the processes cannot share a batch evenly.
    """
    from electra.commands.results.run import Run
    from electra.exchange.trackers import require_tracker
    from electra.training.record import read_record

    if origin.track is not None:
        require_tracker(origin.track)
    read_record(out)  # rejects a folder with something else in it before anything is written there
    if processes < 1 or recipe.training.batch_size % processes:
        problem = f"{processes} processes cannot share a batch of {recipe.training.batch_size} rows"
        raise ConfigError(problem, key="processes", fix="Use a number that divides `training.batch_size`")
    if processes == 1 or is_distributed():
        train_here(recipe, text, out, origin, display)
    else:
        with RunFolder(out).session(say=display.say, stop=lambda: False):
            place = open_store(text, recipe, out, display).place
        prepared = replace(text, corpus=(), settings=(), store=place)
        job = {"recipe": recipe.to_sections(), "text": asdict(prepared), "origin": asdict(origin)}
        train_in_processes({**job, "out": str(out)}, processes, out, display)
    return Run(out)


def train_in_processes(job: Mapping[str, Any], processes: int, out: Path, display: Display) -> None:
    """Calls `train_job(job)` in several processes, which share each batch.

    Raises the error of the first that fails, or Interrupted if they were told to stop and have saved.
    """
    with tempfile.TemporaryDirectory(prefix="electra-launch-") as name:
        folder = Path(name)
        said = None if isinstance(display, Terminal) else folder / "said.txt"
        whole = {**job, "launcher": os.getpid(), "said": said and str(said)}
        (folder / "job.json").write_text(json.dumps(whole))
        with _following(said, display):
            exit_codes, stopped_by = _launch(folder, processes)
        lines = (folder / FAILED).read_text().splitlines() if (folder / FAILED).exists() else []
    errors = [from_json(json.loads(line)) for line in lines]
    if causes := [error for error in errors if not isinstance(error, LostProcess)]:
        raise causes[0]
    killed = {rank: code for rank, code in exit_codes.items() if code < 0 and -code != signal.SIGTERM}
    if killed and not stopped_by:
        rank, code = next(iter(killed.items()))
        ending, cause = describe_exit(code)
        problem = f"process {rank} of {processes} {ending}{', ' * bool(cause)}{cause}"
        raise RunFailed(problem, where=out, fix="Rerun to resume")
    if errors:
        raise errors[0]
    stops = [code for code in exit_codes.values() if code in EXIT_CODES.values()]
    if stopped_by or stops:
        raise Interrupted(out, EXIT_CODES.get(stopped_by, 0) if stopped_by else stops[0])
    if exit_codes:
        raise RunFailed(f"a process ended with code {next(iter(exit_codes.values()))}", where=out)


def _launch(folder: Path, processes: int) -> tuple[dict[int, int], signal.Signals | None]:
    """Runs the processes. Returns the exit codes of those that failed, and the signal that stopped them."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=folder.name,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        logs_specs=DefaultLogsSpecs(
            log_dir=str(folder / "logs"), redirects=dict.fromkeys(range(1, processes), Std.ALL)
        ),
        signals_to_handle=SIGNALS,
        shutdown_timeout=SAVING_SECONDS,
    )
    words = ["-P", "-c", f"{_START}sys.exit(p.main(sys.argv[1]))", str(folder / "job.json")]
    with _prepared(processes):
        try:
            elastic_launch(config, sys.executable)(*words)
        except SignalException as stop:
            return {}, stop.sigval
        except ChildFailedError as failed:
            ordered = sorted(failed.failures.items(), key=lambda failure: failure[1].timestamp)
            return {rank: failure.exitcode for rank, failure in ordered}, None
    return {}, None


@contextmanager
def _prepared(processes: int) -> Iterator[None]:
    """Shares the cores and silences the launcher, which repeats errors; restores what it changes."""
    threads = {"OMP_NUM_THREADS": str(max(1, machine.cores() // processes))}
    path = os.pathsep.join(os.path.abspath(each) for each in sys.path if each)
    changed = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "PYTHONPATH")}
    handled = [getattr(signal, name) for name in SIGNALS.split(",")]
    in_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in handled if in_main}
    os.environ.update({**threads, **os.environ, "PYTHONPATH": path})
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        for name, value in changed.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _following(file: Path | None, display: Display) -> Iterator[None]:
    """Passes the lines that are added to a file on to the display."""
    if file is None:
        yield
        return
    file.touch()
    ended = threading.Event()

    def follow() -> None:
        with file.open(encoding="utf-8", errors="replace") as lines:
            while True:
                is_last = ended.is_set()
                for line in lines:
                    display.say(line.rstrip())
                if is_last:
                    return
                time.sleep(0.1)

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()


def train_job(job: Mapping[str, Any], display: Display) -> None:
    """Trains as one of the processes that share what `run_training` made."""
    text, origin = Text(**job["text"]), Origin(**job["origin"])
    train_here(make_recipe(job["recipe"]), text, Path(job["out"]), origin, display)


def main(file: str) -> int:
    """Trains as one of the processes that share a job; returns the exit code."""
    path = Path(file)
    job = json.loads(path.read_text())
    _end_with(job["launcher"])
    if job["said"] and machine.launch_variable("RANK") == 0:
        sys.stdout = open(job["said"], "a", buffering=1, encoding="utf-8")  # noqa: SIM115
    try:
        with Terminal() as display:
            train_job(job, display)
    except Interrupted as stop:
        return stop.exit_code
    except BaseException as raised:
        error = raised if isinstance(raised, ElectraError) else out_of_memory(raised)
        if error is None:
            traceback.print_exc()
            error = RunFailed("".join(traceback.format_exception_only(raised)).strip(), where=job["out"])
        with open(path.with_name(FAILED), "a", encoding="utf-8") as failed:
            failed.write(json.dumps(error.to_json()) + "\n")
    else:
        return 0
    sys.stderr.flush()
    os._exit(error.exit_code)  # no collective can finish any more: exit at once; the launcher ends the others


def _end_with(launcher: int) -> None:
    """Makes this process end when its launcher dies: at once if it is already gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != launcher:
        os._exit(EXIT_CODES[signal.SIGTERM])
