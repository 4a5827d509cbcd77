"""Wrong words by a fine-tuned tagger of the task ged, as `electra detect` uses it."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from typing_extensions import override

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.finetuning.predict import Predictor, open_predictor
from electra.foundation.arrays import Floats
from electra.foundation.errors import ElectraError, Note
from electra.inference.detection import TEXTS_PER_CHUNK, Detection, Span
from electra.inference.detector import FEATURES, Calibration, Detector, curve_of
from electra.inference.model import load


@dataclass(frozen=True)
class TaggedWords(Detector):
    """Scores a word, without the punctuation around it, by the probability of the label i."""

    predictor: Predictor | None = None

    @override
    def __call__(self, texts: Iterable[str], *how: Any) -> Iterator[Detection]:
        return super().__call__(texts, *how[:3])  # the tagger counts unknown tokens

    @override
    def scored(self, texts: Iterable[str], threshold: float) -> Iterator[Detection]:
        source, predictor = iter(texts), self.predictor
        assert predictor is not None
        wrong = predictor.task.labels.index("i")
        while chunk := list(islice(source, TEXTS_PER_CHUNK)):
            found = predictor.texts(chunk)
            for text, example, values in zip(chunk, found.examples, found.values, strict=True):
                scores = [] if values is None else values[:, wrong].tolist()
                places = zip(example.spans, scores, strict=False)
                words = tuple(_bare(text, start, end, p) for (start, end), p in places)
                yield Detection(text, (), words, threshold)

    @override
    def words(self, texts: Iterable[str]) -> Iterator[tuple[list[int], Floats]]:
        for found in self.scored(texts, 1):
            words = [word for word in found.words if any(map(str.isalnum, word.text))]
            p = np.clip([word.p_replaced for word in words], 1e-12, 1 - 1e-12)
            yield [word.start for word in words], np.outer(np.log(p / (1 - p)), np.ones(len(FEATURES)))


def open_tagger(folder: FinetuningFolder, device: Any, backend: Any, allow: bool, suggests: bool) -> Detector:
    """Returns the scorer of a fine-tuning for ged.

    Suggestions are those of the masked language model of the model that was fine-tuned; a note says so if
    there is none.
    """
    tagger = open_predictor(str(folder.path), device, backend, allow_unknown=allow)
    source, reader = str(folder.record.get("model", "")), None
    if suggests:
        with suppress(ElectraError):
            reader = load(source, device=device).detector().language_model
        if reader is None:
            problem = f"no suggestions: {source}, which was fine-tuned, has no masked language model here"
            warnings.warn(Note(problem), stacklevel=2)
    return TaggedWords("tagger", tagger.loaded, reader, _measured(folder), tagger)


def _measured(folder: FinetuningFolder) -> Calibration:
    scores: dict[bool, list[float]] = {True: [], False: []}
    for row in folder.read_dev():
        p = row["probability"]
        scores[row["gold"] == "i"].append(p if row["predicted"] == "i" else 1 - p)
    curve = curve_of(np.array(scores[False]), np.array(scores[True]))
    return Calibration(text="its dev set", words=len(scores[False]), curves={"tagger": curve})


def _bare(text: str, start: int, end: int, p: float) -> Span:
    inner = [i for i in range(start, end) if text[i].isalnum()] or [start, end - 1]
    return Span(text[inner[0] : inner[-1] + 1], inner[0], inner[-1] + 1, p)
