"""How a model was trained, as its run folder tells; and what sets two models apart: the seed alone, the
objective, or the recipe.

A difference between objectives means something where it is larger than the one between seeds, so a comparison
has to know which is which. Folders that no run lies around (published models, exports that were moved) tell
nothing of their training.
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
    "another seed",
    "another objective",
    "another recipe",
    "the same training",
    "unknown origin",
)
OF_THE_RECIPE = (
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
    """A training: its objective, its seed, and the rest of its recipe."""

    objective: str
    seed: int
    recipe: Mapping[str, Any] = field(repr=False)

    def describe(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "recipe"}

    def __str__(self) -> str:
        return f"{self.objective}, seed {self.seed}"


def origin_of(source: str) -> Origin | None:
    """Of a run folder, or one of the two model folders in it."""
    path = Path(source).expanduser()
    run = next((RunFolder(folder) for folder in (path, path.parent) if RunFolder.is_at(folder)), None)
    if run is None or (run.path != path and path.name not in EXPORTED):
        return None
    record = run.record
    objective, seed = record.get("objective", {}).get("name"), record.get("training", {}).get("seed")
    if not isinstance(objective, str) or not isinstance(seed, int):
        return None
    return Origin(objective, seed, {name: record[name] for name in OF_THE_RECIPE if name in record})


def apart(first: Origin | None, other: Origin | None) -> str:
    """What sets the other model apart from the first: not options that only one of two records knows."""
    if first is None or other is None:
        return UNKNOWN
    if first.objective != other.objective:
        return OBJECTIVE
    changed = [
        name
        for name, a, b in differences(first.recipe, other.recipe)
        if None not in (a, b) and name not in harmless.WHEN_COMPARED
    ]
    if changed:
        return f"{RECIPE} ({', '.join(changed[:3])}{', ...' if changed[3:] else ''})"
    return SEED if first.seed != other.seed else SAME
