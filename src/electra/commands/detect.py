"""The command `electra detect`; words are scored by `electra.inference`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from electra.artifacts.model import Scorer
from electra.commands.framework.command import Command, function
from electra.commands.framework.display import json_text
from electra.commands.parts.given import read_texts
from electra.commands.parts.shared import OnTexts
from electra.commands.results.model import Model, load
from electra.foundation.terminal_text import one_line

if TYPE_CHECKING:
    from electra.inference.detection import Detection


@dataclass(frozen=True)
class Detect(
    OnTexts,
    Command["list[Detection]"],
    examples=(
        'electra detect tiny-en "The capital of France is seven."',
        "electra detect runs/mine texts.txt --json",
    ),
):
    """Mark the words of a text that look wrong or out of place, each with the probability P(replaced)."""

    _: KW_ONLY
    json: bool = False
    """Print a JSON object for each text, with the scores of all words and tokens. Offsets count Unicode code
    points, as in Python.
    """
    threshold: float | None = None
    """Mark words whose P(replaced) is at least this (default: the threshold with the best F1 on the model's
    held-out text, or 0.5 for a model that has none).
    """
    scorer: Scorer = "auto"
    """The network that scores the words. The discriminator reads a text once; the language model masks each
    word in turn, which is slower, but better at errors that a generator would not have made. auto: the
    language model if the model comes with a full-size one (tiny-en does) or is one, else the discriminator.
    """

    @override
    def run(self) -> list[Detection]:
        return list(self._detections(self._model()))

    def _model(self) -> Model:
        return load(self.model, device=self.device, backend=self.backend)

    def _detections(self, model: Model) -> Iterator[Detection]:
        texts = (text for text, _ in read_texts(self.texts, self.text_column))
        return model.detections(texts, self.threshold, scorer=self.scorer, allow_unknown=self.allow_unknown)

    @override
    def main(self) -> int:
        model = self._model()
        scorer, detections = model.scorer(self.scorer), self._detections(model)
        sys.stderr.writelines(f"note: {one_line(note)}\n" for note in scorer.notes)
        if self.json:
            for detection in detections:
                sys.stdout.write(json_text(json.dumps(detection.to_json(), ensure_ascii=False) + "\n"))
            return 0
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        num_marked = num_words = 0
        for detection in detections:
            console.print(detection.for_terminal())
            likeliest = ", ".join(
                f"{one_line(word.text)} {word.p_replaced:.2f}" for word in detection.suspects()
            )
            if likeliest:
                console.print(f"  most suspicious: {likeliest}", style="dim", markup=False)
            num_marked, num_words = num_marked + len(detection.marked), num_words + len(detection.words)
        threshold = scorer.threshold if self.threshold is None else self.threshold
        name = "discriminator" if scorer.kind == "discriminator" else "language model"
        summary = f"{num_marked} of {num_words} words marked (threshold {threshold:g}; scored by the {name})"
        console.print(summary, style="dim", markup=False)
        return 0


detect = function(Detect)
