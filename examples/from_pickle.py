"""Converts a published model whose weights are a pickle (pytorch_model.bin) to safetensors, once.

    python examples/from_pickle.py microsoft/deberta-v3-small --out deberta
    python examples/from_pickle.py FOLDER --out FOLDER

A pickle can run code when it is opened, so electra reads none. This uses torch's restricted unpickler
(weights_only), which makes tensors and plain containers and calls nothing else.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import save_file

WEIGHTS = "pytorch_model.bin"
COPIED = ("*.json", "*.txt", "*.model")  # configuration, vocabulary, tokenizer


def convert(source: Path, out: Path) -> None:
    """Writes the network in the pickle of the folder `source` to the folder `out`."""
    state = torch.load(source / WEIGHTS, map_location="cpu", weights_only=True)
    out.mkdir(parents=True, exist_ok=True)
    for path in (path for pattern in COPIED for path in source.glob(pattern)):
        shutil.copyfile(path, out / path.name)
    tensors = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in state.items()}
    save_file(tensors, out / "model.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", help="a folder, or a name on the hub")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    arguments = parser.parse_args()
    source = Path(arguments.source)
    if not source.is_dir():
        source = Path(snapshot_download(arguments.source, allow_patterns=[*COPIED, WEIGHTS]))
    convert(source, arguments.out)
    print(arguments.out)


if __name__ == "__main__":
    main()
