"""A served model: its networks, and the operations that it supports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from electra.artifacts.model import ModelFolder, Scorer
from electra.data.unknown import Count
from electra.exchange.load import Loaded, load, load_language_model
from electra.exchange.onnx_graph import load_onnx
from electra.exchange.source import locate
from electra.finetuning.predict import DEFAULT_TASKS, Predictor, is_tuned, open_predictor
from electra.foundation.errors import AbsentNetwork, ModelError
from electra.foundation.progress import doing
from electra.inference.detector import Detector, choose
from electra.model.precision import pick_device

Ability = Literal["detect", "embed", "predict", "fill"]


@dataclass(frozen=True)
class ServedModel:
    """A model, the name that clients use for it, and those of its networks that exist."""

    name: str
    encoder: Loaded
    discriminator: Loaded | None = None
    generator: Loaded | None = None
    predictor: Predictor | None = None
    language_model: Loaded | None = None

    @property
    def abilities(self) -> tuple[Ability, ...]:
        """The operations that the model supports."""
        supported: dict[Ability, bool] = {
            "detect": self.detector("auto") is not None,
            "embed": True,
            "predict": self.predictor is not None,
            "fill": (self.language_model or self.generator) is not None,
        }
        return tuple(ability for ability, is_supported in supported.items() if is_supported)

    @property
    def mask(self) -> str:
        """The mask token as written in texts, such as "[MASK]"."""
        tokenizer = self.encoder.tokenizer
        return tokenizer.id_to_token(tokenizer.specials.mask)

    def detector(self, scorer: Scorer) -> Detector | None:
        """Returns what detects, chosen as in `electra.load(...).detect`; None if a network is absent."""
        language_model = self.language_model or self.generator
        try:
            return choose(
                self.name, scorer, self.discriminator, language_model, self.language_model is not None
            )
        except ModelError:
            return None

    def count(self, items: Sequence[Any]) -> Iterator[Count]:
        """Yields the tokens of the texts of each item, and how many are unknown; for the batches' thread."""
        tokenizer = self.encoder.tokenizer
        for item in items:
            parts = item.values() if isinstance(item, dict) else [item] if isinstance(item, str) else item
            tokenizer.counted = Count()
            tokenizer.encode_corpus([part for part in parts if isinstance(part, str)])
            yield tokenizer.counted

    def describe(self) -> dict[str, Any]:
        """Returns the model's entry in the response to GET /models."""
        entry: dict[str, Any] = {"name": self.name, "abilities": list(self.abilities)}
        if (detector := self.detector("auto")) is not None:
            entry["threshold"] = detector.marking().threshold
        if self.predictor is None:
            return entry
        task = self.predictor.task
        is_pair = all(len(columns) == 2 for columns in task.texts)
        text_form = "pair" if is_pair else "text"
        input_form = {"tagger": "words", "classifier": text_form}.get(task.head, "rows")
        return {**entry, "task": task.name, "labels": list(self.encoder.labels), "input": input_form}


def open_models(sources: Sequence[str], device: str = "auto") -> list[ServedModel]:
    """Loads models. Each is named after the last part of its path, or its source if that is ambiguous."""
    stems = [Path(source).expanduser().resolve().name for source in sources]
    names = [stem if stems.count(stem) == 1 else source for stem, source in zip(stems, sources, strict=True)]
    return [_open(name, source, device) for name, source in zip(names, sources, strict=True)]


def _open(name: str, source: str, device_name: str) -> ServedModel:
    doing(f"loading {name}")
    device, folder = pick_device(device_name), locate(source)
    if ModelFolder(folder).holds_graph:
        loaded = load_onnx(folder, "encoder")
        if loaded.kind in DEFAULT_TASKS or ModelFolder(folder).task.is_file():
            predictor = open_predictor(str(folder), backend="onnx", allow_unknown=True)
            return ServedModel(name, predictor.loaded, predictor=predictor)
        return ServedModel(name, loaded, loaded if loaded.kind == "discriminator" else None)
    if is_tuned(source):
        predictor = open_predictor(source, device_name, allow_unknown=True)
        return ServedModel(name, predictor.loaded.to(device), predictor=predictor)

    def network(kind: Literal["discriminator", "generator"]) -> Loaded | None:
        try:
            return load(source, kind).to(device)
        except AbsentNetwork:
            return None

    discriminator, generator = network("discriminator"), network("generator")
    encoder = discriminator or load(source, "encoder").to(device)
    language_model = load_language_model(folder)
    language_model = None if language_model is None else language_model.to(device)
    return ServedModel(name, encoder, discriminator, generator, language_model=language_model)
