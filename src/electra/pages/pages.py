"""Writes the page of a folder of any kind."""

from collections.abc import Callable, Mapping
from pathlib import Path

from electra import artifacts
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.foundation.terminal_text import with_article
from electra.pages import finetuning_page as finetuning
from electra.pages import probes
from electra.pages import run_page as run
from electra.pages import study_page as study
from electra.pages import suite_page as suite

PAGES: Mapping[type[artifacts.Folder], Callable[[Path], Path]] = {
    artifacts.RunFolder: run.write_page,
    artifacts.StudyFolder: study.write_page,
    artifacts.EvaluationFolder: suite.write_page,
    artifacts.AnalysisFolder: probes.write_page,
    artifacts.FinetuningFolder: finetuning.write_page,
}


def write_page(folder: Path) -> Path:
    """Writes the page of a folder of any kind and returns its path. Raises RunFolderError for bad records."""
    folder = Path(folder)
    kind = artifacts.kind_of(folder) or type(artifacts.open_folder(folder))  # raises, naming what is there
    if kind not in PAGES:
        problem = f"{with_article(kind.KIND)} has no page"
        raise RunFolderError(problem, where=folder, fix="Pass a run or the folder of a result")
    try:
        with durable.guarded(folder):
            return PAGES[kind](folder)
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # records are not validated
        detail = f"{type(error).__name__}: {error}"
        fix = "Run electra verify, and restore the record that was edited or damaged"
        raise RunFolderError(f"its records are inconsistent ({detail})", where=folder, fix=fix) from error
