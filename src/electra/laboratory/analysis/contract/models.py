"""A model under study: its networks, loaded when they are first asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.folder import distinct_names
from electra.artifacts.model import WEIGHTS
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, ElectraError, ModelError
from electra.laboratory.analysis.contract.origin import Origin, origin_of

if TYPE_CHECKING:
    import torch

    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

Network = Literal["discriminator", "generator", "encoder"]


@dataclass(frozen=True)
class Model:
    """A run folder, an exported or published folder, or a hub name; at its end or at a checkpoint."""

    name: str  # distinct among the models of one analysis
    source: str
    step: int | None = None
    device: torch.device | str = "cpu"
    _loaded: dict[str, Loaded] = field(default_factory=dict, repr=False)
    _digests: dict[str, str] = field(default_factory=dict, repr=False)
    _absent: set[Network] = field(default_factory=set, repr=False)  # looked for, and not there

    def at(self, step: int) -> Model:
        """This model at one of its run's checkpoints."""
        return replace(self, step=step, _loaded={}, _digests={}, _absent=set())

    def network(self, kind: Network) -> Loaded:
        """The network, or one line that says what the source is instead."""
        if kind not in self._loaded:
            from electra.exchange.load import load

            self._loaded[kind] = load(self.source, kind, step=self.step).to(self.device)
        return self._loaded[kind]

    def optional(self, kind: Network) -> Loaded | None:
        """The network, or None when this model has none."""
        try:
            return self.network(kind)
        except AbsentNetwork:
            self._absent.add(kind)
            return None

    @property
    def discriminator(self) -> Loaded:
        return self.network("discriminator")

    @property
    def generator(self) -> Loaded:
        return self.network("generator")

    @property
    def encoder(self) -> Loaded:
        """The encoder to build on: a run's discriminator, or its masked language model where it has none."""
        return self.network("encoder")

    @property
    def tokenizer(self) -> Tokenizer:
        return (next(iter(self._loaded.values()), None) or self.encoder).tokenizer

    @property
    def origin(self) -> Origin | None:
        """How it was trained, where its folder tells."""
        return origin_of(self.source)

    def describe(self) -> dict[str, Any]:
        """For the record: what was measured."""
        networks = {kind: self._describe(kind) for kind in sorted(self._loaded)}
        return {**self._identity(), "networks": networks, "absent": sorted(self._absent)}

    def is_still(self, described: Mapping[str, Any]) -> bool:
        """Whether it is what was described: name, training and weights, and the networks that it lacked."""
        try:
            now = {kind: self._describe(kind) for kind in described["networks"]}
        except ElectraError:
            return False
        absent = described.get("absent", [])
        still = all(self.optional(kind) is None for kind in absent)
        return still and dict(described) == {**self._identity(), "networks": now, "absent": absent}

    def _identity(self) -> dict[str, Any]:
        origin = self.origin
        return {
            "name": self.name,
            "source": self.source,
            "step": self.step,
            "training": origin.describe() if origin else None,
        }

    def _describe(self, kind: Any) -> dict[str, Any]:
        loaded = self.network(kind)
        weights = loaded.folder / WEIGHTS
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
    """Models named by their folders, with as much of the path before as tells them apart."""
    parts = [
        Path(os.path.abspath(source) if Path(source).name in ("", "..") else source).parts or (source,)
        for source in sources
    ]
    names = distinct_names(parts)
    if len(set(names)) < len(names):
        raise ModelError(
            "named twice",
            where=next(name for name in names if names.count(name) > 1),
            fix="Name each model once",
        )
    return [Model(name, source, device=device) for name, source in zip(names, sources, strict=True)]


def require_same_vocabulary(
    models: Sequence[Model], probe: str, fix: str = "Give models of one tokenizer"
) -> None:
    """Refuse by name what cannot be compared id by id."""
    for other in models[1:]:
        if other.tokenizer.digest != models[0].tokenizer.digest:
            raise ModelError(
                f"{models[0].name} and {other.name} have different vocabularies, and {probe} compares token"
                " by token",
                where=other.source,
                fix=fix,
            )
