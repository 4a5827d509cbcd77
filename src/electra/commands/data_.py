"""The command `electra data`; `electra.data.public` defines the sets and downloads them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from typing_extensions import override

from electra.commands.framework.command import Command, OnCommandLine, Source, function
from electra.commands.framework.display import display_for
from electra.data import public
from electra.data.sources import is_remote
from electra.foundation.options import as_strings, checked_path, optional_name
from electra.foundation.signals import interrupt_on_signal

Name = Literal[
    "glue", "squad", "squad2", "conll2003", "wnut17", "conll2000", "ud-ewt", "wikitext", "wikitext-2", "blimp"
]


@dataclass(frozen=True)
class Data(
    Command[dict[str, Path]],
    group="Train",
    examples=(
        "electra data glue blimp --out DATA",
        "electra data wikitext --out DATA --dry-run",
        "electra data conll2003 --out DATA --from mirror/",
    ),
):
    """Download public data sets for training and evaluation, in the form that the other commands read.

    Prints the licences, and checks every file against the SHA-256 of the published one. After Ctrl-C or a
    lost connection, rerun the command to resume. In Python, this is electra.fetch_data, which returns the
    folder of each set.
    """

    sets: Annotated[str | Sequence[str], OnCommandLine(tuple[Name, ...])]
    """One or more of glue, squad, squad2, conll2003, wnut17, conll2000, ud-ewt, wikitext, wikitext-2 and
    blimp.
    """
    _: KW_ONLY
    out: Source
    """The folder to write to; each set gets a subfolder. Complete sets are not downloaded again."""
    mirror: Source | None = field(default=None, metadata={"flags": ("--from",)})
    """A folder or an address with copies of the published files as SET/FILE, such as glue/CoLA.zip (default:
    the publishers' own addresses). Alias: --from.
    """

    @override
    def run(self) -> dict[str, Path]:
        sets, out = public.find_sets(as_strings(self.sets, "sets")), checked_path(self.out, "out")
        with display_for(self.progress) as display, interrupt_on_signal(out):
            for each in sets:
                display.say(f"{each.name}: {each.title}. Licence: {each.licence} ({each.homepage})")
            public.fetch(sets, out, self._source(), display.say, display.progress)
            for use in dict.fromkeys(each.use for each in sets):
                display.say(f"next: {use.replace('OUT', str(out))}")
        return {each.name: out / each.folder for each in sets}

    @override
    def preview(self) -> None:
        """Print what would be downloaded: address, size and SHA-256 of each file."""
        for each in public.find_sets(as_strings(self.sets, "sets")):
            for download in each.downloads:
                address = each.address(download, self._source())
                sys.stdout.write(f"{download.sha256}  {download.size:>11,}  {address}\n")

    def _source(self) -> str:
        """Returns the mirror: an address unchanged, or the path of a folder; empty if there is none."""
        name = optional_name(self.mirror, "mirror") or ""
        return name if not name or is_remote(name) else str(checked_path(name, "mirror"))


fetch_data = function(Data)
