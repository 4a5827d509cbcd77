"""The command `electra show`; examples are made by `electra.inference.example_rows`."""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from typing_extensions import override

from electra.artifacts.run_files import RunFolder
from electra.commands.framework.command import Command, function
from electra.commands.results.rows import Rows
from electra.data.text_settings import AllowUnknown
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.machine import OnThreads
from electra.foundation.options import Source
from electra.foundation.terminal_text import decode_argument, make_visible
from electra.inference.model import Model


@dataclass(frozen=True)
class Show(
    AllowUnknown,
    OnThreads,
    Command[Rows],
    examples=(
        'electra show tiny-en "The band released its first album in 1994."',
        'electra show tiny-en "The capital of [MASK] is Paris."',
    ),
):
    """Show what the generator and the discriminator do with a sentence: mask, fill in, and detect.

    Prints a table with the columns Original, Masked, Generated, Label and P(replaced). Without a generator
    the text is scored unchanged. For a text with [MASK], prints the words that fit there, each with its
    probability.
    """

    model: Source
    """A run folder, or any model with a discriminator (or a generator, to see only its samples)."""
    text: str | None = None
    """The sentence (default: one from the run's held-out text; for other models "the chef cooked the meal").
    """
    _: KW_ONLY
    seed: int = 1
    """Seed for masking and sampling."""
    mask_fraction: float = 0.4
    """Fraction of the tokens to mask (at least one token)."""

    @override
    def run(self) -> Rows:
        from electra.data.corpus import unknown
        from electra.inference.example_rows import COLUMNS, SENTENCE, example_rows
        from electra.inference.filling import fill

        if self.text is not None and not self.text.strip():
            raise DataError("no text", fix="Pass a sentence, or omit it")
        if not 0 < self.mask_fraction <= 1:
            problem = f"must be above 0 and at most 1, not {self.mask_fraction}"
            raise ConfigError(problem, key="mask_fraction")
        model = self.model if isinstance(self.model, Model) else Model(self.model, device="cpu")
        discriminator, generator = model.pair()
        own_texts = RunFolder(Path(model.source).expanduser()).example_texts() if self.text is None else []
        text = next(iter(own_texts), SENTENCE) if self.text is None else decode_argument(self.text)
        tokenizer = next(loaded.tokenizer for loaded in (discriminator, generator) if loaded is not None)
        if (mask := tokenizer.id_to_token(tokenizer.specials.mask)) in text:
            slots = enumerate(fill(model.language_model, [text])[0], 1)
            return Rows({mask: i, "Word": each.token, "P": each.p} for i, found in slots for each in found)
        [text] = unknown.read(tokenizer, [text], self.allow_unknown)
        rows = example_rows(discriminator, generator, text, seed=self.seed, mask_fraction=self.mask_fraction)
        return Rows(dict(zip(COLUMNS, row.values(), strict=True)) for row in rows)

    @override
    def main(self) -> int:
        rows = self.run()
        sys.stdout.write(f"{make_visible(rows.table())}\n")
        if all("Masked" in row and row["Masked"] is None for row in rows):
            sys.stderr.write("note: the model has no generator, so the text is scored unchanged\n")
            return 0
        if scored := [row for row in rows if row.get("P(replaced)") is not None]:
            threshold = Model(self.model, device="cpu").network("discriminator").threshold
            marked = [row["Label"] for row in scored if row["P(replaced)"] >= threshold]
            replaced = sum(row["Label"] == "replaced" for row in scored)
            found, others = marked.count("replaced"), len(scored) - replaced
            counts = f"{found} of {replaced} replaced tokens found"
            counts += f"; {len(marked) - found} of {others} original ones marked, too"
            sys.stdout.write(f"{counts} (threshold for the generator's samples: {threshold:.3g})\n")
        return 0


show = function(Show)
