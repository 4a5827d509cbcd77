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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from electra.foundation.errors import ElectraError
from electra.foundation.leases import Lease, Leases

State = Literal["waiting", "running", "done", "failed", "stopped"]
CHECK_SECONDS = 1.0  # between two checks of the jobs that others hold


@dataclass(eq=False)
class Job:
    """A piece of work and its outcome."""

    name: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    log: Path | None = None  # file for the child's output; None: inherited from this process
    state: State = "waiting"
    result: Any = None  # the return value, if the state is "done"
    error: ElectraError | None = None  # set if the state is "failed"
    done_elsewhere: bool = False  # done by another process, or by an earlier run


class Claims:
    """The jobs that are waiting, and the leases on those that this process is working on."""

    def __init__(
        self,
        jobs: Iterable[Job],
        leases: Leases | None = None,
        done: Callable[[Job], bool] = lambda job: False,
        wait: bool = True,
    ) -> None:
        self._waiting = deque(jobs)
        self._leases, self._done, self._wait = leases, done, wait
        self._held: dict[int, Lease] = {}
        self._checked_at = float("-inf")

    @property
    def has_jobs(self) -> bool:
        """Whether any jobs remain to be taken, or are awaited from other processes."""
        return bool(self._waiting)

    def take(self) -> tuple[list[Job], Job | None]:
        """Returns the jobs that others have completed since the last call, and the next job to do.

        The next job is None if none can be taken now. If `wait` is False, the jobs that others hold are then
        forgotten. Raises DiskError if a lease cannot be written.
        """
        if self._leases is None:
            return [], self._waiting.popleft() if self._waiting else None
        if time.monotonic() - self._checked_at < CHECK_SECONDS:
            return [], None
        done_elsewhere: list[Job] = []
        for job in list(self._waiting):
            done = self._done(job)
            lease = None if done else self._leases.take(job.name)
            if lease is not None and (done := self._done(job)):  # completed just before we took the lease
                lease.release()
            if done:
                job.state, job.done_elsewhere = "done", True
                self._waiting.remove(job)
                done_elsewhere.append(job)
            elif lease is not None:
                self._waiting.remove(job)
                self._held[id(job)] = lease
                return done_elsewhere, job
        self._checked_at = time.monotonic()
        if not self._wait:
            self._waiting.clear()
        return done_elsewhere, None

    def lost(self, job: Job) -> bool:
        """Whether another process has taken over a job that this one is working on."""
        lease = self._held.get(id(job))
        return lease is not None and lease.lost()

    def release(self, job: Job) -> bool:
        """Releases a job. Returns False if another process took it over before it was done.

        The result of the other process is then awaited.
        """
        lease = self._held.pop(id(job), None)
        if lease is None:
            return True
        lost = lease.lost() and job.state != "done"
        lease.release()
        if lost:
            job.state = "waiting"
            self._waiting.append(job)
        return not lost
