"""Compares the speed of DeBERTa's encoder with transformers' DebertaV2Model, with the same weights, in turns.

Prints a line of JSON with medians for each length and mode (training: forward and backward, with dropout;
scoring: only forward).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from transformers import DebertaV2Config, DebertaV2Model

from electra.exchange.configs import read_config
from electra.exchange.names import from_transformers
from electra.model.deberta import DebertaEncoder

SIZES = {"tiny": (4, 128, 2), "xsmall": (12, 384, 6), "small": (6, 768, 12), "base": (12, 768, 12)}


def networks(size: str, layers: int | None, dropout: float) -> tuple[DebertaEncoder, DebertaV2Model]:
    own_layers, hidden, heads = SIZES[size]
    config = DebertaV2Config(
        vocab_size=8192, hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden,
        num_hidden_layers=layers or own_layers, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout, relative_attention=True, position_buckets=256,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False,
    )  # fmt: skip
    reference = DebertaV2Model(config)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        from pathlib import Path

        shape = replace(read_config(Path(folder)).encoder, dropout=dropout, attention_dropout=dropout)
    ours = DebertaEncoder(shape)
    tensors = {f"deberta.{name}": tensor for name, tensor in reference.state_dict().items()}
    template = {f"encoder.{name}": tensor for name, tensor in ours.state_dict().items()}
    state, unused = from_transformers(tensors, template, "deberta", "encoder", "memory")
    assert not unused
    ours.load_state_dict({name.removeprefix("encoder."): tensor for name, tensor in state.items()})
    return ours, reference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--tokens", type=int, default=1024, help="tokens per batch")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dropout", type=float, default=0.1)
    arguments = parser.parse_args()
    ours, reference = networks(arguments.size, arguments.layers, arguments.dropout)

    def timed(run: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor, training: bool) -> float:
        began = time.perf_counter()
        if training:
            run(ids).sum().backward()
        else:
            with torch.inference_mode():
                run(ids)
        return time.perf_counter() - began

    runs = {"electra": ours, "transformers": lambda ids: reference(ids).last_hidden_state}
    for length in arguments.lengths:
        ids = torch.randint(5, 8192, (max(1, arguments.tokens // length), length))
        for training in (True, False):
            ours.train(training), reference.train(training)
            times: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(arguments.rounds + 1):
                for name, run in runs.items():
                    times[name].append(timed(run, ids, training))
                    ours.zero_grad(), reference.zero_grad()
            took = {name: statistics.median(values[1:]) for name, values in times.items()}
            print(json.dumps({
                "size": arguments.size, "layers": ours.config.num_layers, "length": length,
                "mode": "training" if training else "scoring", "threads": torch.get_num_threads(),
                "tokens_per_second": {name: round(ids.numel() / value) for name, value in took.items()},
                "times_as_fast": round(took["transformers"] / took["electra"], 2),
            }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
