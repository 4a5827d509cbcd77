"""The one way that pieces of work are done: runs of a study, tasks of a suite.

    pieces = [Piece(f"seed {n}", folder / f"seed-{n}", "results.json", partial(train, n)) for n in range(5)]
    failures = run_pieces(pieces, say=print)

Each piece has a folder of its own and is finished when its record is there, so the same call resumes, however
the last one ended. A piece is locked while it is made: the same command may run several times at once, on one
machine or on several that share the folders, and each process does what no other is doing.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from electra.foundation import durable
from electra.foundation.errors import ElectraError, Interrupted
from electra.foundation.progress import Say, doing, quiet
from electra.foundation.signals import Stop, StopRequest

WAIT_SECONDS = 1.0  # between two looks at pieces that other processes are doing


@dataclass(frozen=True)
class Piece:
    """Work, called as `work(say=say, stop=stop)`; once `stop()`, it saves and raises `Interrupted`."""

    name: str
    folder: Path  # only this piece writes there; it need not exist
    record: str  # the file in the folder that is written last: the piece is finished when it is there
    work: Callable[..., object]

    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return (self.folder / self.record).exists()


def run_pieces(
    pieces: Iterable[Piece],
    *,
    say: Say = quiet,
    stop: Stop | None = None,
    ended: Callable[[Piece, ElectraError | None], None] = lambda piece, error: None,
) -> dict[str, ElectraError]:
    """Does the pieces that are not finished, in order, and waits for those that other processes are doing.

    Args:
        pieces: in the order in which to begin them.
        say: receives the lines of a piece, after its name.
        stop: returns whether to stop (None: SIGINT, SIGTERM and SIGUSR1 ask for that).
        ended: called with each piece that has ended, and its error.

    Returns the errors of the pieces that failed, by name; a failure does not stop the others. Raises
    Interrupted after a request to stop (the same call resumes), and DiskError if a lock cannot be written.
    """
    waiting = [piece for piece in pieces if not piece.is_finished()]
    failures: dict[str, ElectraError] = {}
    with ExitStack() as stack:
        stop = stop or stack.enter_context(StopRequest())
        while waiting:
            count = len(waiting)
            for piece in [*waiting]:
                # the lock is a file beside the folder
                lock = piece.folder.with_name(f".{piece.folder.name}.lock")
                with durable.lock_file(lock) as holder:
                    if holder and not piece.is_finished():
                        continue
                    error = None if piece.is_finished() else _do(piece, say, stop)
                waiting.remove(piece)
                failures |= {piece.name: error} if error else {}
                ended(piece, error)
            if waiting and stop():
                raise Interrupted(waiting[0].folder.parent)
            if len(waiting) == count:
                doing(f"waiting for other processes: {waiting[0].name}")
                time.sleep(WAIT_SECONDS)
    return failures


def _do(piece: Piece, say: Say, stop: Stop) -> ElectraError | None:
    """Does a piece, and returns its error. Raises Interrupted if it is stopped."""
    try:
        if stop():
            raise Interrupted(piece.folder)
        piece.work(say=lambda line: say(f"{piece.name}: {line}"), stop=stop)
    except Interrupted:
        raise Interrupted(piece.folder.parent) from None
    except ElectraError as error:
        return error
    if not piece.is_finished():
        raise RuntimeError(f"{piece.name} wrote no {piece.folder / piece.record}")
    return None
