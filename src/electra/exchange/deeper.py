"""A model of more layers: those of a trained one, repeated in order.

Stacking (Gong et al. 2019, Efficient Training of BERT by Progressively Stacking): a shallow network learns at
the cost of a shallow one, and the deep one that is stacked from it goes on from there. Its function changes,
so it must be trained further.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from electra.exchange.configs import HALF
from electra.exchange.load import Loaded
from electra.exchange.transfer import rewrite
from electra.exchange.warm_start import load_main
from electra.foundation.errors import ConfigError, ModelError
from electra.model.pair import build_encoder

MOST = 1_000  # layers


def deepen(source: str, out: Path, layers: int) -> list[str]:
    """Write `source` with so many layers: a model to `out`, the networks of a run to folders of their names
    in it, each with as many times its layers. Returns lines for the user. Raises ConfigError, ModelError.
    """
    has = load_main(source).config.num_layers
    if not 2 * has <= layers <= MOST or layers % has:
        raise ConfigError(
            f"must be a multiple of the {has} the model has, from {2 * has} to {MOST:,}, not {layers:,}",
            key="layers",
        )
    return rewrite(source, out, lambda model: _deeper(model, layers // has))


def _deeper(model: Loaded, times: int) -> tuple[Loaded, str]:
    old = model.config
    if old.num_layers % old.global_every:
        raise ModelError(
            f"one layer in {old.global_every} attends to all tokens, which {old.num_layers} layers repeated"
            " would not keep up",
            where=model.folder,
        )
    layers = times * old.num_layers
    config = replace(old, num_layers=layers)
    encoder = build_encoder(config)
    state = encoder.state_dict()  # a first layer has no norm of its own: that of its copies starts as ones
    for name, tensor in model.encoder.state_dict().items():
        state[name] = tensor
        if name.startswith("layers."):
            _, number, rest = name.split(".", 2)
            state |= {
                f"layers.{int(number) + start}.{rest}": tensor for start in range(0, layers, old.num_layers)
            }
    encoder.load_state_dict(state)
    deeper = replace(model, encoder=encoder.eval(), config=config, threshold=HALF)
    return deeper, f"{old.num_layers} to {layers} layers"
