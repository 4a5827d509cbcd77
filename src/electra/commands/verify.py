"""The command `electra verify`; checks are in `electra.exchange.verify` and `electra.training.replay`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.artifacts import Finding
from electra.commands.framework.command import Command, function
from electra.commands.results.folders import Run
from electra.foundation.options import Source, checked_path
from electra.foundation.progress import doing


@dataclass(frozen=True)
class Verify(
    Command[Iterator[Finding]],
    examples=("electra verify runs/mine", "electra verify runs/mine --replay 3"),
):
    """Check any folder that electra wrote for damage: manifests, hashes, tensor shapes and values.

    Exit code 1: something is damaged, or a replay differs. In Python, yields a Finding for each thing
    checked; its `problem` is empty if nothing is wrong.
    """

    folder: Source
    """The folder to check, or the name of a model that comes with the package."""
    _: KW_ONLY
    replay: int | None = None
    """Also repeat this many updates of a run from one of its checkpoints, and compare batches, losses and
    weights with the recorded ones.
    """
    store: Source | None = None
    """For --replay: the store that the run was trained on (default: RUN/store, or the recorded path)."""

    @override
    def run(self) -> Iterator[Finding]:
        yield from self._files()
        yield from self._replayed()

    def _files(self) -> Iterator[Finding]:
        from electra.exchange.verify import verify as check

        return check(checked_path(self.folder, "folder"))

    def _replayed(self) -> Iterable[Finding]:
        return () if self.replay is None else Run(self.folder).replay(self.replay, self.store)

    @override
    def main(self) -> int:
        damaged = _print(self._files(), "DAMAGED")
        return 1 if _print(self._replayed(), "DIFFERS") or damaged else 0


def _print(findings: Iterable[Finding], problem_label: str) -> int:
    """Prints a line for each finding; returns how many have a problem."""
    problems = 0
    doing("checking files")
    for finding in findings:
        problems += bool(finding.problem)
        status = problem_label if finding.problem else "ok"
        sys.stdout.write(f"{status:8}{finding.path}  {finding.problem or finding.what}\n")
    return problems


verify = function(Verify)
