"""The jobs of a command, divided among the processes that run the same command on the same folder.

    claims = Claims(jobs, Leases(folder / ".leases"), done)
    for job in run_parallel(claims, 2, ...):      # or run_in_turn
        job.state                                 # also "done" if another process did the job

Without leases, this process does all jobs. With leases, it takes the jobs that are neither done nor held,
waits for those that others hold (unless `wait` is False), and takes over the jobs of processes that died.
`done` returns whether the results of a job exist. It is called again once a lease is held, because another
process may have completed the job meanwhile.
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
LOOK_SECONDS = 1.0  # between two checks of the jobs that others hold


class Claims(Generic[P]):
    """The jobs that are waiting, and the leases on those that this process is working on."""

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
        """Whether any jobs are waiting, for this process or for others to complete them."""
        return bool(self._waiting)

    def take(self) -> tuple[list[P], P | None]:
        """Returns the jobs that others have completed meanwhile, and the next job to do.

        The latter is None if no job can be taken now. If `wait` is False, the jobs that others hold are then
        dropped.
        """
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
        """Whether another process has taken over a job that this one is working on."""
        lease = self._held.get(id(job))
        return lease is not None and lease.lost()

    def end(self, job: P) -> bool:
        """Releases a job. Returns False if another process took it over; its result is then awaited."""
        lease = self._held.pop(id(job), None)
        if lease is None:
            return True
        lost = lease.lost() and job.state != "done"
        lease.release()
        if lost:
            job.state = "waiting"
            self._waiting.append(job)
        return not lost
