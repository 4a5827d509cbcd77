"""Runs jobs in child processes, a few at a time.

    for job in run_parallel(jobs, 2, threads=4, say=say, stop=stop):
        job.state, job.result, job.error      # each as it ends

The work of a job is a module-level function, called as `work(*arguments, say=say, stop=stop)`. When `stop()`
becomes true, it saves its state and raises `Interrupted`. A job that fails, or whose process is killed, does
not affect the others.

    for result in map_in_order(make, arguments, items, processes):
        result                                # make(*arguments)(item) for each item, in order

Each child is connected to this process by a socket. When the socket closes, however this process ended, the
job is asked to stop. Ctrl-C reaches this process only, because the children are in process groups of their
own. They import neither the caller's `__main__` nor anything from the working directory.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.foundation import durable
from electra.foundation.claims import Claims, Job, State
from electra.foundation.errors import ElectraError, Interrupted, RunFailed, out_of_memory
from electra.foundation.leases import Leases
from electra.foundation.progress import Say
from electra.foundation.signals import Stop, StopRequest, describe_exit

if TYPE_CHECKING:  # every --help imports this module
    from multiprocessing.connection import Connection

POLL_SECONDS = 0.2
_ROOT = str(Path(__file__).parents[2])
_RUN = (
    f"import sys; {_ROOT!r} in sys.path or sys.path.append({_ROOT!r}); import runpy;"
    " sys.argv.pop(0); runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def command(module: str, *arguments: str) -> list[str]:
    """Returns a command line that runs a module of this package in another process.

    Unlike `python -m`, it keeps the working directory out of the import path: a file there may have the name
    of a module that we import.
    """
    return [sys.executable, "-P", "-c", _RUN, module, *arguments]


def environment(**more: object) -> dict[str, str]:
    """Returns the environment for a process started with `command`: that of this process, and `more`.

    PYTHONPATH keeps only the entries that are in `sys.path`, made absolute, because an empty or relative
    entry depends on the working directory.
    """
    folders = map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    path = {"PYTHONPATH": os.pathsep.join(folder for folder in folders if folder in sys.path)}
    return {**os.environ, **path, **{name: str(value) for name, value in more.items()}}


def run_in_turn(jobs: Iterable[Job] | Claims, *, say: Say, stop: Stop) -> Iterator[Job]:
    """Runs jobs one after the other in this process, until asked to stop; yields each when it has ended."""
    claims = jobs if isinstance(jobs, Claims) else Claims(jobs)
    while claims.has_jobs and not stop():
        done_elsewhere, job = claims.take()
        is_ours = False
        try:
            yield from done_elsewhere
            if job is not None:
                job.state = "running"
                stop_or_lost = partial(_either, stop, partial(claims.lost, job))
                job.state, job.result, job.error = _perform(job.work, job.arguments, say, stop_or_lost)
        finally:  # the caller may have closed this generator
            is_ours = job is not None and claims.release(job)
        if is_ours and job is not None:
            yield job
        elif job is None and claims.has_jobs:
            time.sleep(POLL_SECONDS)


class HeldElsewhere(Exception):
    """Raised when other processes are working on everything that remains to be done."""


class SharedWork:
    """Runs pieces of work in this process, sharing them with other processes that use the same folder.

    Args:
        leases: record which process works on which piece.
        say: receives the lines that the work prints.
        stop: returns whether to stop.
        wait: whether to wait for pieces that others hold, and to take over those of processes that died.
    """

    def __init__(self, leases: Leases, say: Say, stop: Stop, wait: bool = True) -> None:
        self.leases, self.say, self.stop, self.wait = leases, say, stop, wait

    def run(self, pieces: Mapping[str, Callable[..., Any]], done: Callable[[str], bool]) -> Iterator[str]:
        """Runs the pieces that are not done, in their order; yields the name of each when it is done.

        Each is called as `work(say=say, stop=stop)`, and raises Interrupted if `stop()` becomes true. `done`
        returns whether the result of the piece with this name exists.

        Raises:
            ElectraError: a piece failed.
            Interrupted: a stop was requested.
            HeldElsewhere: other processes hold the remaining pieces, and `wait` is False.
        """
        jobs = [Job(name, work) for name, work in pieces.items() if not done(name)]
        claims = Claims(jobs, self.leases, lambda job: done(job.name), wait=self.wait)
        for job in run_in_turn(claims, say=self.say, stop=self.stop):
            if job.error is not None:
                raise job.error
            if job.state == "stopped":
                raise Interrupted(self.leases.folder.parent)
            yield job.name
        if any(job.state != "done" for job in jobs):
            if self.wait or self.stop():
                raise Interrupted(self.leases.folder.parent)
            raise HeldElsewhere


def _either(first: Stop, second: Stop) -> bool:
    return first() or second()


def run_parallel(
    jobs: Iterable[Job] | Claims,
    at_once: int,
    *,
    threads: int,
    say: Say,
    stop: Stop,
    on_poll: Callable[[], None] = lambda: None,
) -> Iterator[Job]:
    """Runs jobs in child processes, `at_once` at a time with `threads` threads each; yields each as it ends.

    `on_poll` is called several times a second. On a request to stop, running jobs save and end, and the
    others stay in the state "waiting". Raises DiskError if a child process cannot be started.
    """
    claims = jobs if isinstance(jobs, Claims) else Claims(jobs)
    from multiprocessing.connection import wait

    running: list[_Worker] = []
    stopping = False
    try:
        while running or (claims.has_jobs and not stopping):
            if not stopping and stop():
                stopping = True
                for worker in running:
                    worker.process.terminate()
            while claims.has_jobs and len(running) < at_once and not stopping:
                done_elsewhere, job = claims.take()
                if job is not None:
                    running.append(_start(job, threads))
                yield from done_elsewhere
                if job is None:
                    break
            wait([worker.connection for worker in running], POLL_SECONDS)
            for worker in list(running):
                lost = claims.lost(worker.job)
                if lost:
                    worker.process.terminate()
                if worker.listen(say, stopping or lost):
                    running.remove(worker)
                    if claims.release(worker.job):
                        yield worker.job
            on_poll()
    finally:  # the caller may have closed this generator before the last job ended
        for worker in running:
            worker.process.terminate()
        for worker in running:
            worker.process.wait()
            worker.connection.close()
            claims.release(worker.job)


@dataclass(frozen=True)
class _Worker:
    job: Job
    process: subprocess.Popen[bytes]
    connection: Connection

    def listen(self, say: Say, stopping: bool) -> bool:
        """Passes on the child's lines. Returns whether the child has ended and its job's outcome is set."""
        try:
            while self.connection.poll():
                kind, message = self.connection.recv()
                if kind == "say":
                    say(message)
                else:
                    self.job.state, self.job.result, self.job.error = message
        except (EOFError, ConnectionResetError):
            self._reap(stopping)
            return True
        return False

    def receive_result(self) -> Any:
        """Returns the result of the next item of `map_in_order`, or raises its error."""
        try:
            error, result = self.connection.recv()
        except (EOFError, ConnectionResetError):
            how, cause = describe_exit(self.process.wait())
            raise RunFailed(f"a process {how}{', ' * bool(cause)}{cause}") from None
        if error is not None:
            raise error
        return result

    def _reap(self, stopping: bool) -> None:
        code = self.process.wait()
        self.connection.close()
        if self.job.state != "running":
            return
        if stopping:  # the signal came before the child could catch it
            self.job.state = "stopped"
            return
        how, cause = describe_exit(code)
        fix = "Run fewer at a time (`jobs`)" if code == -signal.SIGKILL else ""
        self.job.state = "failed"
        self.job.error = RunFailed(
            f"the process {how}{', ' * bool(cause)}{cause}", where=self.job.log or "", fix=fix
        )


def map_in_order(
    make: Callable[..., Callable[[Any], Any]],
    arguments: tuple[Any, ...],
    items: Iterable[Any],
    processes: int,
    threads: int | None = 1,
) -> Iterator[Any]:
    """Yields `make(*arguments)(item)` for each item, in order, computed in child processes.

    Args:
        make: returns the function to call with each item; each process calls `make` once.
        arguments: the arguments of `make`.
        items: the arguments of that function, read as the processes need them.
        processes: the number of processes.
        threads: the threads of each process (None: the process chooses).

    Raises:
        ElectraError: the error that the function raised; RunFailed for other errors and for a process that
            died.
    """
    workers: list[_Worker] = []
    pending: deque[_Worker] = deque()
    try:
        for index, item in enumerate(items):
            if index < processes:
                workers.append(_start(Job("", make, arguments), threads, "each"))
            worker = workers[index % processes]
            with suppress(OSError):  # if it has died, receive_result raises an error with the reason
                worker.connection.send(item)
            pending.append(worker)
            if len(pending) > 2 * processes:
                yield pending.popleft().receive_result()
        while pending:
            yield pending.popleft().receive_result()
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.wait()
            worker.connection.close()


def _start(job: Job, threads: int | None, mode: Literal["job", "each"] = "job") -> _Worker:
    """Starts the child process of a job or, with the mode "each", one of those of `map_in_order`."""
    parent_end, child_end = socket.socketpair()
    with parent_end, child_end, durable.explain_disk_errors(job.log or Path.cwd()):
        if job.log is not None:
            job.log.parent.mkdir(parents=True, exist_ok=True)
        file = None if job.log is None else open(job.log, "wb")  # noqa: SIM115
        try:
            process = subprocess.Popen(
                command("electra.foundation.jobs", mode, str(child_end.fileno())),
                env=environment() if threads is None else environment(OMP_NUM_THREADS=threads),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=None if file is None else subprocess.STDOUT,
                pass_fds=[child_end.fileno()],
                process_group=0,
            )
        finally:
            if file is not None:
                file.close()
        from multiprocessing.connection import Connection

        connection = Connection(parent_end.detach())
    with suppress(OSError):  # if it has died already, its exit code says why
        connection.send((job.work, job.arguments))
    job.state = "running"
    return _Worker(job, process, connection)


def _perform(
    work: Callable[..., Any], arguments: tuple[Any, ...], say: Say, stop: Stop
) -> tuple[State, Any, ElectraError | None]:
    """Returns the state, result and error of a job. Errors other than ElectraError propagate."""
    try:
        return "done", work(*arguments, say=say, stop=stop), None
    except Interrupted:
        return "stopped", None, None
    except ElectraError as error:
        return "failed", None, error


def _serve_job(connection: Connection) -> None:
    """Receives a job, performs it and sends the outcome."""

    def send(kind: str, message: Any) -> None:
        with suppress(OSError):  # the parent is gone, but the job may still have to save
            connection.send((kind, message))

    with StopRequest() as stop:
        try:
            work, arguments = connection.recv()
            threading.Thread(target=_stop_with_parent, args=(connection, stop), daemon=True).start()
            send("ended", _perform(work, arguments, lambda line: send("say", line), stop))
        except Exception as error:
            traceback.print_exc()
            send("ended", ("failed", None, _as_electra_error(error)))


def _stop_with_parent(connection: Connection, stop: StopRequest) -> None:
    with suppress(OSError):
        connection.poll(None)  # nothing more is sent, so this returns when the parent's end closes
    stop.request(signal.SIGTERM)


def _serve_items(connection: Connection) -> None:
    """Receives `make`, its arguments, then items; sends the result of each. Ends when the parent ends."""
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def receive() -> None:
        try:
            while True:
                items.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=receive, daemon=True).start()
    work: Callable[[Any], Any] | None = None
    make, arguments = items.get()
    while True:
        try:
            work = work or make(*arguments)
            outcome: tuple[ElectraError | None, Any] = None, work(items.get())
        except Exception as error:
            outcome = _as_electra_error(error), None
        with suppress(OSError):  # the parent is gone; `receive` ends the process
            connection.send(outcome)


def _as_electra_error(error: Exception) -> ElectraError:
    if isinstance(error, ElectraError):
        return error
    return out_of_memory(error) or RunFailed(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    from multiprocessing.connection import Connection

    descriptor = int(sys.argv[2])
    os.set_inheritable(descriptor, False)
    {"job": _serve_job, "each": _serve_items}[sys.argv[1]](Connection(descriptor))
