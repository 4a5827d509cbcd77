"""The models that come with the package, by name."""

from pathlib import Path

MODELS = Path(__file__).parents[1] / "inference" / "models"


def included_names() -> list[str]:
    """Returns the sorted names of the models that come with the package."""
    return sorted(path.name for path in MODELS.iterdir() if path.is_dir()) if MODELS.is_dir() else []


def included_model(name: str) -> Path | None:
    """Returns an included model's folder; None if there is none, or a folder here has the same name."""
    return MODELS / name if name in included_names() and not Path(name).is_dir() else None
