"""Mark the words of a text that look replaced, with P(replaced) for each word and token."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electra.commands.cli.arguments import Positional
from electra.commands.cli.output import json_text
from electra.foundation.errors import ConfigError
from electra.foundation.machine import Device
from electra.foundation.visible import from_argument, one_line


@dataclass(frozen=True)
class Arguments:
    model: Positional[str]
    """A run folder, a model folder, or a name on the hub."""
    text: Positional[str] = ""
    """The text to judge; - reads standard input, one text on each line."""
    file: str = ""
    """A file with one text on each line; - is standard input."""
    json: bool = False
    """One JSON object for each text. Offsets count Unicode code points of the text as given, as Python does.
    """
    threshold: float | None = None
    """Mark words with at least this P(replaced) (default: the threshold with the best F1 on the model's
    held-out text, or 0.5).
    """
    by: Literal["auto", "discriminator", "language-model"] = "auto"
    """Which network judges. The language model hides each word in turn: slower, but better at words that a
    generator would not have written. auto: the language model where the model comes with a full-size one
    (tiny-en does), else the discriminator.
    """
    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""
    backend: Literal["torch", "onnx"] = "torch"
    """What computes: onnx runs a folder of `electra export --format onnx`, on the CPU."""


def run(arguments: Arguments) -> int:
    if not arguments.text and not arguments.file and " " in arguments.model:
        fix = 'Name it before the text: electra detect tiny-en "The chef ate"'
        raise ConfigError("no model given", where="electra detect", fix=fix)
    if bool(arguments.text) == bool(arguments.file):
        raise ConfigError(
            "give a text or --file, one of them",
            where="electra detect",
            fix='For example: electra detect MODEL "The chef ate"',
        )
    from electra.commands.workflow.lines import lines_of
    from electra.commands.workflow.model import load

    one_text = arguments.text not in ("", "-")
    if one_text and is_file(arguments.text):
        path = one_line(arguments.text)
        sys.stderr.write(
            f"note: {path} is a file, and its name is judged here: --file {path} judges its lines\n"
        )
    texts = [from_argument(arguments.text)] if one_text else lines_of(arguments.file or "-")
    model = load(arguments.model, device=arguments.device, backend=arguments.backend)
    judge = model.judge(arguments.by)
    for note in judge.notes:
        sys.stderr.write(f"note: {one_line(note)}\n")
    found = model.detections(texts, arguments.threshold, by=arguments.by)
    if arguments.json:
        for detection in found:
            sys.stdout.write(json_text(json.dumps(detection.to_json(), ensure_ascii=False) + "\n"))
        return 0
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    marked = words = 0
    for detection in found:
        console.print(detection.painted())
        likeliest = ", ".join(f"{one_line(word.text)} {word.p_replaced:.2f}" for word in detection.suspects())
        if likeliest:
            console.print(f"  most suspicious: {likeliest}", style="dim", markup=False)
        marked, words = marked + len(detection.marked), words + len(detection.words)
    threshold = judge.threshold if arguments.threshold is None else arguments.threshold
    who = "discriminator" if judge.kind == "discriminator" else "language model"
    summary = f"{marked} of {words} words marked: P(replaced) >= {threshold:g}, by the {who}"
    console.print(summary, style="dim", markup=False)
    return 0


def is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # no name that a file could have
        return False
