"""A served model: its networks, and the operations that it supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from electra.artifacts.model import ModelFolder, Pooling, Scorer
from electra.exchange.configs import LOG_ODDS
from electra.exchange.load import Loaded, load, load_language_model
from electra.exchange.onnx_session import load_onnx
from electra.exchange.source import locate
from electra.finetuning.predict import DEFAULT_TASKS, Predictor, Text, is_tuned, open_predictor
from electra.foundation.errors import AbsentNetwork, DataError, ModelError
from electra.inference.embedding import embed
from electra.inference.filling import fill, to_json
from electra.inference.mlm_detection import detect_with
from electra.model.precision import pick_device

Ability = Literal["detect", "embed", "predict", "fill"]


@dataclass(frozen=True)
class ServedModel:
    """A model, the name that clients use for it, and those of its networks that exist.

    `language_model` is a full-size masked language model; if present, it detects and fills instead of the
    discriminator and the generator.
    """

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

    def detector(self, scorer: Scorer) -> Loaded | None:
        """Returns the network that detects, chosen as in `electra.load(...).detect`; None if absent."""
        if scorer == "language-model":
            return self.language_model or self.generator
        if scorer == "auto" and self.language_model is not None:
            return self.language_model
        has_log_odds = self.discriminator is not None and self.discriminator.output == LOG_ODDS
        return self.discriminator if has_log_odds else None

    def describe(self) -> dict[str, Any]:
        """Returns the model's entry in the response to GET /models."""
        config = self.encoder.config
        entry: dict[str, Any] = {
            "name": self.name,
            "abilities": list(self.abilities),
            "encoder": config.architecture,
        }
        if (detector := self.detector("auto")) is not None:
            entry["threshold"] = detector.threshold
        entry |= {
            "layers": config.num_layers,
            "hidden_size": config.hidden_size,
            "vocabulary": config.vocab_size,
        }
        if self.predictor is None:
            return entry
        task = self.predictor.task
        is_pair = all(len(columns) == 2 for columns in task.texts)
        text_form = "pair" if is_pair else "text"
        input_form = {"tagger": "words", "classifier": text_form, "vectors": text_form}.get(task.head, "rows")
        return {**entry, "task": task.name, "labels": list(self.encoder.labels), "input": input_form}

    def detect(self, texts: Sequence[str], threshold: float | None, scorer: Scorer) -> list[dict[str, Any]]:
        """Returns a detection for each text. Raises ModelError if the model has no network for `scorer`."""
        detector = self.detector(scorer)
        if detector is None:
            network = "network that detects" if scorer == "auto" else scorer.replace("-", " ")
            raise ModelError(f"{self.name} has no {network}")
        return [detection.to_json() for detection in detect_with(detector, texts, threshold=threshold)]

    def embed(self, texts: Sequence[str], pooling: Pooling | None) -> list[list[float]]:
        """Returns a vector for each text, to 9 significant digits, enough to represent a float32 exactly."""
        return [[float(f"{x:.9g}") for x in vector] for vector in embed(self.encoder, texts, pooling)]

    def fill(self, texts: Sequence[str], top: int) -> list[list[list[dict[str, Any]]]]:
        """Returns the `top` most probable tokens for each mask of each text.

        Raises:
            ModelError: a text has no mask, or more tokens than the model has positions.
        """
        generator = self.language_model or self.generator
        assert generator is not None
        return [to_json(slots) for slots in fill(generator, texts, top)]

    def predict(self, inputs: Sequence[Text], threshold: float | None = None) -> list[dict[str, Any]]:
        """Returns a record for each input; a tagger's record contains a record for each word.

        Raises:
            DataError: the task cannot read the inputs, or reads them as another number of examples.
            ConfigError: the model has no threshold, or the value is out of range.
        """
        assert self.predictor is not None
        examples = self.predictor.texts(inputs, threshold).by_example()
        if len(examples) != len(inputs):
            fix = (
                "Send texts for a classifier, lists of words for a tagger, or objects with the task's columns"
            )
            raise DataError(f"{len(inputs)} inputs were read as {len(examples)} examples", fix=fix)
        is_tagger = self.predictor.task.head == "tagger"
        return [{"words": rows} if is_tagger else rows[0] for rows in examples]


def open_models(sources: Sequence[str], device: str = "auto") -> list[ServedModel]:
    """Loads models. Each is named after the last part of its path, or its source if that is ambiguous.

    Raises:
        ModelError: a model does not exist or cannot be loaded.
        ConfigError: there is no such device.
    """
    stems = [Path(source).expanduser().resolve().name for source in sources]
    names = [stem if stems.count(stem) == 1 else source for stem, source in zip(stems, sources, strict=True)]
    return [_open(name, source, device) for name, source in zip(names, sources, strict=True)]


def _open(name: str, source: str, device_name: str) -> ServedModel:
    device, folder = pick_device(device_name), locate(source)
    if ModelFolder(folder).holds_graph:
        return _open_graph(name, folder)
    if is_tuned(source):
        predictor = open_predictor(source, device_name)
        return ServedModel(name, predictor.loaded.to(device), predictor=predictor)

    def network(kind: Literal["discriminator", "generator"]) -> Loaded | None:
        try:
            return load(source, kind).to(device)
        except AbsentNetwork:
            return None

    discriminator, generator = network("discriminator"), network("generator")
    encoder = discriminator or load(source, "encoder").to(device)
    language_model = load_language_model(folder)
    if language_model is not None:
        language_model = language_model.to(device)
    return ServedModel(name, encoder, discriminator, generator, language_model=language_model)


def _open_graph(name: str, folder: Path) -> ServedModel:
    loaded = load_onnx(folder, "encoder")
    if loaded.kind == "discriminator":
        return ServedModel(name, loaded, loaded)
    if loaded.kind in DEFAULT_TASKS or ModelFolder(folder).task.is_file():
        predictor = open_predictor(str(folder), backend="onnx")
        return ServedModel(name, predictor.loaded, predictor=predictor)
    return ServedModel(name, loaded)
