"""The one way that pieces of work are done: runs of a study, tasks of a suite.

    pieces = [Piece(f"seed {n}", folder / f"seed-{n}", "results.json", train, (n,)) for n in range(5)]
    failures = run_pieces(pieces, workers=2, say=print)

Each piece has a folder of its own and is finished when its record is there, so the same call resumes, however
the last one ended. A piece is locked while it is made: the same command may run on several machines that
share the folders, such as the tasks of an array job, and each process does what no other is doing.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from electra.foundation import durable
from electra.foundation.errors import ElectraError, Interrupted, RunFailed, out_of_memory, reason_of
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop, StopRequest, stops_after
from electra.foundation.threads import VARIABLES, available

POLL_SECONDS = 0.2
WAIT_SECONDS = 1.0  # between two looks at pieces that other processes are doing
IDLE_SECONDS = 60.0  # after which a worker ends, for one whose parent was killed


@dataclass(frozen=True)
class Piece:
    """A piece of work, called as `work(*arguments, say=say, stop=stop)`.

    Once `stop()` returns True, it saves its state and raises `Interrupted`.
    """

    name: str
    folder: Path
    """Only this piece writes there. It need not exist."""
    record: str
    """The file in the folder that is written last: the piece is finished when it is there."""
    work: Callable[..., object]
    arguments: tuple[Any, ...] = ()

    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return (self.folder / self.record).exists()


class _Outcome(NamedTuple):
    state: Literal["finished", "failed", "stopped", "held", "lost"]  # held: another process is doing it
    error: ElectraError | None = None
    lines: Sequence[str] = ()


def run_pieces(
    pieces: Iterable[Piece],
    *,
    workers: int = 1,
    threads: int | None = None,
    say: Say = quiet,
    stop: Stop | None = None,
    ended: Callable[[Piece, ElectraError | None], None] = lambda piece, error: None,
    refresh: Callable[[], None] = lambda: None,
) -> dict[str, ElectraError]:
    """Does the pieces that are not finished, and waits for those that other processes are doing.

    Args:
        pieces: in the order in which to begin them. One worker is this process; for several, `work` and
            `arguments` must be picklable.
        workers: pieces at a time.
        threads: compute threads of each worker (None: the free cores divided by the workers).
        say: receives the lines of a piece: at once in this process, otherwise when it has ended.
        stop: returns whether to stop (None: SIGINT, SIGTERM and SIGUSR1 ask for that).
        ended: called with each piece that has ended, and its error.
        refresh: called several times a second while workers run.

    Returns the errors of the pieces that failed, by name; a failure does not stop the others. Raises
    Interrupted after a request to stop (the same call resumes), and DiskError if a lock cannot be written.
    """
    waiting = [piece for piece in pieces if not piece.is_finished()]
    failures: dict[str, ElectraError] = {}
    with ExitStack() as stack:
        stop = stop or stack.enter_context(StopRequest())
        others = _Workers(workers, threads, say, stop, refresh) if workers > 1 else None
        while waiting:
            done_elsewhere = [(piece, _Outcome("finished")) for piece in waiting if piece.is_finished()]
            free = [piece for piece in waiting if not piece.is_finished() and not _is_held(piece)]
            in_turn = ((piece, _do(piece, say, stop)) for piece in free)
            for piece, outcome in chain(done_elsewhere, others.do(free) if others else in_turn):
                if outcome.state == "stopped":
                    raise Interrupted(piece.folder.parent)
                if outcome.state in ("finished", "failed"):
                    waiting.remove(piece)
                    failures |= {piece.name: outcome.error} if outcome.error else {}
                    ended(piece, outcome.error)
            if waiting and stop():
                raise Interrupted(waiting[0].folder.parent)
            if waiting and not free:
                refresh()
                time.sleep(WAIT_SECONDS)
    return failures


def unfinished(pieces: Iterable[Piece]) -> list[str]:
    """Returns the names of the pieces that are not finished, marked if a process is doing them now."""
    left = [piece for piece in pieces if not piece.is_finished()]
    return [f"{piece.name} (in progress)" if _is_held(piece) else piece.name for piece in left]


def _do(piece: Piece, say: Say, stop: Stop) -> _Outcome:
    with _lock(piece) as is_ours:
        if not is_ours:
            return _Outcome("held")
        if piece.is_finished():  # another process did it a moment ago
            return _Outcome("finished")
        if stop():
            return _Outcome("stopped")
        try:
            piece.work(*piece.arguments, say=say, stop=stop)
        except Interrupted:
            return _Outcome("stopped")
        except ElectraError as error:
            return _Outcome("failed", error)
        if not piece.is_finished():
            raise RuntimeError(f"{piece.name} wrote no {piece.folder / piece.record}")
        return _Outcome("finished")


@contextmanager
def _lock(piece: Piece) -> Iterator[bool]:
    """Yields whether this process now holds the piece's lock, a file beside its folder."""
    with durable.lock_file(piece.folder.with_name(f".{piece.folder.name}.lock")) as holder:
        yield not holder


