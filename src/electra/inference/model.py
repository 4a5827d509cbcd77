"""A model of a run, a folder or the hub: its networks, loaded when first used, and what they do."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.model_files import Pooling
from electra.data.tables.passages import each_text
from electra.foundation.config import convert
from electra.foundation.display import ProgressOption, display_for
from electra.foundation.errors import AbsentNetwork, ConfigError
from electra.foundation.machine import Backend, Device
from electra.foundation.options import Source, as_name
from electra.foundation.progress import doing
from electra.foundation.threads import applied

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from electra.artifacts.model_files import Scorer
    from electra.exchange.load import Loaded
    from electra.exchange.weight_names import Kind
    from electra.inference.detection import Detection
    from electra.inference.detector import Detector
    from electra.model.sizes import EncoderConfig

Network = Literal["discriminator", "generator", "language_model"]


class Model:
    """The networks of a run, a model folder or a model on the hub. Each is loaded when it is first used.

    Args:
        source: a run folder, a model folder (for a fine-tuned model, its subfolder model/), or a hub name.
        step: the step of a checkpoint (None: the finished networks, or the newest checkpoint).
        device: "auto" uses a GPU if there is one.
        backend: "onnx" runs a folder that `export_onnx` wrote, on the CPU.

    Raises:
        ModelError: there is no such model, or the hub cannot be reached.
    """

    def __init__(
        self, source: Source, *, step: int | None = None, device: Device = "auto", backend: Backend = "torch"
    ) -> None:
        from electra.exchange.source import locate

        self.source: str = source.source if isinstance(source, Model) else as_name(source, "source")
        """A folder, or a name on the hub."""
        self.step: int | None = convert(int | None, step, "step")
        self.device: Device = convert(Device, device, "device")
        self.backend: Backend = convert(Backend, backend, "backend")
        self.loaded: dict[Kind, Loaded] = {}
        """The networks that were loaded so far."""
        self._detectors: dict[Scorer, Detector] = {}
        locate(self.source)

    def __fspath__(self) -> str:
        if self.step is not None:
            problem = "a checkpoint of a run cannot be passed as a folder"
            raise ConfigError(problem, where=self.source, fix="Export it first")
        return self.source

    def __repr__(self) -> str:
        at = "" if self.step is None else f" at step {self.step}"
        shape = f"{self.config.architecture}, {self.config.num_layers} layers of {self.config.hidden_size}"
        return f"<Model {self.source!r}{at}: {shape}, {self.num_parameters / 1e6:.1f} M parameters>"

    @property
    def config(self) -> EncoderConfig:
        """The shape and architecture of the encoder."""
        return self.encoder.config

    @property
    def num_parameters(self) -> int:
        """The number of parameters of the encoder, embeddings included."""
        return sum(parameter.numel() for parameter in self.encoder.encoder.parameters())

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
        from electra.artifacts.model_files import Scorer

        scorer = convert(Scorer, scorer, "scorer")
        if scorer not in self._detectors:
            from electra.inference.detector import choose

            full = self._full_size_language_model
            networks = self.pair() if full is None else (self.optional("discriminator"), full)
            self._detectors[scorer] = choose(self.source, scorer, *networks, full is not None)
        return self._detectors[scorer]

    def detect(
        self,
        texts: str | Iterable[str],
        threshold: float | None = None,
        *,
        false_alarms: float = 0.01,
        clean: Iterable[str] | None = None,
        scorer: Scorer = "auto",
        suggestions: int = 3,
        near: bool = False,
        allow_unknown: bool = False,
    ) -> list[Detection]:
        """Returns the probability that each word was replaced, and suggestions for the marked words.

        Args:
            texts: one text or several; long ones are read in windows.
            threshold: the lowest P(replaced) at which a word is marked (None: by `false_alarms`).
            false_alarms: the share of clean words to mark.
            clean: clean text on which that is measured (None: the model's record).
            scorer: as the option of `electra detect`.
            suggestions: how many words to suggest for each marked one.
            near: whether to suggest only near spellings.
            allow_unknown: whether to accept texts of which most tokens are unknown to the tokenizer.

        Raises AbsentNetwork if the model does not have a network, DataError for what is no text, and
        TokenizerError if too many tokens are unknown.
        """
        inputs, threshold = list(each_text(texts)), convert(float | None, threshold, "threshold")
        how: dict[str, Any] = {"suggestions": suggestions, "near": near, "allow_unknown": allow_unknown}
        with applied(None):
            detector = self.detector(scorer)
            return list(detector(inputs, detector.marking(threshold, false_alarms, clean).threshold, **how))

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        pooling: Pooling | None = None,
        allow_unknown: bool = False,
        progress: ProgressOption = "quiet",
    ) -> npt.NDArray[np.float32]:
        """Returns float32 [N, D]: a vector for each of N texts, from the last layer of width D.

        Args:
            texts: one text or several.
            pooling: how token vectors become one vector (None: as recorded in the model folder, else the
                mean; for a classifier, the vector that its head uses).
            allow_unknown: whether to accept texts of which most tokens are unknown to the tokenizer.
            progress: where to show progress.

        Raises:
            DataError: an input is not a text.
            TokenizerError: too many tokens are unknown.
        """
        from electra.data.corpus import unknown
        from electra.inference.embedding import embed

        inputs = list(unknown.read(self.encoder.tokenizer, each_text(texts), allow_unknown))
        with display_for(progress) as display, applied(None):
            show = lambda share: display.progress(f"embedding: {share:.0%}", share)  # noqa: E731
            return embed(self.encoder, inputs, pooling, progress=show)

    def chosen(self, network: Network | None) -> Loaded:
        """Returns the network that `export` writes (None: the discriminator, or the only network)."""
        kind = convert(Network | None, network, "network")
        return self.language_model if kind == "language_model" else self.network(kind or "encoder")


load = Model  # electra.load("runs/mine", step=1000)
