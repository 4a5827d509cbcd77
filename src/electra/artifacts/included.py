"""The models that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

MODELS = Path(__file__).parents[1] / "inference" / "models"


def included_names() -> list[str]:
    """Returns the sorted names of the models that come with the package."""
    return sorted(path.name for path in MODELS.iterdir() if path.is_dir()) if MODELS.is_dir() else []


def included_model(name: str) -> Path | None:
    """Returns the folder of an included model, or None if there is no such model.

    Also None if the working directory has a folder of that name, which takes precedence.
    """
    return MODELS / name if name in included_names() and not Path(name).is_dir() else None
