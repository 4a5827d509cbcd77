from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from electra.artifacts.model import Judge
from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.output import json_text
from electra.commands.parts.shared import OnBackend
from electra.commands.parts.vectors import Texts, each_text_of
from electra.commands.results.model import Model, load
from electra.foundation.visible import one_line

if TYPE_CHECKING:
    from electra.inference.detection import Detection


@dataclass(frozen=True)
class Detect(
    OnBackend,
    Command["list[Detection]"],
    group="Use",
    examples=(
        'electra detect tiny-en "The capital of France is seven."',
        "electra detect runs/mine texts.txt --json",
    ),
):
    """Mark the words of a text that look replaced, with P(replaced) for each word and token."""

    model: Source
    """A run folder, a model folder, or a name on the hub."""
    texts: Texts
    """A text, or a file of texts: one on each line, or in a column of a csv, tsv, jsonl or parquet; - reads
    the lines of standard input. In Python also several texts.
    """
    _: KW_ONLY
    text_column: str = "text"
    """The column of a table that holds the texts."""
    json: bool = False
    """One JSON object for each text. Offsets count Unicode code points of the text as given, as Python does.
    """
    threshold: float | None = None
    """Mark words with at least this P(replaced) (default: the threshold with the best F1 on the model's
    held-out text, or 0.5).
    """
    scorer: Judge = "auto"
    """Which network judges. The language model hides each word in turn: slower, but better at words that a
    generator would not have written. auto: the language model where the model comes with a full-size one
    (tiny-en does), else the discriminator.
    """

    def run(self) -> list[Detection]:
        return list(self._detections(self._model()))

    def _model(self) -> Model:
        return load(self.model, device=self.device, backend=self.backend)

    def _detections(self, model: Model) -> Iterator[Detection]:
        return model.detections(
            each_text_of(self.texts, self.text_column), self.threshold, scorer=self.scorer
        )

    def main(self) -> int:
        model = self._model()
        judge, detections = model.judge(self.scorer), self._detections(model)
        sys.stderr.writelines(f"note: {one_line(note)}\n" for note in judge.notes)
        if self.json:
            for detection in detections:
                sys.stdout.write(json_text(json.dumps(detection.to_json(), ensure_ascii=False) + "\n"))
            return 0
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        marked = words = 0
        for detection in detections:
            console.print(detection.for_terminal())
            likeliest = ", ".join(
                f"{one_line(word.text)} {word.p_replaced:.2f}" for word in detection.suspects()
            )
            if likeliest:
                console.print(f"  most suspicious: {likeliest}", style="dim", markup=False)
            marked, words = marked + len(detection.marked), words + len(detection.words)
        threshold = judge.threshold if self.threshold is None else self.threshold
        who = "discriminator" if judge.kind == "discriminator" else "language model"
        summary = f"{marked} of {words} words marked: P(replaced) >= {threshold:g}, by the {who}"
        console.print(summary, style="dim", markup=False)
        return 0


detect = function(Detect)