def _is_held(piece: Piece) -> bool:
    with _lock(piece) as is_ours:
        return not is_ours


@dataclass(frozen=True)
class _Workers:
    """Does pieces in other processes."""

    workers: int
    threads: int | None
    say: Say
    stop: Stop
    refresh: Callable[[], None]

    def do(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, _Outcome]]:
        """Yields the outcomes. When a process is lost, pieces that have not begun are left out."""
        lost: list[Piece] = []
        for piece, outcome in self._round(pieces, self.workers) if pieces else ():
            if outcome.state == "lost":
                lost.append(piece)
            else:
                yield piece, outcome
        for piece in [] if self.stop() else lost:  # alone, to know which it was, and with all of the memory
            self.say(f"{piece.name}: its process, or one beside it, was killed; trying it alone")
            for _, outcome in self._round([piece], 1):
                is_lost = outcome.state == "lost" and not self.stop()
                yield piece, _Outcome("failed", outcome.error) if is_lost else outcome

    def _round(self, pieces: Sequence[Piece], at_once: int) -> Iterator[tuple[Piece, _Outcome]]:
        queue, running = deque(pieces), dict[Future[_Outcome], Piece]()
        flag = queue[0].folder.with_name(f".running-{os.getpid()}").absolute()  # workers stop without it
        threads = self.threads or max(1, available() // at_once)
        pool = process_pool(at_once, threads, timeout=IDLE_SECONDS)
        with ExitStack() as stack:
            stack.callback(pool.shutdown, wait=True)
            flag.touch()
            stack.callback(flag.unlink, missing_ok=True)
            while queue or running:
                while queue and len(running) < at_once:
                    piece = queue.popleft()
                    with suppress(BrokenExecutor):  # a process was killed a moment ago
                        running[pool.submit(_do_in_worker, piece, flag, Path.cwd(), os.getpid())] = piece
                for future in wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
                    piece, outcome = running.pop(future), _outcome(future)
                    for line in outcome.lines:
                        self.say(f"{piece.name}: {line}")
                    if outcome.state == "lost":
                        queue.clear()
                    yield piece, outcome
                self.refresh()
                if self.stop():
                    flag.unlink(missing_ok=True)
                    queue.clear()


def _outcome(future: Future[_Outcome]) -> _Outcome:
    try:
        return future.result()
    except Exception:  # each engine has its own
        fix = "Run fewer at a time, or lower its `batch_size`"
        problem = "its process was killed, most likely because memory ran out"
        return _Outcome("lost", RunFailed(problem, fix=fix))


def process_pool(workers: int, threads: int, **options: Any) -> Any:
    """Returns an executor of joblib's processes, which import nothing from the working directory.

    `options` are those of `loky.ProcessPoolExecutor`.
    """
    from multiprocessing import resource_tracker

    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.backend.resource_tracker import ensure_running

    folders = map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    safe = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(f for f in folders if f in sys.path)}
    previous = {name: os.environ.get(name) for name in safe}
    os.environ.update(safe)  # for the trackers of their resources, which are processes too
    try:
        resource_tracker.ensure_running()
        ensure_running()
        return ProcessPoolExecutor(workers, env={**dict.fromkeys(VARIABLES, str(threads)), **safe}, **options)
    finally:
        for name, value in previous.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _do_in_worker(piece: Piece, flag: Path, folder: Path, parent: int) -> _Outcome:
    os.chdir(folder)
    lines: list[str] = []
    with StopRequest() as signalled, stops_after(""):  # the process that began this one answers

        def stop() -> bool:
            return signalled() or os.getppid() != parent or not flag.exists()

        try:
            return _do(piece, lines.append, stop)._replace(lines=lines)
        except Exception as error:
            traceback.print_exc()
            unknown = RunFailed(f"{type(error).__name__}: {reason_of(error)}")
            known = error if isinstance(error, ElectraError) else out_of_memory(error)
            return _Outcome("failed", known or unknown, lines)
        finally:
            if os.getppid() != parent:  # nobody waits for the outcome
                os._exit(1)
