"""The paper's Figure 2 for any sentence: masked tokens, the generator's samples, and P(replaced).

All random numbers depend only on the seed, so the same models, text and seed give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from electra.exchange.configs import LOG_ODDS
from electra.foundation import seeds
from electra.foundation.errors import ModelError
from electra.foundation.terminal_text import one_line
from electra.inference.detection import tokenize
from electra.model.precision import to_float64

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

    from electra.exchange.load import Loaded

SENTENCE = "the chef cooked the meal"
COLUMNS = ("Original", "Masked", "Generated", "Label", "P(replaced)")


class Row(TypedDict):
    """One token of the text.

    `masked`, `generated` and `label` are None without a generator; `p_replaced` is None without a
    discriminator whose logits are log-odds.
    """

    original: str
    masked: str | None
    generated: str | None
    label: str | None
    p_replaced: float | None


def example_rows(
    discriminator: Loaded | None,
    generator: Loaded | None,
    text: str = SENTENCE,
    *,
    seed: int = 1,
    mask_fraction: float = 0.4,
) -> list[Row]:
    """Returns a row per token of `text`, corrupted by the generator and scored by the discriminator.

    Args:
        discriminator: the discriminator, or None for rows without probabilities.
        generator: the generator, or None to score the unchanged text. One of the two is required.
        text: at least one token, and no more than the positions of either model allow.
        seed: determines masks and samples.
        mask_fraction: fraction of the tokens to mask (at least one is masked). By default two of five are, as
            in the paper's figure.

    Raises:
        ModelError: the text has no tokens or too many, or the two tokenizers differ.
    """
    import torch

    model = discriminator or generator
    assert model is not None
    _check_same_tokenizer(discriminator, generator)
    tokenizer = model.tokenizer
    ids = tokenize(tokenizer, text).ids
    room = min(loaded.config.max_positions for loaded in (discriminator, generator) if loaded is not None) - 2
    if len(ids) == 0:
        raise ModelError("the text has no tokens", fix="Pass a sentence")
    if len(ids) > room:
        raise ModelError(
            f"the text has {len(ids)} tokens; the model reads at most {room}",
            fix="Shorten it, or use electra detect, which has no limit",
        )
    specials = tokenizer.specials
    row = torch.from_numpy(np.concatenate([[specials.cls], ids, [specials.sep]]))[None]
    is_masked = np.zeros(len(ids), dtype=bool)
    corrupted_row = row.clone()
    if generator is not None:
        is_masked = _masked_positions(len(ids), mask_fraction, seed)
        masked_row = row.clone()
        masked_row[0, 1:-1][torch.from_numpy(is_masked)] = specials.mask
        corrupted_row[0, 1:-1][torch.from_numpy(is_masked)] = _sample(generator, masked_row, is_masked, seed)
    probabilities = [None] * len(ids)
    if discriminator is not None and discriminator.output == LOG_ODDS:
        with torch.inference_mode():
            probabilities = to_float64(discriminator.logits(corrupted_row)[0, 1:-1]).sigmoid().tolist()
    generated_ids = corrupted_row[0, 1:-1].tolist()
    mask_name = tokenizer.readable(specials.mask)
    return [
        Row(
            original=tokenizer.readable(int(old)),
            masked=None if generator is None else mask_name if is_masked[i] else tokenizer.readable(int(old)),
            generated=None if generator is None else tokenizer.readable(generated_ids[i]),
            label=None if generator is None else "replaced" if generated_ids[i] != old else "original",
            p_replaced=None if (p := probabilities[i]) is None else round(p, 6),
        )
        for i, old in enumerate(ids)
    ]


def example_table(rows: Iterable[Mapping[str, Any]], threshold: float = 0.5) -> Table:
    """Returns a rich table of `rows`, which have five values each, in the order of COLUMNS.

    Tokens whose P(replaced) is at least `threshold` are marked by a star as well as by colour.
    """
    from rich.markup import escape
    from rich.table import Table

    def plain(token: str | None) -> str:
        return escape(one_line(token or ""))

    table = Table()
    for column in COLUMNS:
        table.add_column(column, justify="right" if column == COLUMNS[-1] else "left")
    for row in rows:
        original, masked, generated, label, p = row.values()
        replaced, suspected = label == "replaced", p is not None and p >= threshold
        table.add_row(
            plain(original),
            plain(masked),
            f"[bold]{plain(generated)}[/]" if replaced else plain(generated),
            f"[yellow]{label}[/]" if replaced else label or "",
            "" if p is None else f"[bold red]* {p:.3f}[/]" if suspected else f"{p:.3f}",
        )
    return table


def _masked_positions(length: int, share: float, seed: int) -> npt.NDArray[np.bool_]:
    draws = seeds.uniforms([seeds.key(seed, "show/mask")], length)[0]
    is_masked = np.zeros(length, dtype=bool)
    is_masked[np.argsort(draws, kind="stable")[: max(1, round(share * length))]] = True
    return is_masked


def _sample(generator: Loaded, masked_row: Tensor, is_masked: npt.NDArray[np.bool_], seed: int) -> Tensor:
    """Draws one token for each masked position from the generator's softmax."""
    import torch

    with torch.inference_mode():
        logits = generator.logits(masked_row)[0, 1:-1].cpu()[torch.from_numpy(is_masked)]
        cumulative = to_float64(logits).softmax(-1).cumsum(-1)
        draws = torch.from_numpy(seeds.uniforms([seeds.key(seed, "show/sample")], len(cumulative))[0])
        sampled_ids = torch.searchsorted(cumulative, (draws * cumulative[:, -1])[:, None], right=True)[:, 0]
    return sampled_ids.clamp(max=logits.shape[-1] - 1)


def _check_same_tokenizer(discriminator: Loaded | None, generator: Loaded | None) -> None:
    if discriminator is None or generator is None:
        return
    if discriminator.tokenizer.digest != generator.tokenizer.digest:
        raise ModelError(
            "generator and discriminator have different tokenizers",
            where=f"{generator.folder} and {discriminator.folder}",
            fix="Pass a generator and a discriminator that were trained together",
        )
