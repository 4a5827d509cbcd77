"""Wrong words by a fine-tuned tagger of the task ged, as `electra detect` uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from typing_extensions import override

from electra.finetuning.predict import Predictor
from electra.foundation.arrays import Floats
from electra.inference.detection import TEXTS_PER_CHUNK, Detection, Span
from electra.inference.detector import FEATURES, Detector


@dataclass(frozen=True)
class TaggedWords(Detector):
    """Scores a word by the probability of the label i; there are no suggestions."""

    predictor: Predictor | None = None

    @override
    def __call__(self, texts: Iterable[str], threshold: float, *_: Any, **__: Any) -> Iterator[Detection]:
        source, predictor = iter(texts), self.predictor
        assert predictor is not None
        wrong = predictor.task.labels.index("i")
        while chunk := list(islice(source, TEXTS_PER_CHUNK)):
            found = predictor.texts([text if text.strip() else "." for text in chunk])  # it wants words
            for text, example, values in zip(chunk, found.examples, found.values, strict=True):
                places = zip(example.spans if text.strip() else (), values[:, wrong].tolist(), strict=False)
                words = tuple(Span(text[start:end], start, end, p) for (start, end), p in places)
                yield Detection(text, (), words, threshold)

    @override
    def words(self, texts: Iterable[str]) -> Iterator[tuple[list[int], Floats]]:
        for found in self(texts, 1):
            words = [word for word in found.words if any(map(str.isalnum, word.text))]
            p = np.clip([word.p_replaced for word in words], 1e-12, 1 - 1e-12)
            yield [word.start for word in words], np.outer(np.log(p / (1 - p)), np.ones(len(FEATURES)))
