"""The paper's Figure 2 for any sentence: masked tokens, the generator's samples, and P(replaced).

All random numbers depend only on the seed, so the same models, text and seed give the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from electra.exchange.configs import LOG_ODDS
from electra.foundation import seeds
from electra.foundation.errors import ModelError
from electra.inference.detection import tokenize
from electra.model.precision import to_float64

if TYPE_CHECKING:
    from torch import Tensor

    from electra.exchange.load import Loaded

SENTENCE = "the chef cooked the meal"
COLUMNS = ("Original", "Masked", "Generated", "Label", "P(replaced)")


Row = dict[str, Any]
"""A token of the text: `original`, `masked`, `generated`, `label` (None without a generator) and `p_replaced`
(None without a discriminator whose logits are log-odds).
"""


def example_rows(
    discriminator: Loaded | None,
    generator: Loaded | None,
    text: str = SENTENCE,
    *,
    seed: int = 1,
    mask_fraction: float = 0.4,
) -> list[Row]:
    """Returns a row per token of `text`, corrupted by the generator and scored by the discriminator.

    Without a discriminator rows have no probabilities; without a generator the unchanged text is scored. By
    default two tokens of five are masked, as in the paper's figure. Raises ModelError if the text has no
    tokens or too many, or the two tokenizers differ.
    """
    import torch

    models = [model for model in (discriminator, generator) if model is not None]
    tokenizer = models[0].tokenizer
    if models[-1].tokenizer.digest != tokenizer.digest:
        raise ModelError(
            "generator and discriminator have different tokenizers",
            where=" and ".join(str(model.folder) for model in models),
            fix="Pass a generator and a discriminator that were trained together",
        )
    ids = tokenize(tokenizer, text).ids
    room = min(model.config.max_positions for model in models) - 2
    if len(ids) == 0:
        raise ModelError("the text has no tokens", fix="Pass a sentence")
    if len(ids) > room:
        raise ModelError(
            f"the text has {len(ids)} tokens; the model reads at most {room}",
            fix="Shorten it, or use electra detect, which has no limit",
        )
    specials = tokenizer.specials
    original_row = torch.from_numpy(np.concatenate([[specials.cls], ids, [specials.sep]]))[None]
    is_masked = np.zeros(len(ids), dtype=bool)
    corrupted_row = original_row.clone()
    if generator is not None:
        draws = seeds.uniforms([seeds.key(seed, "show/mask")], len(ids))[0]
        chosen = np.argsort(draws, kind="stable")[: max(1, round(mask_fraction * len(ids)))]
        is_masked[chosen] = True
        masked_row = original_row.clone()
        masked_row[0, 1:-1][torch.from_numpy(is_masked)] = specials.mask
        corrupted_row[0, 1:-1][torch.from_numpy(is_masked)] = _sample(generator, masked_row, is_masked, seed)
    probabilities = [None] * len(ids)
    if discriminator is not None and discriminator.output == LOG_ODDS:
        with torch.inference_mode():
            probabilities = to_float64(discriminator.logits(corrupted_row)[0, 1:-1]).sigmoid().tolist()
    rows = []
    shown = corrupted_row[0, 1:-1].tolist()
    for old, new, is_mask, p in zip(ids, shown, is_masked, probabilities, strict=True):
        row = Row(original=tokenizer.readable(int(old)), masked=None, generated=None, label=None)
        if generator is not None:
            row["masked"] = tokenizer.readable(specials.mask) if is_mask else row["original"]
            row["generated"] = tokenizer.readable(new)
            row["label"] = "replaced" if new != old else "original"
        rows.append({**row, "p_replaced": None if p is None else round(p, 6)})
    return rows


def _sample(generator: Loaded, masked_row: Tensor, is_masked: npt.NDArray[np.bool_], seed: int) -> Tensor:
    import torch

    with torch.inference_mode():
        logits = generator.logits(masked_row)[0, 1:-1].cpu()[torch.from_numpy(is_masked)]
        cumulative = to_float64(logits).softmax(-1).cumsum(-1)
        draws = torch.from_numpy(seeds.uniforms([seeds.key(seed, "show/sample")], len(cumulative))[0])
        sampled_ids = torch.searchsorted(cumulative, (draws * cumulative[:, -1])[:, None], right=True)[:, 0]
    return sampled_ids.clamp(max=logits.shape[-1] - 1)
