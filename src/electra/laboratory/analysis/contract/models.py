"""A model under study: its networks, loaded on first use."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.folder import distinct_names
from electra.artifacts.model import ModelFolder
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
    """A model from a run folder, a model folder or the hub: finished, or at a checkpoint of its run."""

    name: str
    """Distinct among the models of one analysis."""
    source: str
    step: int | None = None
    """The checkpoint (None: the finished model)."""
    device: torch.device | str = "cpu"
    _loaded: dict[str, Loaded] = field(default_factory=dict, repr=False)
    _digests: dict[str, str] = field(default_factory=dict, repr=False)
    _absent: set[Network] = field(default_factory=set, repr=False)

    def at(self, step: int) -> Model:
        """Returns this model at one of its run's checkpoints."""
        return replace(self, step=step, _loaded={}, _digests={}, _absent=set())

    def network(self, kind: Network) -> Loaded:
        """Returns the network of this kind.

        Raises:
            ModelError: The source is not a model or has no such network; the message says what it is instead.
            CheckpointError: The run has no intact checkpoint at `step`.
        """
        if kind not in self._loaded:
            from electra.exchange.load import load

            self._loaded[kind] = load(self.source, kind, step=self.step).to(self.device)
        return self._loaded[kind]

    def optional(self, kind: Network) -> Loaded | None:
        """Returns the network of this kind, or None if the model has none.

        Raises:
            ModelError: The source is not a model.
            CheckpointError: The run has no intact checkpoint at `step`.
        """
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
    def encoder(self) -> Loaded:
        """The discriminator's encoder, or the masked language model's if there is no discriminator."""
        return self.network("encoder")

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which all networks of a model share."""
        return (next(iter(self._loaded.values()), None) or self.encoder).tokenizer

    @property
    def origin(self) -> Origin | None:
        """How the model was trained; None if its folder does not say."""
        return origin_of(self.source)

    def describe(self) -> dict[str, Any]:
        """Returns the model as in the record: its origin and the networks that were used."""
        networks = {kind: self._describe(kind) for kind in sorted(self._loaded)}
        return {**self._identity(), "networks": networks, "absent": sorted(self._absent)}

    def matches_record(self, recorded: Mapping[str, Any]) -> bool:
        """Whether the model is as recorded: name, source, step, training, weights and missing networks."""
        try:
            networks = {kind: self._describe(kind) for kind in recorded["networks"]}
        except ElectraError:
            return False
        recorded_absent = recorded.get("absent", [])
        still_absent = all(self.optional(kind) is None for kind in recorded_absent)
        return still_absent and dict(recorded) == {
            **self._identity(),
            "networks": networks,
            "absent": recorded_absent,
        }

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
        repeated_name = next(name for name in names if names.count(name) > 1)
        raise ModelError("the model was passed twice", where=repeated_name, fix="Pass each model once")
    return [Model(name, source, device=device) for name, source in zip(names, sources, strict=True)]


def require_same_vocabulary(
    models: Sequence[Model], probe: str, fix: str = "Pass models with the same tokenizer"
) -> None:
    """Checks that the models can be compared by token ids.

    Args:
        models: The models.
        probe: What compares them, for the message.
        fix: What to do instead, for the message.

    Raises:
        ModelError: Two models have different vocabularies.
    """
    for other in models[1:]:
        if other.tokenizer.digest != models[0].tokenizer.digest:
            raise ModelError(
                f"{models[0].name} and {other.name} have different vocabularies, but {probe} compares them"
                " token by token",
                where=other.source,
                fix=fix,
            )
