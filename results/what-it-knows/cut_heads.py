"""Copy an exported encoder (ModernBERT's format), the queries and keys of some heads replaced by noise.

python cut_heads.py MODEL COPY 1.1 2.1
"""

import shutil
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

HEADS = 2  # of each layer

model, copy, *heads = sys.argv[1:]
shutil.copytree(model, copy)
weights = load_file(f"{copy}/model.safetensors")
torch.manual_seed(0)
for layer, head in (map(int, place.split(".")) for place in heads):
    [name] = [name for name in weights if f"layers.{layer - 1}.attn.Wqkv.weight" in name]
    width = weights[name].shape[1]
    size = width // HEADS
    for part in (0, 1):  # queries, keys
        rows = weights[name][part * width + (head - 1) * size :][:size]
        rows.copy_(torch.randn_like(rows) * rows.std())
with safe_open(f"{model}/model.safetensors", "pt") as file:
    save_file(weights, f"{copy}/model.safetensors", metadata=file.metadata())
