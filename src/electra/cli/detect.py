"""Mark the words of a text that look replaced, by a discriminator: P(replaced) for each word and token."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from electra.cli.arguments import Positional
from electra.errors import ConfigError
from electra.visible import one_line

if TYPE_CHECKING:
    from electra.interop.detection import Span


@dataclass(frozen=True)
class Arguments:
    model: Positional[str]
    """A run folder, an exported or published folder, or a name on the hub."""
    text: Positional[str] = ""
    """The text to judge; - reads standard input, one text on each line."""
    file: str = ""
    """A file with one text on each line; - is standard input."""
    json: bool = False
    """One JSON object for each text. Offsets count Unicode code points of the text as given, as Python does.
    """
    threshold: float = 0.5
    """P(replaced) from which a word is marked."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute (auto: a GPU when there is one)."""


def run(arguments: Arguments) -> int:
    if bool(arguments.text) == bool(arguments.file):
        raise ConfigError(
            "give a text or --file, one of them",
            where="electra detect",
            fix='Such as: electra detect MODEL "The chef ate"',
        )
    from electra.workflow.lines import lines_of
    from electra.workflow.model import load

    one_text = arguments.text not in ("", "-")
    texts = [arguments.text] if one_text else lines_of(arguments.file or "-")
    model = load(arguments.model, device=arguments.device)
    for note in model.network("discriminator").notes:
        sys.stderr.write(f"note: {one_line(note)}\n")
    found = model.detections(texts, arguments.threshold)
    if arguments.json:
        for detection in found:
            sys.stdout.write(json.dumps(detection.to_json(), ensure_ascii=False) + "\n")
        return 0
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    words: list[Span] = []
    for detection in found:
        console.print(detection.painted())
        words += detection.words
    marked = sum(word.p_replaced >= arguments.threshold for word in words)
    worst = max(words, key=lambda word: word.p_replaced, default=None)
    highest = f"; highest {worst.p_replaced:.3f}, {one_line(worst.text)}" if worst is not None else ""
    told = f"{marked} of {len(words)} words marked, P(replaced) >= {arguments.threshold:g}{highest}"
    console.print(told, style="dim", markup=False)
    return 0
