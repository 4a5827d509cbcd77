"""A model at work: its networks, each loaded when it is first used, and what detects with them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from electra.foundation.errors import AbsentNetwork
from electra.foundation.progress import doing

if TYPE_CHECKING:
    from electra.artifacts.model import Scorer
    from electra.exchange.load import Loaded
    from electra.exchange.weight_names import Kind
    from electra.foundation.machine import Device
    from electra.inference.detector import Detector


@dataclass(eq=False)
class OpenModel:
    """The networks of a run, a model folder or a model on the hub."""

    source: str
    """A folder, or a name on the hub."""
    step: int | None = None
    device: Device = "auto"
    backend: Literal["torch", "onnx"] = "torch"
    loaded: dict[Kind, Loaded] = field(default_factory=dict)
    """The networks that were loaded so far."""
    _detectors: dict[Scorer, Detector] = field(default_factory=dict)

    def network(self, kind: Kind) -> Loaded:
        """Returns a network by kind; "encoder" means the discriminator, or the model's only network.

        Raises AbsentNetwork if there is none, and ModelError or CheckpointError if it is damaged.
        """
        if kind not in self.loaded:
            from electra.exchange.load import load
            from electra.exchange.source import locate
            from electra.model.precision import pick_device

            doing(f"loading {self.source}")
            if self.backend == "onnx":
                from electra.exchange.onnx_graph import load_onnx

                found = load_onnx(locate(self.source), kind)
            else:
                found = load(self.source, kind, step=self.step).to(pick_device(self.device))
            self.loaded[kind] = found
            self.loaded.setdefault(found.kind, found)
        return self.loaded[kind]

    @property
    def encoder(self) -> Loaded:
        """The network that fine-tuning starts from: the discriminator, if there is one."""
        return self.network("encoder")

    @property
    def language_model(self) -> Loaded:
        """The masked language model: the full-size one if there is one, else the generator."""
        return self._full_size_language_model or self.network("generator")

    @cached_property
    def _full_size_language_model(self) -> Loaded | None:
        from electra.exchange.load import load_language_model
        from electra.exchange.source import locate
        from electra.model.precision import pick_device

        if self.step is not None or self.backend == "onnx":
            return None
        found = load_language_model(locate(self.source))
        return None if found is None else found.to(pick_device(self.device))

    def optional(self, kind: Kind) -> Loaded | None:
        """Returns a network by kind, or None if the model does not have it."""
        with suppress(AbsentNetwork):
            return self.network(kind)
        return None

    def pair(self) -> tuple[Loaded | None, Loaded | None]:
        """Returns the discriminator and the generator, or None. Raises AbsentNetwork without both."""
        generator, discriminator = self.optional("generator"), self.optional("discriminator")
        if discriminator is None and generator is None:
            self.network("discriminator")  # says what the model is instead
        return discriminator, generator

    def detector(self, scorer: Scorer = "auto") -> Detector:
        """Returns what `detect` uses. Raises AbsentNetwork if the model does not have the network."""
        if scorer not in self._detectors:
            from electra.inference.detector import choose

            full = self._full_size_language_model
            networks = self.pair() if full is None else (self.optional("discriminator"), full)
            self._detectors[scorer] = choose(self.source, scorer, *networks, full is not None)
        return self._detectors[scorer]
