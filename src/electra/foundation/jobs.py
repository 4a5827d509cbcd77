"""Jobs in processes of their own, some at a time: started, listened to, stopped.

    for job in side_by_side(jobs, 2, threads=4, say=say, stop=stop):
        job.state, job.result, job.error      # each as it ends

The work of a job is a function of a module, called as `work(*arguments, say=say, stop=stop)`. It saves and
raises `Interrupted` when `stop()` becomes true. A job that fails, or whose process is killed, does not affect
the others.

    for result in in_order(make, arguments, items, processes):
        result                                # make(*arguments)(item) of each item, in order

Each process talks to this one over a socket. When the socket closes, however this process ended, the job is
asked to stop. Ctrl-C reaches this process only: the others are in process groups of their own. They import
neither the caller's `__main__` nor anything from the working directory.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.foundation import durable
from electra.foundation.errors import ElectraError, Interrupted, RunFailed, out_of_memory
from electra.foundation.progress import Say
from electra.foundation.signals import Stop, StopRequest, how_it_ended

if TYPE_CHECKING:  # what every --help imports is kept quick
    from multiprocessing.connection import Connection

State = Literal["waiting", "running", "done", "failed", "stopped"]
POLL_SECONDS = 0.2
_ROOT = str(Path(__file__).parents[2])
_RUN = (
    f"import sys; {_ROOT!r} in sys.path or sys.path.append({_ROOT!r}); import runpy;"
    " sys.argv.pop(0); runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def command(module: str, *arguments: str) -> list[str]:
    """What runs a module of ours in another process, as `python -m` does, but without the working directory
    in its path: files there may be named like what we import.
    """
    return [sys.executable, "-P", "-c", _RUN, module, *arguments]


def environment(**more: object) -> dict[str, str]:
    """The variables of a process started with `command`: ours, and more.

    PYTHONPATH keeps the folders that this process imports from, wherever the other one is started: an empty
    or relative entry would mean the working directory, which may be another one by now.
    """
    folders = map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    path = {"PYTHONPATH": os.pathsep.join(folder for folder in folders if folder in sys.path)}
    return {**os.environ, **path, **{name: str(value) for name, value in more.items()}}


@dataclass(eq=False)
class Job:
    """A piece of work, and how it went."""

    name: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    log: Path | None = None  # receives what the process prints; None: it prints where this one does
    state: State = "waiting"
    result: Any = None  # of the work, once it is done
    error: ElectraError | None = None  # why it failed


def in_turn(jobs: Iterable[Job], *, say: Say, stop: Stop) -> Iterator[Job]:
    """Each job once it has ended, one after the other in this process, until asked to stop."""
    for job in jobs:
        if stop():
            return
        job.state = "running"
        job.state, job.result, job.error = _perform(job.work, job.arguments, say, stop)
        yield job


def side_by_side(
    jobs: Iterable[Job],
    at_once: int,
    *,
    threads: int,
    say: Say,
    stop: Stop,
    look: Callable[[], None] = lambda: None,
) -> Iterator[Job]:
    """Each job as it ends, `at_once` of them at a time with `threads` threads each.

    `look` is called several times a second. When asked to stop, those under way save and end, and the others
    stay waiting.
    """
    waiting = deque(jobs)
    from multiprocessing.connection import wait

    running: list[_Worker] = []
    asked = False
    try:
        while running or (waiting and not asked):
            if not asked and stop():
                asked = True
                for worker in running:
                    worker.process.terminate()
            while waiting and len(running) < at_once and not asked:
                running.append(_start(waiting.popleft(), threads))
            wait([worker.connection for worker in running], POLL_SECONDS)
            for worker in list(running):
                if worker.listen(say, asked):
                    running.remove(worker)
                    yield worker.job
            look()
    finally:  # nobody waits for their results any more
        for worker in running:
            worker.process.terminate()
        for worker in running:
            worker.process.wait()
            worker.connection.close()


@dataclass(frozen=True)
class _Worker:
    job: Job
    process: subprocess.Popen[bytes]
    connection: Connection

    def listen(self, say: Say, asked: bool) -> bool:
        """Pass on what was said; True once the process has ended and its job knows how."""
        try:
            while self.connection.poll():
                kind, told = self.connection.recv()
                if kind == "say":
                    say(told)
                else:
                    self.job.state, self.job.result, self.job.error = told
        except (EOFError, ConnectionResetError):
            self._bury(asked)
            return True
        return False

    def answer(self) -> Any:
        """What `in_order` gets for an item."""
        try:
            error, result = self.connection.recv()
        except (EOFError, ConnectionResetError):
            how, cause = how_it_ended(self.process.wait())
            raise RunFailed(f"a process {how}{', ' * bool(cause)}{cause}") from None
        if error is not None:
            raise error
        return result

    def _bury(self, asked: bool) -> None:
        code = self.process.wait()
        self.connection.close()
        if self.job.state != "running":
            return
        if asked:  # before it could catch the signal
            self.job.state = "stopped"
            return
        how, cause = how_it_ended(code)
        fix = "Run fewer at a time (--jobs)" if code == -signal.SIGKILL else ""
        self.job.state = "failed"
        self.job.error = RunFailed(
            f"its process {how}{', ' * bool(cause)}{cause}", where=self.job.log or "", fix=fix
        )


def in_order(
    make: Callable[..., Callable[[Any], Any]],
    arguments: tuple[Any, ...],
    items: Iterable[Any],
    processes: int,
    threads: int | None = 1,
) -> Iterator[Any]:
    """`make(*arguments)(item)` of each item, in order; each process calls `make` once.

    threads: of each process (None: it chooses).
    """
    workers: list[_Worker] = []
    under_way: deque[_Worker] = deque()
    try:
        for number, item in enumerate(items):
            if number < processes:
                workers.append(_start(Job("", make, arguments), threads, "each"))
            worker = workers[number % processes]
            with suppress(OSError):  # it has died, as its answer will tell
                worker.connection.send(item)
            under_way.append(worker)
            if len(under_way) > 2 * processes:
                yield under_way.popleft().answer()
        while under_way:
            yield under_way.popleft().answer()
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.wait()
            worker.connection.close()


def _start(job: Job, threads: int | None, how: Literal["one", "each"] = "one") -> _Worker:
    ours, theirs = socket.socketpair()
    with ours, theirs, durable.explain_disk_errors(job.log or Path.cwd()):
        if job.log is not None:
            job.log.parent.mkdir(parents=True, exist_ok=True)
        file = None if job.log is None else open(job.log, "wb")  # noqa: SIM115
        try:
            process = subprocess.Popen(
                command("electra.foundation.jobs", how, str(theirs.fileno())),
                env=environment() if threads is None else environment(OMP_NUM_THREADS=threads),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=None if file is None else subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        finally:
            if file is not None:
                file.close()
        from multiprocessing.connection import Connection

        connection = Connection(ours.detach())
    with suppress(OSError):  # it has died already, as its exit code will tell
        connection.send((job.work, job.arguments))
    job.state = "running"
    return _Worker(job, process, connection)


def _perform(
    work: Callable[..., Any], arguments: tuple[Any, ...], say: Say, stop: Stop
) -> tuple[State, Any, ElectraError | None]:
    try:
        return "done", work(*arguments, say=say, stop=stop), None
    except Interrupted:
        return "stopped", None, None
    except ElectraError as error:
        return "failed", None, error


def _one(connection: Connection) -> None:
    """Receive a job, perform it, tell how it went."""

    def send(kind: str, told: Any) -> None:
        with suppress(OSError):  # nobody is left to be told, but there may be something to save
            connection.send((kind, told))

    with StopRequest() as stop:
        try:
            work, arguments = connection.recv()
            threading.Thread(target=_stop_with_parent, args=(connection, stop), daemon=True).start()
            send("ended", _perform(work, arguments, lambda line: send("say", line), stop))
        except Exception as error:
            traceback.print_exc()
            send("ended", ("failed", None, _as_ours(error)))


def _stop_with_parent(connection: Connection, stop: StopRequest) -> None:
    with suppress(OSError):
        connection.poll(None)  # nothing more is sent, so it becomes readable when it is closed
    stop.ask(signal.SIGTERM)


def _each(connection: Connection) -> None:
    """Receive what makes the function of an item, then items; answer each. Ends at once with its parent."""
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
            answer: tuple[ElectraError | None, Any] = None, work(items.get())
        except Exception as error:
            answer = _as_ours(error), None
        with suppress(OSError):  # the parent is gone, as `receive` notices
            connection.send(answer)


def _as_ours(error: Exception) -> ElectraError:
    if isinstance(error, ElectraError):
        return error
    return out_of_memory(error) or RunFailed(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    from multiprocessing.connection import Connection

    descriptor = int(sys.argv[2])
    os.set_inheritable(descriptor, False)
    {"one": _one, "each": _each}[sys.argv[1]](Connection(descriptor))
