"""Writes the page of a folder that has facts but no curves: a token store or a model."""

from __future__ import annotations

from pathlib import Path

from electra.artifacts import open_folder
from electra.artifacts.store import StoreFolder
from electra.foundation import durable
from electra.pages.page import Page, Section, Table, publish


def write_page(path: Path) -> Path:
    """Writes a page with what the folder is and what it records, and returns the page's path.

    Raises RunFolderError if electra did not write the folder.
    """
    folder = open_folder(path)
    records = {"What it is": {name: value for name, value in folder.facts() if value is not None}}
    if isinstance(folder, StoreFolder) and folder.audit.is_file():
        records["Audit of the text"] = durable.read_json(folder.audit, folder.ERROR)
    records["Record"] = folder.record
    sections = [Section(title, [Table.pairs(record, numbers=True)]) for title, record in records.items()]
    return publish(Page(folder.path.resolve().name, sections, f"electra {folder.KIND}"), folder.page)
