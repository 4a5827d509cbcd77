"""Writes the page of a folder of any kind."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from electra.artifacts import (
    AnalysisFolder,
    EvaluationFolder,
    FinetuningFolder,
    Folder,
    RunFolder,
    StudyFolder,
    kind_of,
    open_folder,
)
from electra.foundation import durable
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop
from electra.foundation.terminal_text import with_article
from electra.pages import finetuning, probes, run, study, suite

PAGES: Mapping[type[Folder], Callable[[Path], Path]] = {
    StudyFolder: study.write_page,
    EvaluationFolder: suite.write_page,
    AnalysisFolder: probes.write_page,
    FinetuningFolder: finetuning.write_page,
}
REDRAW_SECONDS = 20  # minimum seconds between two pages of a followed run
POLL_SECONDS = 0.5  # seconds between two checks of its metrics


def write_page(folder: Path, out: Path | None = None) -> Path:
    """Writes the page of a folder from its records and returns the page's path.

    Args:
        folder: any folder that a command wrote.
        out: for a run, the file to write.

    Raises:
        RunFolderError: the records are inconsistent, or electra did not write the folder.
        ConfigError: `out` was passed for a folder that is not a run.
    """
    folder = Path(folder)
    try:
        page = _draw(folder, out)
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # records are not validated
        detail = f"{type(error).__name__}: {error}"
        fix = "Run electra verify, and restore the record that was edited or damaged"
        raise RunFolderError(f"its records are inconsistent ({detail})", where=folder, fix=fix) from error
    return page


def follow(folder: Path, out: Path | None, stop: Stop, say: Say = quiet) -> Path:
    """Rewrites the page of a run while it trains on this machine, until `stop`; returns the page's path.

    A browser that shows the page reloads it until the run ends. Raises ConfigError if `folder` is not a run,
    and the errors of `write_page`.
    """
    if kind_of(folder) not in (None, RunFolder):
        raise ConfigError("only a run can be followed", key="follow", fix="Omit it")
    metrics = RunFolder(folder).metrics
    drawn_at, drawn_size = -math.inf, -1
    while durable.is_locked(folder) and not stop():
        size = metrics.stat().st_size if metrics.is_file() else 0
        if size != drawn_size and time.monotonic() - drawn_at > REDRAW_SECONDS:
            page = run.write_page(folder, out, REDRAW_SECONDS)
            if drawn_size < 0:
                say(f"{page}: rewritten until the run ends")
            drawn_at, drawn_size = time.monotonic(), size
        time.sleep(POLL_SECONDS)
    return write_page(folder, out)


def _draw(folder: Path, out: Path | None) -> Path:
    kind = kind_of(folder)
    if kind is None or kind is RunFolder:
        if kind is None and folder.is_dir() and not RunFolder(folder).metrics.is_file():
            open_folder(folder)  # raises, naming what is there instead
        return run.write_page(folder, out)  # works for an incomplete run, too
    if out is not None:
        raise ConfigError(f"applies only to runs, not {with_article(kind.KIND)}", key="out", fix="Omit it")
    if kind not in PAGES:
        problem = f"{with_article(kind.KIND)} has no page"
        raise RunFolderError(problem, where=folder, fix="Pass a run or the folder of a result")
    return PAGES[kind](folder)
