"""A model under study: its networks, loaded on first use, and how it was trained.

A difference between objectives is meaningful if it is larger than the difference between seeds, so a
comparison must tell them apart. A folder outside a run (a published model, a moved export) has no known
origin.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts import resumable_keys
from electra.artifacts.folder import distinct_names
from electra.artifacts.model import ModelFolder
from electra.artifacts.networks import EXPORTED
from electra.artifacts.run import RunFolder
from electra.foundation import durable
from electra.foundation.config import differences
from electra.foundation.errors import AbsentNetwork, ElectraError, ModelError

if TYPE_CHECKING:
    import torch

    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

Network = Literal["discriminator", "generator", "encoder"]
SEED, OBJECTIVE, RECIPE, SAME, UNKNOWN = (
    "a different seed",
    "a different objective",
    "a different recipe",
    "the same training",
    "unknown origin",
)
# The sections of a run's record that say how its model was trained.
RECIPE_KEYS = [
    "model",
    "objective",
    "training",
    "tokenizer",
    "data",
    "generator",
    "discriminator",
    "identity",
]


@dataclass(frozen=True)
class Origin:
    """How a model was trained: objective, seed, and the recipe's sections (those in `RECIPE_KEYS`)."""

    objective: str
    seed: int
    recipe: Mapping[str, Any] = field(repr=False)

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
    changed = [
        name
        for name, a, b in differences(first.recipe, other.recipe)
        if None not in (a, b) and name not in resumable_keys.WHEN_COMPARED
    ]
    if changed:
        return f"{RECIPE} ({', '.join(changed[:3])}{', ...' if changed[3:] else ''})"
    return SEED if first.seed != other.seed else SAME


@dataclass(frozen=True)
class Model:
    """A model from a run folder, a model folder or the hub: finished, or at a checkpoint of its run."""

    name: str
    """Distinct among the models of one analysis."""
    source: str
    step: int | None = None
    """The checkpoint (None: the finished model)."""
    device: torch.device | str = "cpu"
    _loaded: dict[str, Loaded] = field(default_factory=dict, repr=False)
    _digests: dict[str, str] = field(default_factory=dict, repr=False)
    _absent: set[str] = field(default_factory=set, repr=False)

    def at(self, step: int) -> Model:
        """Returns this model at one of its run's checkpoints."""
        return replace(self, step=step, _loaded={}, _digests={}, _absent=set())

    def network(self, kind: Network) -> Loaded:
        """Returns the network of this kind.

        An "encoder" is the discriminator's, or the masked language model's if there is no discriminator.

        Raises:
            ModelError: The source is not a model or has no such network; the message says what it is instead.
            CheckpointError: The run has no intact checkpoint at `step`.
        """
        if kind not in self._loaded:
            from electra.exchange.load import load

            self._loaded[kind] = load(self.source, kind, step=self.step).to(self.device)
        return self._loaded[kind]

    def optional(self, kind: Network) -> Loaded | None:
        """Returns the network of this kind, or None if the model, which must be one, has none."""
        try:
            return self.network(kind)
        except AbsentNetwork:
            self._absent.add(kind)
            return None

    @property
    def discriminator(self) -> Loaded:
        """The discriminator; raises ModelError if there is none."""
        return self.network("discriminator")

    @property
    def generator(self) -> Loaded:
        """The generator or masked language model; raises ModelError if there is none."""
        return self.network("generator")

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which all networks of a model share."""
        return (next(iter(self._loaded.values()), None) or self.network("encoder")).tokenizer

    @property
    def origin(self) -> Origin | None:
        """How the model was trained; None if its folder does not say."""
        return origin_of(self.source)

    def describe(self) -> dict[str, Any]:
        """Returns the model as in the record: its origin and the networks that were used."""
        return self._description(self._loaded, self._absent)

    def matches_record(self, recorded: Mapping[str, Any]) -> bool:
        """Whether the model is as recorded: name, source, step, training, weights and missing networks."""
        absent = recorded.get("absent", [])
        try:
            described = self._description(recorded["networks"], absent)
        except ElectraError:
            return False
        return all(self.optional(kind) is None for kind in absent) and recorded == described

    def _description(self, kinds: Any, absent: Any) -> dict[str, Any]:
        origin = self.origin
        return {
            "name": self.name,
            "source": self.source,
            "step": self.step,
            "training": {"objective": origin.objective, "seed": origin.seed} if origin else None,
            "networks": {kind: self._describe(kind) for kind in sorted(kinds)},
            "absent": sorted(absent),
        }

    def _describe(self, kind: Any) -> dict[str, Any]:
        loaded = self.network(kind)
        weights = ModelFolder(loaded.folder).weights
        if kind not in self._digests and weights.is_file():
            self._digests[kind] = durable.sha256(weights)
        return {
            "layers": loaded.config.num_layers,
            "hidden_size": loaded.config.hidden_size,
            "vocabulary": loaded.tokenizer.vocab_size,
            "tokenizer": loaded.tokenizer.digest[:12],
            "weights": self._digests.get(kind, "")[:12],
        }


def named_models(sources: Sequence[str], device: torch.device | str = "cpu") -> list[Model]:
    """Returns models with distinct names: the folder's name, with parts of its path if needed.

    Raises:
        ModelError: A model was passed twice.
    """
    paths = [Path(os.path.abspath(s) if Path(s).name in ("", "..") else s) for s in sources]
    names = distinct_names([path.parts or (s,) for path, s in zip(paths, sources, strict=True)])
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ModelError("the model was passed twice", where=repeated, fix="Pass each model once")
    return [Model(name, source, device=device) for name, source in zip(names, sources, strict=True)]


def require_same_vocabulary(
    models: Sequence[Model], probe: str, fix: str = "Pass models with the same tokenizer"
) -> None:
    """Raises ModelError, with this `fix`, if two models of a `probe` have different vocabularies."""
    first = models[0]
    for other in models[1:]:
        if other.tokenizer.digest != first.tokenizer.digest:
            problem = f"{first.name} and {other.name} have different vocabularies"
            raise ModelError(
                f"{problem}, but {probe} compares them token by token", where=other.source, fix=fix
            )
