from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from electra.commands.framework.command import Command, Source, function
from electra.commands.results.model import load
from electra.commands.results.rows import Rows
from electra.foundation.visible import decode_argument


@dataclass(frozen=True)
class Show(
    Command[Rows],
    group="Use",
    examples=(
        'electra show tiny-en "The band released its first album in 1994."',
        'electra show runs/import "the chef cooked the meal" --generator runs/generator',
    ),
):
    """Print the table Original | Masked | Generated | Label | P(replaced) for a sentence."""

    model: Source
    """A run folder, or any model with a discriminator (or, to see samples only, a generator)."""
    text: str | None = None
    """The sentence (default: one of the run's own held-out text; of other models "the chef cooked the
    meal").
    """
    _: KW_ONLY
    generator: Source | None = None
    """Where the generator is, when MODEL does not hold both: a folder or a hub name (owner/name)."""
    seed: int = 1
    """Seed of the masks and samples."""
    mask_fraction: float = 0.4
    """Share of the tokens to mask (at least one token)."""

    def run(self) -> Rows:
        model, text = load(self.model, device="cpu"), decode_argument(self.text) if self.text else None
        return model.table(text, seed=self.seed, mask_fraction=self.mask_fraction, generator=self.generator)

    def main(self) -> int:
        from rich.console import Console

        from electra.inference.examples import example_table

        rows = self.run()
        console = Console(highlight=False)
        console.print(example_table(rows))
        if all(row["Masked"] is None for row in rows):
            note = "no generator here: the text is judged as it stands (name one with --generator)"
            console.print(note, style="dim")
        return 0


show = function(Show)
