"""The models that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

MODELS = Path(__file__).parents[1] / "inference" / "models"


def names() -> list[str]:
    return sorted(path.name for path in MODELS.iterdir() if path.is_dir()) if MODELS.is_dir() else []


def included(name: str) -> Path | None:
    """The folder of the model of this name. None: none such comes with the package, or there is a folder of
    that name here, which goes first.
    """
    return MODELS / name if name in names() and not Path(name).is_dir() else None
