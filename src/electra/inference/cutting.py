"""Cuts a model's vocabulary down to what a text needs, and measures what that saves and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from electra.data.corpus.cut_vocabulary import counts_in, cut, ids_in_original
from electra.data.corpus.store_builder import read_sample
from electra.data.tables.lines import is_blank
from electra.data.text_settings import CorpusConfig
from electra.exchange.layers import in_vocabulary
from electra.foundation.errors import ConfigError
from electra.foundation.progress import doing
from electra.foundation.terminal_text import plural
from electra.inference.embedding import embed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from electra.data.corpus.documents import KeptDocument
    from electra.exchange.load import Loaded

SAMPLE = 30_000_000  # characters that are counted
READING = CorpusConfig(unit="line", heldout=0.05)
LINES, LONGEST = 200, 1000  # held-out lines that are compared, and the characters of one


def cut_to(model: Loaded, text: Sequence[str], coverage: float) -> tuple[Loaded, list[dict[str, str]], str]:
    """Returns the model with the pieces of its vocabulary that a text needs, a table, and a comparison.

    `text` names files; `coverage` is the share of its tokens whose pieces stay. Lines that are held out from
    the counts show the change. Raises ConfigError if it is no share, CorpusError if there is no text or it
    cannot be read, and TokenizerError if the tokenizer is of a kind that cannot be cut.
    """
    if not 0 < coverage <= 1:
        raise ConfigError(f"must be above 0 and at most 1, not {coverage:g}", key="coverage")
    held_out: list[KeptDocument] = []
    sample = read_sample(text, READING, SAMPLE, lambda line: held_out.append(line) if line.is_held_out else None)
    texts = [line.text for line in sorted(held_out, key=lambda line: line.digest)] or sample
    texts, kind = (
        [line[:LONGEST] for line in texts[:LINES] if not is_blank(line[:LONGEST])],
        "held-out line" if held_out else "line",
    )
    doing("counting pieces")
    smaller = cut(model.tokenizer, counts_in(sample, model.tokenizer), coverage)
    after, original_ids = in_vocabulary(model, smaller), ids_in_original(smaller, model.tokenizer)
    assert after is not None and original_ids is not None
    doing("comparing vectors")
    counts = [counts_in(texts, each.tokenizer) for each in (model, after)]
    sizes = {"before": _sizes(model, counts[0]), "after": _sizes(after, counts[1])}
    rows = [{"": name, **{when: each[name] for when, each in sizes.items()}} for name in sizes["before"]]
    split = 1 - counts[0][original_ids].sum() / max(1, counts[0].sum())
    a, b = (embed(each, texts).astype(np.float64) for each in (model, after))
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    changes = f"{split:.2%} of the tokens are split further; cosine of the vectors before and after"
    changes += f": mean {cosines.mean():.4f}, lowest {cosines.min():.4f}"
    return after, rows, f"{plural(len(texts), kind)}: {changes}"


def _sizes(model: Loaded, counts: Any) -> dict[str, str]:
    """Returns the sizes of a model, and its share of unknown tokens among the `counts` of its pieces."""
    size = sum(parameter.numel() for parameter in model.encoder.parameters())
    unknown = counts[model.tokenizer.specials.unk] / max(1, counts.sum())
    sizes = {"parameters": f"{size / 1e6:.1f} M", "as float32": f"{4 * size / 1e6:.1f} MB"}
    return {"pieces": f"{len(counts):,}", **sizes, "unknown tokens": f"{unknown:.2%}"}
