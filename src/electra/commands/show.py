"""The command `electra show`; examples are made by `electra.inference.examples`."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.commands.framework.command import Command, Source, function
from electra.commands.results.model import Model, load
from electra.commands.results.rows import Rows
from electra.foundation.errors import ConfigError, DataError
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
    """Show what the generator and the discriminator do with a sentence: mask, fill in, and detect.

    Prints a table with the columns Original, Masked, Generated, Label and P(replaced).
    """

    model: Source
    """A run folder, or any model with a discriminator (or a generator, to see only its samples)."""
    text: str | None = None
    """The sentence (default: one from the run's held-out text; for other models "the chef cooked the meal").
    """
    _: KW_ONLY
    generator: Source | None = None
    """The folder or hub name (owner/name) of the generator, if MODEL does not include one."""
    seed: int = 1
    """Seed for masking and sampling."""
    mask_fraction: float = 0.4
    """Fraction of the tokens to mask (at least one token)."""

    @override
    def run(self) -> Rows:
        return self._rows()[1]

    def _rows(self) -> tuple[Model, Rows]:
        if self.text and os.path.isdir(self.text):
            raise ConfigError(
                "is a folder, not a text", where=self.text, fix="Pass a generator as `generator`"
            )
        if self.text is not None and not self.text.strip():
            raise DataError("no text", fix="Pass a sentence, or omit it")
        model, text = load(self.model, device="cpu"), decode_argument(self.text) if self.text else None
        rows = model.table(text, seed=self.seed, mask_fraction=self.mask_fraction, generator=self.generator)
        return model, rows

    @override
    def main(self) -> int:
        from rich.console import Console

        from electra.inference.examples import example_table

        model, rows = self._rows()
        console = Console(highlight=False)
        scorer = model.pair()[0]
        threshold = 0.5 if scorer is None else scorer.threshold
        console.print(example_table(rows, threshold))
        if any(row["P(replaced)"] is not None for row in rows):
            console.print(f"* P(replaced) reaches the threshold, {threshold:g}", style="dim", markup=False)
        if all(row["Masked"] is None for row in rows):
            note = "the model has no generator, so the text is scored unchanged (pass one as --generator)"
            console.print(note, style="dim")
        return 0


show = function(Show)
