"""How a model was trained, from its run folder, and how two runs differ: seed, objective or recipe.

A difference between objectives is meaningful if it is larger than the difference between seeds, so a
comparison must tell them apart. A folder outside a run (a published model, a moved export) has no known
origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from electra.artifacts import harmless
from electra.artifacts.networks import EXPORTED
from electra.artifacts.run import RunFolder
from electra.foundation.config import differences

SEED, OBJECTIVE, RECIPE, SAME, UNKNOWN = (
    "a different seed",
    "a different objective",
    "a different recipe",
    "the same training",
    "unknown origin",
)
RECIPE_KEYS = (
    "model",
    "objective",
    "training",
    "tokenizer",
    "data",
    "generator",
    "discriminator",
    "identity",
)


@dataclass(frozen=True)
class Origin:
    """How a model was trained: objective, seed, and the recipe's sections (those in `RECIPE_KEYS`)."""

    objective: str
    seed: int
    recipe: Mapping[str, Any] = field(repr=False)

    def describe(self) -> dict[str, Any]:
        """Returns the objective and the seed, as in the record."""
        return {name: value for name, value in asdict(self).items() if name != "recipe"}

    def __str__(self) -> str:
        return f"{self.objective}, seed {self.seed}"


def origin_of(source: str) -> Origin | None:
    """Returns the origin of a run folder or of a model exported in it; None if it cannot be known.

    Raises:
        RunFolderError: The run's record is damaged.
    """
    path = Path(source).expanduser()
    run = next((RunFolder(folder) for folder in (path, path.parent) if RunFolder.is_at(folder)), None)
    if run is None or (run.path != path and path.name not in EXPORTED):
        return None
    record = run.record
    objective, seed = record.get("objective", {}).get("name"), record.get("training", {}).get("seed")
    if not isinstance(objective, str) or not isinstance(seed, int):
        return None
    return Origin(objective, seed, {name: record[name] for name in RECIPE_KEYS if name in record})


def difference(first: Origin | None, other: Origin | None) -> str:
    """Returns how the other training differs from the first: one of the constants above.

    `RECIPE` is followed by the names of at most three options. Options that only one of their records has are
    ignored.
    """
    if first is None or other is None:
        return UNKNOWN
    if first.objective != other.objective:
        return OBJECTIVE
    changed_options = [
        name
        for name, a, b in differences(first.recipe, other.recipe)
        if None not in (a, b) and name not in harmless.WHEN_COMPARED
    ]
    if changed_options:
        return f"{RECIPE} ({', '.join(changed_options[:3])}{', ...' if changed_options[3:] else ''})"
    return SEED if first.seed != other.seed else SAME
