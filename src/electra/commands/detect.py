"""The command `electra detect`; words are scored by `electra.inference`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import override

from electra.artifacts.model import Scorer
from electra.commands.framework.command import Command, function
from electra.commands.framework.display import json_text
from electra.commands.parts.given import read_texts
from electra.commands.parts.shared import OnTexts
from electra.commands.results.model import Model, load
from electra.foundation.config import check_at_least
from electra.foundation.errors import ConfigError
from electra.foundation.options import OnCommandLine, Source
from electra.foundation.terminal_text import one_line, plural

if TYPE_CHECKING:
    from electra.inference.detection import Detection
    from electra.inference.detector import Detector, Marking

RATES = (0.01, 0.03, 0.1)  # of wrong words, for which the summary states the precision


@dataclass(frozen=True)
class Detect(
    OnTexts,
    Command["list[Detection]"],
    examples=(
        'electra detect tiny-en "The capital of France is seven."',
        "electra detect small-en scanned.txt --clean corrected.txt --near",
        "electra detect runs/mine texts.txt --json",
    ),
):
    """Mark the words of a text that look wrong or out of place, each with other words that fit."""

    _: KW_ONLY
    false_alarms: Annotated[float | str, OnCommandLine(str)] = "1%"
    """Mark from the P(replaced) that this share of clean words reaches. It is measured on --clean, or was
    when the model was made; for a model without such a record, words are marked from the threshold that is
    best for its generator's samples (0.5 for a model that has none).
    """
    clean: Annotated[Source | Iterable[str] | None, OnCommandLine(str | None)] = None
    """Clean text like yours to measure --false-alarms on: a file; 1,000 words or more for 1%."""
    threshold: float | None = None
    """Mark words whose P(replaced) is at least this, whatever the share of false alarms."""
    scorer: Scorer = "auto"
    """What scores the words. The discriminator reads a text once; the language model, six times, with every
    sixth word masked, and is better at errors that a generator would not have made. both: the two together,
    with the word's length, capital and number of tokens. auto: the best on errors made up in the model's
    clean text, or else the language model if there is a full-size one, or the discriminator.
    """
    suggestions: int = 3
    """How many words to suggest for each marked word, by the language model (0: none)."""
    near: bool = False
    """Suggest only near spellings of the marked word, as for scanned or typed text."""
    json: bool = False
    """Print a JSON object for each text, with the marked words. Offsets count Unicode code points, as in
    Python.
    """

    @override
    def run(self) -> list[Detection]:
        return list(self._found(*self._detector()))

    def _detector(self) -> tuple[Detector, Marking]:
        check_at_least(self, {"suggestions": 0})
        model: Model = load(self.model, device=self.device, backend=self.backend)
        clean, detector = self.clean, model.detector(self.scorer)
        if isinstance(clean, str | os.PathLike):
            clean = (text for text, _ in read_texts(clean))
        return detector, detector.marking(self.threshold, _share(self.false_alarms), clean)

    def _found(self, detector: Detector, marking: Marking) -> Iterator[Detection]:
        texts = (text for text, _ in read_texts(self.texts, self.text_column))
        how: dict[str, Any] = {"suggestions": self.suggestions, "near": self.near}
        return detector(texts, marking.threshold, allow_unknown=self.allow_unknown, **how)

    @override
    def main(self) -> int:
        detector, marking = self._detector()
        found = self._found(detector, marking)
        sys.stderr.writelines(f"note: {one_line(note)}\n" for note in detector.main.notes)
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        num_marked = num_words = 0
        for detection in found:
            num_marked, num_words = num_marked + len(detection.marked), num_words + len(detection.words)
            if self.json:
                sys.stdout.write(json_text(json.dumps(detection.to_json(), ensure_ascii=False) + "\n"))
            else:
                console.print(detection.for_terminal())
                if line := _second_line(detection):
                    console.print(f"  {line}", style="dim", markup=False)
        if self.json:
            return 0
        name = "both networks" if detector.scorer == "both" else f"the {detector.scorer.replace('-', ' ')}"
        summary = f"{num_marked} of {plural(num_words, 'word')} marked (threshold {marking.threshold:.3g}"
        console.print(f"{summary}, {marking.origin}; scored by {name})", style="dim", markup=False)
        expected = ((rate, marking.precision(rate)) for rate in RATES)
        if shares := ", ".join(f"{p:.0%} are wrong if {rate:.0%} of all are" for rate, p in expected if p):
            line = f"{marking.false_alarms:.1%} of clean words and {marking.recall:.0%} of made-up errors"
            console.print(f"{line} are marked, so of the marked words {shares}", style="dim", markup=False)
        return 0


detect = function(Detect)


def _share(value: float | str) -> float:
    """Reads a share such as 0.01 or "1%". Raises ConfigError for what is none."""
    text = str(value).strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ConfigError(f"must be a share such as 1% or 0.01, not {value}", key="false_alarms")
    return share


def _second_line(detection: Detection) -> str:
    """Returns suggestions for the marked words or, if none is marked, the most suspicious words."""
    if not detection.marked:
        likeliest = (f"{one_line(word.text)} {word.p_replaced:.2f}" for word in detection.suspects())
        return f"most suspicious: {shown}" if (shown := ", ".join(likeliest)) else ""
    parts = []
    for word, found in zip(detection.marked, detection.suggestions, strict=False):
        shown = ", ".join(f"{one_line(each.token)} {each.p:.2f}" for each in found)
        parts += [f"{one_line(word.text)}: {shown}"] * bool(found)
    return "; ".join(parts)
