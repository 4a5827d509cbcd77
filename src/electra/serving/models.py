"""A served model: its networks, and the operations that it supports."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from electra.artifacts.model_files import ModelFolder
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.load import Loaded
from electra.exchange.source import locate
from electra.finetuning.predict import Predictor, is_tuned, open_predictor
from electra.foundation.errors import AbsentNetwork, ModelError
from electra.foundation.machine import Device
from electra.foundation.progress import doing
from electra.inference.model import Model

Ability = Literal["detect", "embed", "predict", "fill"]


@dataclass(frozen=True)
class ServedModel:
    """A model, the name that clients use for it, and what predicts with it if it is fine-tuned."""

    name: str
    networks: Model
    predictor: Predictor | None = None

    @cached_property
    def abilities(self) -> tuple[Ability, ...]:
        """The operations that the model supports."""
        if self.predictor is not None:
            return "embed", "predict"
        supported: list[Ability] = ["embed"]
        with suppress(ModelError):
            self.networks.detector()
            supported.insert(0, "detect")
        with suppress(AbsentNetwork):
            _ = self.networks.language_model
            supported.append("fill")
        return tuple(supported)

    @property
    def encoder(self) -> Loaded:
        """The network that gives vectors."""
        return self.networks.encoder if self.predictor is None else self.predictor.loaded

    @property
    def mask(self) -> str:
        """The mask token as written in texts, such as "[MASK]"."""
        tokenizer = self.encoder.tokenizer
        return tokenizer.id_to_token(tokenizer.specials.mask)

    @property
    def tokenizers(self) -> list[Tokenizer]:
        """Those of all networks, each of which counts the tokens that it encodes."""
        loaded = self.networks.loaded.values() if self.predictor is None else [self.predictor.loaded]
        return [each.tokenizer for each in loaded]

    def describe(self) -> dict[str, Any]:
        """Returns the model's entry in the response to GET /models."""
        entry: dict[str, Any] = {"name": self.name, "abilities": list(self.abilities)}
        if "detect" in self.abilities:
            marking = self.networks.detector().marking()
            entry["threshold"], entry["false_alarms"] = marking.threshold, marking.false_alarms
        if self.predictor is None:
            return entry
        task = self.predictor.task
        is_pair = all(len(columns) == 2 for columns in task.texts)
        text_form = "pair" if is_pair else "text"
        input_form = {"tagger": "words", "classifier": text_form}.get(task.head, "rows")
        return {**entry, "task": task.name, "labels": list(self.encoder.labels), "input": input_form}


def open_models(sources: Sequence[str], device: Device = "auto") -> list[ServedModel]:
    """Loads models. Each is named after the last part of its path, or its source if that is ambiguous."""
    stems = [Path(source).expanduser().resolve().name for source in sources]
    names = [stem if stems.count(stem) == 1 else source for stem, source in zip(stems, sources, strict=True)]
    return [_open(name, source, device) for name, source in zip(names, sources, strict=True)]


def _open(name: str, source: str, device: Device) -> ServedModel:
    doing(f"loading {name}")
    backend: Literal["torch", "onnx"] = "onnx" if ModelFolder(locate(source)).holds_graph else "torch"
    opened = Model(source, device=device, backend=backend)
    if is_tuned(source):
        return ServedModel(name, opened, open_predictor(source, device, backend, allow_unknown=True))
    opened.network("encoder")
    return ServedModel(name, opened)
