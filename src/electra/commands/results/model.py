"""A model ready for use: detect replaced words, show an example, embed texts, export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Literal

from electra.artifacts.model import Dtype, Pooling
from electra.artifacts.run import RunFolder
from electra.commands.framework.command import Source
from electra.commands.framework.display import Told, display_for
from electra.commands.framework.renames import renamed
from electra.commands.parts.shared import Backend
from electra.commands.results.artifact import given_path
from electra.commands.results.rows import Rows, each_text, html_card
from electra.foundation.config import convert
from electra.foundation.errors import AbsentNetwork, ConfigError, DataError
from electra.foundation.machine import Device
from electra.foundation.options import given_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from electra.artifacts.model import Judge
    from electra.exchange.load import Loaded
    from electra.exchange.names import Kind
    from electra.exchange.onnx_graph import ExportReport
    from electra.inference.detection import Detection
    from electra.model.sizes import EncoderConfig

Network = Literal["discriminator", "generator", "language_model"]


class Model:
    """The networks of a run or a model folder. Each is loaded when it is first needed."""

    def __init__(
        self,
        source: Source,
        *,
        step: int | None = None,
        average: int | None = None,
        device: Device = "auto",
        backend: Backend = "torch",
    ) -> None:
        from electra.exchange.source import locate

        self.source: str = source.source if isinstance(source, Model) else given_name(source, "source")
        """As it was given: a folder, or a name on the hub."""
        self.step: int | None = convert(int | None, step, "step")
        self.average: int | None = convert(int | None, average, "average")
        self.device: Device = convert(Device, device, "device")
        self.backend: Backend = convert(Backend, backend, "backend")
        locate(self.source)

    def __fspath__(self) -> str:
        if self._of_checkpoints:
            raise ConfigError(
                "a checkpoint of a run cannot be given as a folder", where=self.source, fix="Export it first"
            )
        return self.source

    def network(self, kind: Kind) -> Loaded:
        """The discriminator, the generator, or ("encoder") whatever there is. Raises AbsentNetwork."""
        if kind not in self._networks:
            from electra.exchange.load import load as load_network
            from electra.model.precision import pick_device

            if self.backend == "onnx":
                from electra.exchange.onnx_session import load_onnx
                from electra.exchange.source import locate

                self._networks[kind] = load_onnx(locate(self.source), kind)
                return self._networks[kind]
            loaded = load_network(self.source, kind, step=self.step, average=self.average)
            self._networks[kind] = loaded.to(pick_device(self.device))
        return self._networks[kind]

    @property
    def _of_checkpoints(self) -> bool:
        return self.step is not None or self.average is not None

    @cached_property
    def _networks(self) -> dict[Kind, Loaded]:
        return {}

    @property
    def encoder(self) -> Loaded:
        """The network that fine-tuning starts from: the discriminator's, where there is one."""
        return self.network("encoder")

    @cached_property
    def language_model(self) -> Loaded:
        """The masked language model: the full-size one, where there is one, else the generator."""
        return self._full_size_language_model or self.network("generator")

    @cached_property
    def _full_size_language_model(self) -> Loaded | None:
        from electra.exchange.load import load_language_model
        from electra.exchange.source import locate
        from electra.model.precision import pick_device

        if self._of_checkpoints or self.backend == "onnx":
            return None
        found = load_language_model(locate(self.source))
        return None if found is None else found.to(pick_device(self.device))

    def judge(self, scorer: Judge = "auto") -> Loaded:
        """The network that `detect` asks. "auto": the full-size masked language model where the model comes
        with one, else the discriminator.
        """
        from electra.artifacts.model import Judge

        convert(Judge, scorer, "scorer")
        if scorer == "language-model":
            return self.language_model
        if scorer == "auto" and self._full_size_language_model is not None:
            return self._full_size_language_model
        return self.network("discriminator")

    @property
    def config(self) -> EncoderConfig:
        """Shape and architecture of the encoder."""
        return self.encoder.config

    @property
    def num_parameters(self) -> int:
        """Of the encoder, embeddings included."""
        return sum(parameter.numel() for parameter in self.encoder.encoder.parameters())

    @renamed(by="scorer")
    def detect(
        self, texts: str | Iterable[str], threshold: float | None = None, *, scorer: Judge = "auto"
    ) -> list[Detection]:
        """The probability that a word was replaced, for each text in its order.

        A Detection has `words` and `tokens` (each with its text, `start` and `end` in characters, and
        `p_replaced`), and `marked`, the words of at least `threshold` (None: the one that was best on the
        model's held-out text); `suspects()` are the likeliest. Long texts are read in windows. Raises
        AbsentNetwork where the model has no such network.

        scorer: "discriminator" judges a text in one pass. "language-model" hides each word in turn and asks
            how likely it is there: a pass a word, better at words that no generator would have written (see
            `electra.inference.mlm_detection`). "auto" is the latter where the model comes with a full-size
            masked language model, as tiny-en does.
        """
        return list(self.detections(list(each_text(texts)), threshold, scorer=scorer))

    @renamed(by="scorer")
    def detections(
        self, texts: Iterable[str], threshold: float | None = None, *, scorer: Judge = "auto"
    ) -> Iterator[Detection]:
        """As `detect`, one text after another: `texts` may be longer than memory."""
        from electra.inference.mlm_detection import detect_with

        threshold = convert(float | None, threshold, "threshold")
        return detect_with(self.judge(scorer), each_text(texts), threshold=threshold)

    @renamed(masked="mask_fraction")
    def table(
        self,
        text: str | None = None,
        *,
        seed: int = 1,
        mask_fraction: float = 0.4,
        generator: Source | None = None,
    ) -> Rows:
        """One row a token: Original, Masked, Generated, Label, P(replaced).

        A share of `mask_fraction` of the tokens is masked and filled in by the generator, drawn from `seed`;
        the discriminator judges the result. Without a generator the text is judged as it stands.

        text: of a run, by default a sentence of its own held-out text; of another model, "the chef cooked the
            meal".
        generator: where it is, when this model does not hold both.
        """
        from electra.inference.examples import COLUMNS, SENTENCE, example_rows

        if text is None:
            text = next(iter(RunFolder(Path(self.source).expanduser()).example_texts()), SENTENCE)
        if not isinstance(text, str):
            raise DataError(f"{shortened(text)} is not a text", where="text", fix="Give one sentence")
        seed, share = convert(int, seed, "seed"), convert(float, mask_fraction, "mask_fraction")
        if not 0 < share <= 1:
            raise ConfigError(f"must be above 0 and at most 1, not {share}", key="mask_fraction")
        rows = example_rows(*self.pair(generator), text, seed=seed, masked=share)
        return Rows(dict(zip(COLUMNS, row.values(), strict=True)) for row in rows)

    def pair(self, generator: Source | None = None) -> tuple[Loaded | None, Loaded | None]:
        """(discriminator, generator), the latter from elsewhere where that is given; None: there is none."""
        if generator is not None:
            return self.network("discriminator"), load(generator, device=self.device).network("generator")

        def found(kind: Kind) -> Loaded | None:
            try:
                return self.network(kind)
            except AbsentNetwork:
                return None

        pair = found("discriminator"), found("generator")
        if pair == (None, None):
            self.network("discriminator")  # raises
        return pair

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        pooling: Pooling | None = None,
        progress: Told = "quiet",
    ) -> npt.NDArray[np.float32]:
        """float32 [N, D]: one vector of each of N texts, by the encoder's last layer of width D.

        pooling: "mean" of all tokens, or "cls" (None: what the folder says, the mean where it says nothing;
            of a classifier, what its head reads).
        """
        from electra.inference.embedding import embed

        given = list(each_text(texts))
        with display_for(progress) as display:
            return embed(
                self.encoder,
                given,
                pooling,
                progress=lambda share: display.progress(f"embedding: {share:.0%}", share),
            )

    def export(
        self,
        out: Source,
        *,
        network: Network | None = None,
        dtype: Dtype = "float32",
    ) -> Model:
        """Write a network as a folder that transformers loads. `out` must be new, or a model folder.

        network: None is the discriminator, or the only one there is.
        """
        self.write(out, network, dtype)
        return Model(out, device=self.device)

    def write(self, out: Source, network: Network | None, dtype: Dtype) -> Loaded:
        """As `export`; the network that was written."""
        from electra.exchange.transfer import export
        from electra.finetuning.predict import refuse_tuned

        path, kind = given_path(out, "out"), convert(Network | None, network, "network")
        refuse_tuned(self.source)
        loaded = self.language_model if kind == "language_model" else self.network(kind or "encoder")
        export(loaded, path, self.source, dtype=dtype)
        return loaded

    def export_onnx(self, out: Source, *, int8: bool = False) -> ExportReport:
        """Write the discriminator, a bare encoder or a fine-tuned model as a folder with an ONNX graph; how
        the two compare.

        int8: 8-bit weights. Raises ModelError, and writes nothing, where the graph computes something else.
        """
        from electra.exchange.onnx_graph import write_onnx
        from electra.finetuning.predict import export_tuned, is_tuned

        if not self._of_checkpoints and is_tuned(self.source):
            return export_tuned(self.source, given_path(out, "out"), int8=int8)
        return write_onnx(self.encoder, given_path(out, "out"), int8=int8)

    def facts(self) -> list[tuple[str, Any]]:
        config = self.config
        return [
            ("kind", self.encoder.kind),
            ("encoder", config.architecture),
            ("layers", f"{config.num_layers} of {config.hidden_size}"),
            ("parameters", f"{self.num_parameters / 1e6:.1f} M"),
            ("vocabulary", f"{config.vocab_size:,}"),
            ("labels", ", ".join(self.encoder.labels) or None),
        ]

    def __repr__(self) -> str:
        at = "" if self.step is None else f" at step {self.step}"
        at += "" if self.average is None else f", mean of {self.average}"
        return (
            f"<Model {self.source!r}{at}: {', '.join(f'{n} {v}' for n, v in self.facts() if v is not None)}>"
        )

    def _repr_html_(self) -> str:
        return html_card(f"Model: {self.source}", [fact for fact in self.facts() if fact[1] is not None])


def load(
    source: Source,
    *,
    step: int | None = None,
    average: int | None = None,
    device: Device = "auto",
    backend: Backend = "torch",
) -> Model:
    """A model out of a run, a model folder (of a fine-tuning, the folder model/ in it), or a name on the hub.

    step: a checkpoint of a run (None: the finished networks, or the newest checkpoint).
    average: the mean of the weights of its last so many checkpoints that verify, up to that of `step` where
        it is given; of every trainable parameter, summed in float64.
    device: "auto" is a GPU where there is one.
    backend: "onnx" runs a folder that `export_onnx` wrote, on the CPU.
    """
    return Model(source, step=step, average=average, device=device, backend=backend)
