"""Fine-tune a model on labelled texts, over one or more seeds: numbers, predictions, and a model folder for transformers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields

from electra.cli import arguments as command_line
from electra.cli.arguments import Positional
from electra.finetune.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Arguments(Settings):
    model: Positional[str]
    """A run folder, an exported folder, or a name on the hub."""


def parse(argv: Sequence[str]) -> Arguments:
    return command_line.parse(Arguments, gather(argv, "--text-column"), verb="finetune", description=__doc__ or "")


def gather(argv: Sequence[str], option: str) -> list[str]:
    """Let an option with several values be repeated: `--x a --x b` -> `--x a b`."""
    values: list[str] = []
    rest: list[str] = []
    taking = False
    for word in argv:
        taking = word == option or (taking and not word.startswith("--"))
        if word != option:
            (values if taking else rest).append(word)
    return [*rest, option, *values] if values else rest


def run(arguments: Arguments) -> int:
    from electra.finetune.runner import finetune
    from electra.training.signals import StopRequest

    settings = Settings(**{field.name: getattr(arguments, field.name) for field in fields(Settings)})
    with StopRequest() as stop:
        results = finetune(arguments.model, settings, say, lambda: stop.received is not None)
    if results is None:
        return stop.exit_code
    say(f"results: {settings.out / 'all_results.json'}")
    return 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
