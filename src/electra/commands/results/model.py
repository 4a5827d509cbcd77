"""A model of a run, a folder or the hub: detects replaced words, embeds texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from electra.artifacts.model import Pooling
from electra.commands.framework.display import ProgressOption, display_for
from electra.commands.framework.shared import Backend
from electra.commands.parts.given import each_text
from electra.foundation.config import convert
from electra.foundation.errors import ConfigError
from electra.foundation.machine import Device
from electra.foundation.options import Source, as_name
from electra.foundation.threads import applied
from electra.inference.opened import OpenModel

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from electra.artifacts.model import Scorer
    from electra.exchange.load import Loaded
    from electra.inference.detection import Detection
    from electra.inference.detector import Detector
    from electra.model.sizes import EncoderConfig

Network = Literal["discriminator", "generator", "language_model"]


class Model(OpenModel):
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
        self,
        source: Source,
        *,
        step: int | None = None,
        device: Device = "auto",
        backend: Backend = "torch",
    ) -> None:
        from electra.exchange.source import locate

        super().__init__(
            source.source if isinstance(source, Model) else as_name(source, "source"),
            convert(int | None, step, "step"),
            convert(Device, device, "device"),
            convert(Backend, backend, "backend"),
        )
        locate(self.source)

    def __fspath__(self) -> str:
        if self.step is not None:
            problem = "a checkpoint of a run cannot be passed as a folder"
            raise ConfigError(problem, where=self.source, fix="Export it first")
        return self.source

    def __repr__(self) -> str:
        at = f" at step {self.step}" * (self.step is not None)
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

    @override
    def detector(self, scorer: Scorer = "auto") -> Detector:
        """Returns what `detect` uses. Raises AbsentNetwork if the model does not have the network."""
        from electra.artifacts.model import Scorer

        return super().detector(convert(Scorer, scorer, "scorer"))

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
        from electra.data import unknown
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
