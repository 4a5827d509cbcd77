"""Writes the page of a folder of any kind."""

from __future__ import annotations

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
from electra.foundation.errors import ConfigError, RunFolderError
from electra.foundation.terminal_text import with_article
from electra.pages import finetuning, probes, run, study, suite

PAGES: Mapping[type[Folder], Callable[[Path], Path]] = {
    StudyFolder: study.write_page,
    EvaluationFolder: suite.write_page,
    AnalysisFolder: probes.write_page,
    FinetuningFolder: finetuning.write_page,
}


def write_page(folder: Path, out: Path | None = None) -> Path:
    """Writes the page of a folder of any kind (of a run, to `out`). Raises RunFolderError for bad records."""
    folder = Path(folder)
    try:
        return _draw(folder, out)
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # records are not validated
        detail = f"{type(error).__name__}: {error}"
        fix = "Run electra verify, and restore the record that was edited or damaged"
        raise RunFolderError(f"its records are inconsistent ({detail})", where=folder, fix=fix) from error


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
