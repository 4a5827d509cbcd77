"""Gives a trained model positions for longer texts, or its layers once more. Train it afterwards.

    python examples/longer.py runs/mine 2048 --out longer
    electra pretrain --recipe continue --init-discriminator longer --store store --training.length 2048 ...
    python examples/longer.py runs/mine --layers 8 --out deeper

Rotary positions (the modern encoder): for s times the length and heads of size d, the base is multiplied by
s ** (d / (d - 2)) ("NTK-aware" scaling: Peng et al. 2023, YaRN, section 3.1); layers with a window keep
theirs. A table of positions (the paper's encoder) is repeated (Beltagy et al. 2020, Longformer, section 5),
so results for short texts are unchanged.

Layers are repeated in order (stacking: Gong et al. 2019); the deeper network is only a start for training.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from electra.exchange.huggingface import export
from electra.exchange.load import Loaded, load
from electra.model.encoder import LAYER
from electra.model.pair import build_encoder


def lengthen(model: Loaded, length: int) -> Loaded:
    """Returns the model with positions for `length` tokens, more than it has."""
    old = model.config
    config, state = replace(old, max_positions=length), model.encoder.state_dict()
    if old.architecture == "modern":
        d = old.hidden_size // old.num_heads
        theta = old.rope_theta * (length / old.max_positions) ** (d / max(1, d - 2))
        config = replace(config, rope_theta=theta)
    else:
        table = state["embeddings.positions.weight"]
        state["embeddings.positions.weight"] = table[torch.arange(length) % old.max_positions]
    encoder = build_encoder(config)
    encoder.load_state_dict(state)
    return replace(model, encoder=encoder.eval(), config=config)


def deepen(model: Loaded, layers: int) -> Loaded:
    """Returns the model with its layers repeated in order, `layers` in all: a multiple of what it has."""
    config = replace(model.config, num_layers=layers)
    encoder, old = build_encoder(config), model.encoder.state_dict()
    state = encoder.state_dict()
    for name, tensor in state.items():
        source = LAYER.sub(lambda at: at[0].replace(at[1], str(int(at[1]) % model.config.num_layers)), name, 1)
        state[name] = old.get(source, torch.ones_like(tensor))  # the first layer has no norm before it
    encoder.load_state_dict(state)
    return replace(model, encoder=encoder.eval(), config=config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", help="a run, a model folder, or a name on the hub")
    parser.add_argument("length", type=int, nargs="?", help="tokens that it should read")
    parser.add_argument("--layers", type=int, help="layers that it should have: a multiple of its own")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    arguments = parser.parse_args()
    model = load(arguments.model, "encoder")
    model = lengthen(model, arguments.length) if arguments.length else model
    export(deepen(model, arguments.layers) if arguments.layers else model, arguments.out, arguments.model)
    print(arguments.out)


if __name__ == "__main__":
    main()
