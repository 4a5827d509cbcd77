"""The page of a folder of any kind. Runs without torch."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from electra.artifacts import (
    AnalysisFolder,
    EvaluationFolder,
    Folder,
    RunFolder,
    StudyFolder,
    TuningFolder,
    digests,
    kind_of,
    open_folder,
)
from electra.artifacts.session import with_article
from electra.foundation import durable
from electra.foundation.errors import ConfigError, DamagedModel, RunFolderError
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop
from electra.pages import facts, probes, run, study, suite, tuning

PAGES: Mapping[type[Folder], Callable[[Path], Path]] = {
    StudyFolder: study.write_report,
    EvaluationFolder: suite.write_page,
    AnalysisFolder: probes.write_page,
    TuningFolder: tuning.write_page,
}
REDRAW = 20  # seconds between two pages of a run that is followed
LOOK = 0.5  # seconds between two looks at what it does


def write_page(folder: Path, out: Path | None = None, compare: Sequence[Path] = ()) -> Path:
    """Draw the page of `folder` from its records; returns the page's path.

    out, compare: of a run's page alone: where it goes, and the runs to draw over it.
    Warns (Damaged) of records that changed since the work in the folder was done.
    """
    folder = Path(folder)
    try:
        page = _draw(folder, out, compare)
    except (LookupError, TypeError, ValueError, AttributeError) as misfit:  # records are read as they are
        said = f"{type(misfit).__name__}: {misfit}"
        fix = "Run electra verify on it, and restore the record that was edited or damaged"
        raise RunFolderError(f"its records do not fit together ({said})", where=folder, fix=fix) from misfit
    for name, what in digests.changed_files(folder).items():
        warnings.warn(f"{folder / name} {what}: see electra verify", DamagedModel, stacklevel=2)
    return page


def follow(folder: Path, out: Path | None, compare: Sequence[Path], stop: Stop, say: Say = quiet) -> Path:
    """Rewrite the page of a run while a process of this machine trains it, until asked to stop; its path.

    A browser that shows the page reads it again by itself until the run ends.
    """
    if kind_of(folder) not in (None, RunFolder):
        raise ConfigError("only a run can be followed", key="follow", fix="Omit it")
    metrics = RunFolder(folder).metrics
    drawn_at, drawn_of = -math.inf, -1
    while durable.is_locked(folder) and not stop():
        size = metrics.stat().st_size if metrics.is_file() else 0
        if size != drawn_of and time.monotonic() - drawn_at > REDRAW:
            page = run.write_report(folder, out, compare, REDRAW)
            if drawn_of < 0:
                say(f"{page}: rewritten until the run ends")
            drawn_at, drawn_of = time.monotonic(), size
        time.sleep(LOOK)
    return write_page(folder, out, compare)


def _draw(folder: Path, out: Path | None, compare: Sequence[Path]) -> Path:
    kind = kind_of(folder)
    if kind is None or kind is RunFolder:
        if kind is None and folder.is_dir() and not RunFolder(folder).metrics.is_file():
            open_folder(folder)  # raises, saying what is there instead
        return run.write_report(folder, out, compare)  # which reads what is left of a run as well
    if out is not None or compare:
        key = "out" if out is not None else "compare"
        raise ConfigError(
            f"only a run's report takes this, not {with_article(kind.KIND)}'s", key=key, fix="Omit it"
        )
    return PAGES.get(kind, facts.write_page)(folder)
