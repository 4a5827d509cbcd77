"""The data of a fine-tuning that has ended, read anew by its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from electra import durable
from electra.config import build
from electra.errors import ConfigError, DataError
from electra.finetuning.dataset import Dataset, choose_task, locate, read_dataset
from electra.finetuning.settings import Settings

FILES = ("data", "dev", "test", "also")  # settings that say where the data lie


def places(settings: Settings) -> dict[str, Any]:
    """Where the data lie, for the record."""

    def whole(value: Any) -> Any:
        return (
            [whole(one) for one in value] if isinstance(value, tuple) else str(value.expanduser().resolve())
        )

    return {name: whole(value) for name in FILES if (value := getattr(settings, name))}


def read_again(record: Mapping[str, Any], out: Path, data: Path | None = None) -> Dataset:
    """The splits as they were in training.

    data: where they lie now, as the setting `data` names them (None: where they lay).
    Raises ConfigError where that is not known, DataError where other data lie there.
    """
    known = {"data": data} if data is not None else record.get("environment", {}).get("data", {})
    if not known:
        what = "where its training data lay is not recorded"
        raise ConfigError(what, where=out, fix="Pass `data`: their file or folder")
    names = {field.name for field in fields(Settings)}
    settled = {
        name: value for name, value in record["settings"].items() if name in names and value is not None
    }
    settings = build(Settings, {**settled, **known, "task": record["task"], "out": out}, where=str(out))
    task = choose_task(settings)
    paths, digests = locate(settings, task), record["identity"]["data"]
    for split in ("train", "dev"):
        if (durable.sha256(paths[split]) if split in paths else None) != digests.get(split):
            what, fix = f"not the {split} data of this fine-tuning", "Pass `data`: what it was given"
            raise DataError(what, where=paths.get(split, settings.data), fix=fix)
    return read_dataset(settings, task)
