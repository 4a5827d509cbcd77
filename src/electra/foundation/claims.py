"""The jobs of a command, shared with whoever runs the same command on the same folder.

    claims = Claims(jobs, Leases(folder / ".leases"), done)
    for job in run_parallel(claims, 2, ...):      # and run_in_turn
        job.state                                 # "done" as well for what another process has done

Without leases the jobs are this process's alone. With them it takes those that nobody has done or holds,
waits for those that others hold (unless `wait` is False), and takes over what the dead leave. `done` says
whether a job's results are there: they are the truth, and are looked at again once a lease is held.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from electra.foundation.leases import Lease, Leases


class Piece(Protocol):
    """A piece of work, such as a `Job`."""

    name: str
    state: Any
    elsewhere: bool


P = TypeVar("P", bound=Piece)
LOOK_SECONDS = 1.0  # between two looks at what others hold


class Claims(Generic[P]):
    """The jobs that wait for this process, and the leases of those that it is at work on."""

    def __init__(
        self,
        jobs: Iterable[P],
        leases: Leases | None = None,
        done: Callable[[P], bool] = lambda job: False,
        look: float = LOOK_SECONDS,
        wait: bool = True,
    ) -> None:
        self._waiting = deque(jobs)
        self._leases, self._done, self._look, self._wait = leases, done, look, wait
        self._held: dict[int, Lease] = {}
        self._looked = float("-inf")

    @property
    def left(self) -> bool:
        """Whether jobs wait for this process, or for others to end them."""
        return bool(self._waiting)

    def take(self) -> tuple[list[P], P | None]:
        """(jobs that others have done meanwhile, a job to do now; None: others hold all that is left)."""
        if self._leases is None:
            return [], self._waiting.popleft() if self._waiting else None
        if time.monotonic() - self._looked < self._look:
            return [], None
        elsewhere: list[P] = []
        for job in list(self._waiting):
            done = self._done(job)
            lease = None if done else self._leases.take(job.name)
            if lease is not None and (done := self._done(job)):  # meanwhile
                lease.release()
            if done:
                job.state, job.elsewhere = "done", True
                self._waiting.remove(job)
                elsewhere.append(job)
            elif lease is not None:
                self._waiting.remove(job)
                self._held[id(job)] = lease
                return elsewhere, job
        self._looked = time.monotonic()
        if not self._wait:
            self._waiting.clear()
        return elsewhere, None

    def lost(self, job: P) -> bool:
        """Whether another process has taken over a job that this one is at work on."""
        lease = self._held.get(id(job))
        return lease is not None and lease.lost()

    def end(self, job: P) -> bool:
        """Let go of a job. False where it was lost to another process, whose result is waited for."""
        lease = self._held.pop(id(job), None)
        if lease is None:
            return True
        lost = lease.lost() and job.state != "done"
        lease.release()
        if lost:
            job.state = "waiting"
            self._waiting.append(job)
        return not lost
