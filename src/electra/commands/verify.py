from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass

from electra.artifacts import Finding
from electra.commands.framework.command import Command, Source, function
from electra.commands.results.artifact import given_path
from electra.commands.results.run import Run


@dataclass(frozen=True)
class Verify(
    Command[Iterator[Finding]],
    group="Share",
    examples=(
        "electra verify runs/mine",
        "electra verify runs/mine --replay 3",
    ),
):
    """Check any folder that electra wrote for damage: manifests, hashes, tensor shapes and values.

    Exit code 1: something is damaged, or a replay differs. In Python each thing comes once it has been read
    whole, with its `problem` ("": none).
    """

    folder: Source
    """The folder to check, or tiny-en. ? marks what has nothing to be compared with."""
    _: KW_ONLY
    replay: int | None = None
    """Also train so many updates of a run again, from a checkpoint it has kept, and compare batches, losses
    and weights with what was recorded.
    """
    store: Source | None = None
    """For --replay: the store the run was trained on (default: RUN/store, or the recorded path)."""

    def run(self) -> Iterator[Finding]:
        yield from self._files()
        yield from self._replayed()

    def _files(self) -> Iterator[Finding]:
        from electra.exchange.verify import verify as check

        return check(given_path(self.folder, "folder"))

    def _replayed(self) -> Iterable[Finding]:
        return () if self.replay is None else Run(self.folder).replay(self.replay, self.store)

    def main(self) -> int:
        damaged = _print(self._files(), "DAMAGED")
        return 1 if _print(self._replayed(), "DIFFERS") or damaged else 0


def _print(findings: Iterable[Finding], wrong: str) -> int:
    """A line for each thing; how many have a problem."""
    problems = 0
    for finding in findings:
        problems += bool(finding.problem)
        state = wrong if finding.problem else "ok" if finding.compared else "?"
        sys.stdout.write(f"{state:8}{finding.path}  {finding.problem or finding.what}\n")
    return problems


verify = function(Verify)
