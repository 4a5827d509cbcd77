"""Converts a published model whose weights are a pickle (pytorch_model.bin) to safetensors, once.

    python examples/from_pickle.py microsoft/deberta-v3-small --out pair
    python examples/from_pickle.py FOLDER --out FOLDER

A pickle can run code when it is opened, so electra reads none. This uses torch's restricted unpickler
(weights_only), which makes tensors and plain containers and calls nothing else.

DeBERTaV3's repositories have two networks in two pickles. They become OUT/discriminator and OUT/generator,
from which `electra pretrain --init OUT` continues; any other model becomes the folder OUT.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import save_file

WEIGHTS = {"discriminator": "pytorch_model.bin", "generator": "pytorch_model.generator.bin"}
COPIED = ("*.json", "*.txt", "*.model")  # configuration, vocabulary, tokenizer


def convert(source: Path, weights: str, out: Path) -> None:
    """Writes the network in the pickle `weights` of the folder `source` to the folder `out`."""
    state = torch.load(source / weights, map_location="cpu", weights_only=True)
    out.mkdir(parents=True, exist_ok=True)
    for path in (path for pattern in COPIED for path in source.glob(pattern)):
        shutil.copyfile(path, out / path.name)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    layers = [int(match[1]) for name in state if (match := re.search(r"encoder\.layer\.(\d+)\.", name))]
    if weights == WEIGHTS["generator"] and layers:  # config.json describes the discriminator
        config["num_hidden_layers"] = 1 + max(layers)
    (out / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    save_file({name: tensor.clone() for name, tensor in state.items()}, out / "model.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", help="a folder, or a name on the hub")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    arguments = parser.parse_args()
    source = Path(arguments.source)
    if not source.is_dir():
        source = Path(snapshot_download(arguments.source, allow_patterns=[*COPIED, *WEIGHTS.values()]))
    if (source / WEIGHTS["generator"]).is_file():
        for name, weights in WEIGHTS.items():
            convert(source, weights, arguments.out / name)
    else:
        convert(source, WEIGHTS["discriminator"], arguments.out)
    print(arguments.out)


if __name__ == "__main__":
    main()
