"""Extends a trained model to longer texts: the same weights, with positions for more tokens.

Rotary positions (the modern encoder): for s times the length and heads of size d, the base is multiplied by
s ** (d / (d - 2)). This stretches low frequencies to the new length and leaves high frequencies as they are
("NTK-aware" scaling: Peng et al. 2023, YaRN, section 3.1). Layers with a window keep their base, since
distances within the window do not grow.

A table of positions (the paper's encoder) is repeated until it is long enough (Beltagy et al. 2020,
Longformer, section 5), so results for short texts are unchanged.

DeBERTa keeps its distance buckets; greater distances fall into the last one.

The model accepts longer texts but was not trained on any: train it further.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from electra.exchange.load import Loaded
from electra.foundation.errors import ConfigError
from electra.model.pair import build_encoder
from electra.model.sizes import EncoderConfig

MAX_LENGTH = 131_072  # tokens; full attention over more does not fit in memory


def lengthen(model: Loaded, length: int) -> Loaded:
    """Returns the model with positions for `length` tokens. Raises ConfigError if that is out of range."""
    old_config = model.config
    if not old_config.max_positions < length <= MAX_LENGTH:
        allowed = f"above the model's {old_config.max_positions:,} and at most {MAX_LENGTH:,}"
        raise ConfigError(f"must be {allowed}, not {length:,}", key="length")
    config = replace(old_config, max_positions=length)
    state = model.encoder.state_dict()
    if old_config.architecture == "modern":
        theta = _scaled_rotary_base(old_config, length / old_config.max_positions)
        config = replace(config, rope_theta=theta)
    elif (name := "embeddings.positions.weight") in state:
        state[name] = state[name][torch.arange(length) % old_config.max_positions]
    encoder = build_encoder(config)
    encoder.load_state_dict(state)
    return replace(model, encoder=encoder.eval(), config=config)


def _scaled_rotary_base(config: EncoderConfig, times: float) -> float:
    """Returns the rotary base for texts that are `times` as long."""
    d = config.hidden_size // config.num_heads
    return config.rope_theta if d == 2 else config.rope_theta * float(times ** (d / (d - 2)))
