"""Scores models, and the same networks with random weights, on the default tasks of studies.

python benchmarks/panel.py DATA MODEL...
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from electra.exchange.load import Loaded, load
from electra.laboratory.ablation import panel
from electra.model.encoder import Encoder
from electra.model.pair import build_pair


def random_network(loaded: Loaded) -> Encoder:
    network = build_pair(loaded.config, seed=1, initialisation="fan_in").main
    assert network is not None
    return network.encoder


def main(data: Path, models: list[str]) -> None:
    for model in models:
        loaded = load(model, "encoder")
        for kind, encoder in (("trained", loaded.encoder), ("random", random_network(loaded))):
            for name in panel.DEFAULT_TASKS:
                began = time.process_time()
                score = panel.score_frozen(encoder, loaded.tokenizer, name, data)
                seconds = time.process_time() - began
                print(
                    f"{Path(model).name:24} {kind:8} {name:9} {score['value']:.4f}  {seconds:4.0f} CPU s  mix"
                    f" {score['mix']}",
                    flush=True,
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
