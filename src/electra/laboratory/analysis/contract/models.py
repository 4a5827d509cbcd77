"""A model under study: its networks, loaded on first use."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.folder import distinct_names
from electra.artifacts.model import ModelFolder
from electra.data.unknown import Count, note
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, ElectraError, ModelError

if TYPE_CHECKING:
    import torch

    from electra.data.tokenizer import Tokenizer
    from electra.exchange.load import Loaded

Network = Literal["discriminator", "generator", "encoder"]


@dataclass(frozen=True)
class Model:
    """A model from a run folder, a model folder or the hub."""

    name: str  # distinct among the models of one analysis
    source: str
    device: torch.device | str = "cpu"
    _loaded: dict[str, Loaded] = field(default_factory=dict, repr=False)
    _digests: dict[str, str] = field(default_factory=dict, repr=False)
    _absent: set[str] = field(default_factory=set, repr=False)

    def network(self, kind: Network) -> Loaded:
        """Returns the network of this kind; ModelError if the source has none, or is no model.

        An "encoder" is the discriminator's, or the masked language model's if there is no discriminator.
        """
        if kind not in self._loaded:
            from electra.exchange.load import load

            self._loaded[kind] = load(self.source, kind).to(self.device)
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

    def count_anew(self) -> None:
        """Forgets which tokens were counted so far."""
        for loaded in self._loaded.values():
            loaded.tokenizer.counted = Count()

    def unknown_note(self, allow: bool) -> str:
        """Returns the note on the unknown tokens that were counted; see `electra.data.unknown.note`."""
        counted = (note(loaded.tokenizer, allow) for loaded in self._loaded.values())
        line = next(filter(None, counted), "")
        return f"{self.name}: {line}" if line else ""

    def describe(self) -> dict[str, Any]:
        """Returns the model as in the record, with the networks that were used."""
        return self._description(self._loaded, self._absent)

    def matches_record(self, recorded: Mapping[str, Any]) -> bool:
        """Whether the model is as recorded: name, source, weights and missing networks."""
        absent = recorded.get("absent", [])
        try:
            described = self._description(recorded["networks"], absent)
        except ElectraError:
            return False
        # Earlier versions also recorded how it was trained.
        return all(self.optional(kind) is None for kind in absent) and described.items() <= recorded.items()

    def _description(self, kinds: Any, absent: Any) -> dict[str, Any]:
        networks = {kind: self._describe(kind) for kind in sorted(kinds)}
        return {"name": self.name, "source": self.source, "networks": networks, "absent": sorted(absent)}

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
    """Returns models named by their folders, with parts of the path if needed; ModelError for one twice."""
    paths = [Path(os.path.abspath(s) if Path(s).name in ("", "..") else s) for s in sources]
    names = distinct_names([path.parts or (s,) for path, s in zip(paths, sources, strict=True)])
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ModelError("the model was passed twice", where=repeated, fix="Pass each model once")
    return [Model(name, source, device=device) for name, source in zip(names, sources, strict=True)]
