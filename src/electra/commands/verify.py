"""The command `electra verify`; checks are in `electra.exchange.verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

from electra.artifacts import Finding
from electra.commands.framework.command import Command, function
from electra.foundation.options import Source, checked_path
from electra.foundation.progress import doing


@dataclass(frozen=True)
class Verify(
    Command[Iterator[Finding]],
    examples=("electra verify runs/mine", "electra verify store"),
):
    """Check any folder that electra wrote for damage: manifests, hashes, tensor shapes and values.

    Exit code 1: something is damaged. In Python, yields a Finding for each thing checked; its `problem` is
    empty if nothing is wrong.
    """

    folder: Source
    """The folder to check, or the name of a model that comes with the package."""

    @override
    def run(self) -> Iterator[Finding]:
        from electra.exchange.verify import verify as check

        return check(checked_path(self.folder, "folder"))

    @override
    def main(self) -> int:
        problems = 0
        doing("checking files")
        for finding in self.run():
            problems += bool(finding.problem)
            status = "DAMAGED" if finding.problem else "ok"
            sys.stdout.write(f"{status:8}{finding.path}  {finding.problem or finding.what}\n")
        return int(problems > 0)


verify = function(Verify)
