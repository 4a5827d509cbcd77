"""The page of a folder that has facts and no curves: a token store, a model. Without torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electra.artifacts import open_folder
from electra.artifacts.folder import Folder
from electra.artifacts.store import StoreFolder
from electra.foundation import durable
from electra.pages.page import Block, Number, Section, Table, render, write


def write_page(path: Path) -> Path:
    """Describe the folder and list what it records of itself; returns the page's path."""
    folder = open_folder(path)
    sections = [
        Section("What it is", [Table(("", ""), [fact for fact in folder.facts() if fact[1] is not None])])
    ]
    for title, record in records(folder).items():
        sections.append(Section(title, [table(record)]))
    html = render(folder.path.resolve().name, sections, kicker=f"electra {folder.KIND}")
    write(folder.page, html)
    return folder.page


def records(folder: Folder) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    if isinstance(folder, StoreFolder) and folder.audit.is_file():
        found["What became of the text"] = durable.read_json(folder.audit, folder.ERROR)
    return {**found, "Record": folder.record}


def table(record: Mapping[str, Any]) -> Block:
    """Two columns, names of inner tables joined by dots."""
    return Table(("", ""), [row for name, value in record.items() for row in _rows(str(name), value)])


def _rows(name: str, value: Any) -> list[tuple[object, object]]:
    if isinstance(value, Mapping):
        return [row for key, inner in value.items() for row in _rows(f"{name}.{key}", inner)]
    shown = name.replace("_", " ")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [(shown, Number(value))]
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return [row for number, item in enumerate(value, 1) for row in _rows(f"{name} {number}", item)]
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return [(shown, text)]
