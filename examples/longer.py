"""Gives a trained model positions for longer texts; the weights stay. Train it on longer rows afterwards.

    python examples/longer.py runs/mine 2048 --out longer
    electra pretrain --recipe continue --init-discriminator longer --store store --training.length 2048 ...

Rotary positions (the modern encoder): for s times the length and heads of size d, the base is multiplied by
s ** (d / (d - 2)) ("NTK-aware" scaling: Peng et al. 2023, YaRN, section 3.1); layers with a window keep
theirs. A table of positions (the paper's encoder) is repeated (Beltagy et al. 2020, Longformer, section 5),
so results for short texts are unchanged.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from electra.exchange.convert import export
from electra.exchange.load import Loaded, load
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", help="a run, a model folder, or a name on the hub")
    parser.add_argument("length", type=int, help="tokens that it should read")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    arguments = parser.parse_args()
    export(lengthen(load(arguments.model, "encoder"), arguments.length), arguments.out, arguments.model)
    print(arguments.out)


if __name__ == "__main__":
    main()
