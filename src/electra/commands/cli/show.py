"""Print the table Original | Masked | Generated | Label | P(replaced) for a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.commands.cli.arguments import Positional
from electra.foundation.visible import from_argument


@dataclass(frozen=True)
class Arguments:
    model: Positional[str]
    """A run folder, or any model with a discriminator (or, to see samples only, a generator)."""
    generator_or_text: Positional[str] = ""
    """Where the generator is, when MODEL does not hold both: a folder or a hub name (owner/name). Anything
    else is the sentence.
    """
    text: Positional[str] = ""
    """The sentence. (default: one of the run's own held-out text; of other models "the chef cooked the
    meal")"""
    seed: int = 1
    """Seed of the masks and samples."""
    masked: float = 0.4
    """Share of the tokens to mask (at least one token)."""


def run(arguments: Arguments) -> int:
    second, text = arguments.generator_or_text, arguments.text
    if second and not text and not _names_a_model(second):
        second, text = "", second

    from rich.console import Console

    from electra.commands.workflow.model import load
    from electra.inference.examples import table_of

    rows = load(arguments.model, device="cpu").table(
        from_argument(text) if text else None,
        seed=arguments.seed,
        masked=arguments.masked,
        generator=second or None,
    )
    console = Console(highlight=False)
    console.print(table_of(rows))
    if all(row["Masked"] is None for row in rows):
        console.print(
            "no generator here: the text is judged as it stands (name a generator's folder after MODEL)",
            style="dim",
        )
    return 0


def _names_a_model(word: str) -> bool:
    return Path(word).expanduser().exists() or ("/" in word and " " not in word)
