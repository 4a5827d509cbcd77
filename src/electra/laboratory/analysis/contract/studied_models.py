"""A model under study: its networks, loaded on first use."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from electra.artifacts.folder import distinct_names
from electra.artifacts.model_files import ModelFolder
from electra.foundation import durable
from electra.foundation.errors import ElectraError, ModelError
from electra.inference.model import Model

if TYPE_CHECKING:
    import torch

    from electra.data.corpus.tokenizer import Tokenizer
    from electra.exchange.load import Loaded
    from electra.exchange.weight_names import Kind
    from electra.inference.detector import Detector

Network = Literal["discriminator", "generator", "encoder"]


class StudiedModel(Model):
    """A model under study: it has a name, and says which of its networks were used."""

    def __init__(
        self,
        name: str,
        source: str,
        device: torch.device | str = "cpu",
        loaded: Mapping[str, Loaded] | None = None,
    ) -> None:
        """`name` is distinct among the models of one analysis; networks may be passed instead of loaded."""
        self.name, self.source, self.step = name, source, None
        self.device, self.backend = str(device), "torch"  # type: ignore[assignment]
        self.loaded = dict(loaded or {})  # type: ignore[arg-type, assignment]
        self.used: dict[str, Loaded] = dict(loaded or {})
        self._digests: dict[str, str] = {}
        self._absent: set[str] = set()
        self._detectors: dict[Any, Detector] = {}

    @override
    def network(self, kind: Kind) -> Loaded:
        self.used[kind] = super().network(kind)
        return self.used[kind]

    @override
    def optional(self, kind: Kind) -> Loaded | None:
        found = super().optional(kind)
        if found is None:
            self._absent.add(kind)
        return found

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
        return (next(iter(self.used.values()), None) or self.network("encoder")).tokenizer

    def describe(self) -> dict[str, Any]:
        """Returns the model as in the record, with the networks that were used."""
        return self._description(self.used, self._absent)

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


def named_models(sources: Sequence[str], device: torch.device | str = "cpu") -> list[StudiedModel]:
    """Returns models named by their folders, with parts of the path if needed; ModelError for one twice."""
    paths = [Path(os.path.abspath(s) if Path(s).name in ("", "..") else s) for s in sources]
    names = distinct_names([path.parts or (s,) for path, s in zip(paths, sources, strict=True)])
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ModelError("the model was passed twice", where=repeated, fix="Pass each model once")
    return [StudiedModel(name, source, device) for name, source in zip(names, sources, strict=True)]
