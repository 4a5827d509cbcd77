"""A served model: what is loaded of it, and what it can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from electra.artifacts.model import Judge, ModelFolder, Pooling
from electra.exchange.configs import LOG_ODDS
from electra.exchange.load import Loaded, load, load_language_model
from electra.exchange.onnx_session import load_onnx
from electra.exchange.source import locate
from electra.finetuning.predict import USUAL, Predictor, Text, is_tuned, open_predictor
from electra.foundation.errors import AbsentNetwork, DataError, ModelError
from electra.inference.detection import split
from electra.inference.embedding import embed
from electra.inference.examples import example_rows
from electra.inference.filling import fill, to_json
from electra.inference.mlm_detection import detect_by
from electra.model.precision import pick_device

Ability = Literal["detect", "embed", "predict", "fill", "draw"]


@dataclass(frozen=True)
class Served:
    """`draw` is the generator's sample of a text, judged by the discriminator where there is one.

    `language_model` is a full-size masked language model: where there is one, it judges and fills.
    """

    name: str
    encoder: Loaded
    discriminator: Loaded | None = None
    generator: Loaded | None = None
    predictor: Predictor | None = None
    language_model: Loaded | None = None

    @property
    def abilities(self) -> tuple[Ability, ...]:
        can: dict[Ability, bool] = {
            "detect": self.judge("auto") is not None,
            "embed": True,
            "predict": self.predictor is not None,
            "fill": (self.language_model or self.generator) is not None,
            "draw": self.generator is not None,
        }
        return tuple(ability for ability, has in can.items() if has)

    @property
    def mask(self) -> str:
        """How a text has a place to fill."""
        tokenizer = self.encoder.tokenizer
        return tokenizer.id_to_token(tokenizer.specials.mask)

    def judge(self, by: Judge) -> Loaded | None:
        """As `electra.commands.results.model.Model.judge`."""
        if by == "language-model":
            return self.language_model or self.generator
        if by == "auto" and self.language_model is not None:
            return self.language_model
        judges = self.discriminator is not None and self.discriminator.output == LOG_ODDS
        return self.discriminator if judges else None

    def describe(self) -> dict[str, Any]:
        shape = self.encoder.config
        told: dict[str, Any] = {
            "name": self.name,
            "abilities": list(self.abilities),
            "encoder": shape.architecture,
        }
        size = {"layers": shape.num_layers, "hidden_size": shape.hidden_size, "vocabulary": shape.vocab_size}
        if self.discriminator is not None:
            told["threshold"] = self.discriminator.threshold
        if self.predictor is None:
            return {**told, **size}
        task = self.predictor.task
        pair = all(len(columns) == 2 for columns in task.texts)
        text = "pair" if pair else "text"
        form = {"tagger": "words", "classifier": text, "vectors": text}.get(task.head, "rows")
        return {**told, **size, "task": task.name, "labels": list(self.encoder.labels), "input": form}

    def detect(self, texts: Sequence[str], threshold: float | None, by: Judge) -> list[dict[str, Any]]:
        judge = self.judge(by)
        if judge is None:
            raise ModelError(f"{self.name} has no {by.replace('-', ' ')} to judge by")
        return [found.to_json() for found in detect_by(judge, texts, threshold=threshold)]

    def embed(self, texts: Sequence[str], pooling: Pooling | None) -> list[list[float]]:
        return [[float(f"{x:.9g}") for x in vector] for vector in embed(self.encoder, texts, pooling)]

    def fill(self, texts: Sequence[str], top: int) -> list[list[list[dict[str, Any]]]]:
        filler = self.language_model or self.generator
        assert filler is not None
        return [to_json(slots) for slots in fill(filler, texts, top)]

    def predict(self, inputs: Sequence[Text], threshold: float | None = None) -> list[dict[str, Any]]:
        """One record for each input; of a sentence the records of its words."""
        assert self.predictor is not None
        found = self.predictor.texts(inputs, threshold).of_each()
        if len(found) != len(inputs):
            fix = (
                "Send texts for a classifier, lists of words for a tagger, or objects with the task's columns"
            )
            raise DataError(f"{len(inputs)} inputs made {len(found)} examples", fix=fix)
        tagger = self.predictor.task.head == "tagger"
        return [{"words": rows} if tagger else rows[0] for rows in found]

    def draw(self, text: str, seed: int, masked: float) -> list[dict[str, Any]]:
        """A row a token, as `electra show` prints them, with the number of the token's word."""
        rows = example_rows(self.discriminator, self.generator, text, seed=seed, masked=masked)
        words = split(self.encoder.tokenizer, text).words
        return [{"word": word, **row} for word, row in zip(words, rows, strict=True)]


def open_models(sources: Sequence[str], device: str = "auto") -> list[Served]:
    """Each model by the last part of its path, or by the whole where two would have one name."""
    last = [Path(source).expanduser().resolve().name for source in sources]
    names = [name if last.count(name) == 1 else source for name, source in zip(last, sources, strict=True)]
    return [_open(name, source, device) for name, source in zip(names, sources, strict=True)]


def _open(name: str, source: str, device: str) -> Served:
    chosen, folder = pick_device(device), locate(source)
    if ModelFolder(folder).holds_graph:
        return _open_graph(name, folder)
    if is_tuned(source):
        predictor = open_predictor(source, device)
        return Served(name, predictor.loaded.to(chosen), predictor=predictor)

    def network(kind: Literal["discriminator", "generator"]) -> Loaded | None:
        try:
            return load(source, kind).to(chosen)
        except AbsentNetwork:
            return None

    discriminator, generator = network("discriminator"), network("generator")
    encoder = discriminator or load(source, "encoder").to(chosen)
    language_model = load_language_model(folder)
    if language_model is not None:
        language_model = language_model.to(chosen)
    return Served(name, encoder, discriminator, generator, language_model=language_model)


def _open_graph(name: str, folder: Path) -> Served:
    loaded = load_onnx(folder, "encoder")
    if loaded.kind == "discriminator":
        return Served(name, loaded, loaded)
    if loaded.kind in USUAL or ModelFolder(folder).task.is_file():
        predictor = open_predictor(str(folder), backend="onnx")
        return Served(name, predictor.loaded, predictor=predictor)
    return Served(name, loaded)
