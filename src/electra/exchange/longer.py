"""A model that reads longer texts: the same weights, with positions for more tokens.

Rotary positions (the modern encoder): the base grows by s ** (d / (d - 2)) for s times the length and heads
of d, so that at the new end the slowest pair of dimensions has turned as far as it had at the old one, while
the fastest turns as before ("NTK-aware" scaling: Peng et al. 2023, YaRN, section 3.1). Layers with a window
keep their base, since no distance in them grows.

A table of positions (the paper's encoder) is repeated until it is long enough (Beltagy et al. 2020,
Longformer, section 5): a text that fitted before gives the same numbers as before.

DeBERTa's distances are in the same buckets as before, and those beyond the greatest in its last one.

In each case the model can read longer texts and has not learned to: train it further on them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from electra.exchange.load import Loaded
from electra.exchange.transfer import rewrite
from electra.foundation.errors import ConfigError
from electra.model.pair import build_encoder
from electra.model.sizes import EncoderConfig

MOST = 131_072  # tokens; attention to all of them would take more than any machine here has


def lengthen(source: str, out: Path, length: int) -> list[str]:
    """Write `source` with positions for `length` tokens: a model to `out`, the networks of a run to folders
    of their names in it. Returns lines for the user. Raises ConfigError, ModelError.
    """
    return rewrite(source, out, lambda model: _longer(model, length))


def _longer(model: Loaded, length: int) -> tuple[Loaded, str]:
    old = model.config
    if not old.max_positions < length <= MOST:
        raise ConfigError(
            f"must be more than the {old.max_positions:,} tokens the model reads and at most {MOST:,},"
            f" not {length:,}",
            key="length",
        )
    config = replace(old, max_positions=length)
    state = model.encoder.state_dict()
    if old.architecture == "modern":
        config = replace(config, rope_theta=_base(old, length / old.max_positions))
        change = f"rotary base {old.rope_theta:,.0f} to {config.rope_theta:,.0f}"
    elif (name := "embeddings.positions.weight") in state:
        state[name] = state[name][torch.arange(length) % old.max_positions]
        change = "position table repeated"
    else:
        change = f"distances beyond {old.position_span:,} tokens are taken for the greatest"
    encoder = build_encoder(config)
    encoder.load_state_dict(state)
    told = f"{old.max_positions:,} to {length:,} tokens, {change}"
    return replace(model, encoder=encoder.eval(), config=config), told


def _base(config: EncoderConfig, times: float) -> float:
    size = config.hidden_size // config.num_heads
    return config.rope_theta if size == 2 else config.rope_theta * float(times ** (size / (size - 2)))
