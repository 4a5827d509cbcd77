"""The command `electra verify`; checks are in `electra.exchange.verify` and `electra.training.replay`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from pathlib import Path

from typing_extensions import override

from electra.artifacts import Finding, RunFolder
from electra.commands.framework.command import Command, function
from electra.foundation.options import Source, checked_path
from electra.foundation.progress import doing
from electra.foundation.terminal_text import plural


@dataclass(frozen=True)
class Verify(Command[Iterator[Finding]], examples=("electra verify runs/mine", "electra verify runs/mine --replay 3")):
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
        return chain.from_iterable(findings for _, findings in self._checks())

    def _checks(self) -> Iterator[tuple[str, Iterable[Finding]]]:
        from electra.exchange.verify import verify as check

        path = checked_path(self.folder, "folder")
        yield "DAMAGED", check(path)
        if self.replay is not None:
            from electra.training.replay import replay
            from electra.training.stores import open_run_store

            run = RunFolder.open(path)
            yield "DIFFERS", replay(run, open_run_store(run, self.store), self.replay)

    @override
    def main(self) -> int:
        from electra.exchange.verify import files_compared

        problems = 0
        doing("checking files")
        for problem, findings in self._checks():
            for finding in findings:
                problems += bool(finding.problem)
                status = problem if finding.problem else "ok"
                sys.stdout.write(f"{status:8}{finding.path}  {finding.problem or finding.what}\n")
        compared, others = files_compared(checked_path(self.folder, "folder"))
        sys.stdout.write(f"compared with recorded digests: {_listed(compared)}\n")
        if others:
            sys.stdout.write(f"not compared, without a recorded digest: {_listed(others)}\n")
        return int(problems > 0)


verify = function(Verify)


def _listed(names: Sequence[Path]) -> str:
    return f"{plural(len(names), 'file')}{': ' if names else ''}{', '.join(map(str, names))}"
