"""Mark the words of a text that look replaced, by a discriminator: P(replaced) for each word and token."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from electra.cli.arguments import Positional
from electra.errors import ConfigError, CorpusError
from electra.visible import one_line, visible

if TYPE_CHECKING:
    from rich.text import Text

    from electra.interop.detection import Detection, Span


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
    from_stdin = arguments.text == "-"
    if bool(arguments.text) == bool(arguments.file):
        raise ConfigError(
            "give a text or --file, one of them",
            where="electra detect",
            fix='Such as: electra detect MODEL "The chef ate"',
        )
    texts = iter([arguments.text]) if arguments.text and not from_stdin else _lines(arguments.file or "-")

    from electra.interop.detection import detect
    from electra.interop.load import load
    from electra.model.precision import pick_device

    model = load(arguments.model, "discriminator").to(pick_device(arguments.device))
    if arguments.json:
        for detection in detect(model, texts, threshold=arguments.threshold):
            sys.stdout.write(json.dumps(detection.to_json(), ensure_ascii=False) + "\n")
        return 0
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    words: list[Span] = []
    for detection in detect(model, texts, threshold=arguments.threshold):
        console.print(painted(detection, arguments.threshold))
        words += detection.words
    marked = sum(word.p_replaced >= arguments.threshold for word in words)
    worst = max(words, key=lambda word: word.p_replaced, default=None)
    highest = f"; highest {worst.p_replaced:.3f}, {one_line(worst.text)}" if worst is not None else ""
    console.print(
        f"{marked} of {len(words)} words marked, P(replaced) >= {arguments.threshold:g}{highest}",
        style="dim",
        markup=False,
    )
    return 0


def painted(detection: Detection, threshold: float) -> Text:
    """The text with each word in a colour from plain to red; marked words also stand in brackets with their
    probability.
    """
    from rich.text import Text

    line, position = Text(), 0
    text = visible(detection.text)
    for word in detection.words:
        line.append(text[position : word.start])
        if word.p_replaced >= threshold:
            line.append(f"[{text[word.start : word.end]} {word.p_replaced:.2f}]", style="bold red")
        else:
            line.append(
                text[word.start : word.end], style="yellow" if word.p_replaced >= threshold / 2 else ""
            )
        position = word.end
    line.append(text[position:])
    return line


def _lines(name: str) -> Iterator[str]:
    """The lines of a file or of standard input, without their ends."""
    number = 0
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else open(Path(name), "rb") as file:
            for line in file:
                number += 1
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as problem:
        raise CorpusError(
            f"not UTF-8 ({problem.reason})", where=f"{name}:{number}", fix="Convert it to UTF-8"
        ) from None
    except OSError as problem:
        raise CorpusError(f"cannot be read ({problem.strerror})", where=name, fix="Check the path") from None
