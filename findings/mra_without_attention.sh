#!/usr/bin/env bash
# transformers 5.24.0 with torch 2.14.1: MRA (model type "mra") where its CUDA kernel is not loaded, as on a processor.
#
# Expected: the same states but for rounding as with the kernel, more slowly; or an error that says what is missing, as
# elsewhere for a package that is not installed.
# Seen: attention gives zeros. Each token's state depends on that token and its position alone: with every other word of
# the text replaced, it is equal bit for bit. A model trains so too, without a warning, its attention's output weights with
# gradients of zero.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check transformers==5.24.0 torch==2.14.1 numpy==2.4.6
cat > try.py <<'EOS'
import sys

import torch
import transformers

print("transformers", transformers.__version__, "torch", torch.__version__)
SIZE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)
changes, zero = {}, {}
for name in ("bert", "yoso", "mra"):
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[name](**SIZE, max_position_embeddings=64, initializer_range=0.2)
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    one, other = torch.randint(5, 99, (2, 1, 32))
    other[0, 0] = one[0, 0]
    with torch.no_grad():
        states = [model.base_model(input_ids=ids).last_hidden_state[0, 0] for ids in (one, other)]
    changes[name] = ((states[0] - states[1]).norm() / states[0].norm()).item()
    model(input_ids=one, labels=torch.tensor([1])).loss.backward()
    weights = [each for key, each in model.named_parameters() if key.endswith("attention.output.dense.weight")]
    zero[name] = sum(not each.grad.any() for each in weights)
    print(f"{name:5s} change of the first token {changes[name]:.6f}, gradients of zero: {zero[name]} of {len(weights)}")
ok = changes["mra"] == 0 and zero["mra"] == 2 and min(changes["bert"], changes["yoso"]) > 0.01
sys.exit(0 if ok and not zero["bert"] + zero["yoso"] else 1)
EOS
CUDA_VISIBLE_DEVICES="" venv/bin/python try.py
