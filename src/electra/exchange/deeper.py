"""Adds layers to a trained model by repeating its layers in order.

Stacking (Gong et al. 2019, Efficient Training of BERT by Progressively Stacking): a shallow network is cheap
to train, and the deep network stacked from it continues from there. Its function changes, so it must be
trained further.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from electra.exchange.configs import DEFAULT_THRESHOLD
from electra.exchange.load import Loaded
from electra.exchange.transfer import rewrite
from electra.exchange.warm_start import load_main
from electra.foundation.errors import ConfigError, ModelError
from electra.model.pair import build_encoder

MAX_LAYERS = 1_000  # layers


def deepen(source: str, out: Path, layers: int) -> list[str]:
    """Writes `source` with `layers` layers to `out`. Returns lines for the user.

    The networks of a run go to subfolders, each with its number of layers multiplied by the same factor.

    Raises:
        ConfigError: `layers` is not a multiple of the model's.
        ModelError: the model cannot be read, or `out` cannot be written.
    """
    old = load_main(source).config.num_layers
    if not 2 * old <= layers <= MAX_LAYERS or layers % old:
        raise ConfigError(
            f"must be a multiple of the model's {old}, from {2 * old} to {MAX_LAYERS:,}, not {layers:,}",
            key="layers",
        )
    return rewrite(source, out, lambda model: _deeper(model, layers // old))


def _deeper(model: Loaded, times: int) -> tuple[Loaded, str]:
    old = model.config
    if old.num_layers % old.global_every:
        raise ModelError(
            f"one layer in {old.global_every} attends to all tokens; repeating {old.num_layers} layers would"
            " break that order",
            where=model.folder,
        )
    layers = times * old.num_layers
    config = replace(old, num_layers=layers)
    encoder = build_encoder(config)
    state = encoder.state_dict()  # the first layer has no attention norm; its copies start with ones
    for name, tensor in model.encoder.state_dict().items():
        state[name] = tensor
        if name.startswith("layers."):
            _, number, rest = name.split(".", 2)
            state |= {
                f"layers.{int(number) + start}.{rest}": tensor for start in range(0, layers, old.num_layers)
            }
    encoder.load_state_dict(state)
    deeper = replace(model, encoder=encoder.eval(), config=config, threshold=DEFAULT_THRESHOLD)
    return deeper, f"{old.num_layers} to {layers} layers"
