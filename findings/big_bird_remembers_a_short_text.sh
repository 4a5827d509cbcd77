#!/usr/bin/env bash
# transformers 5.24.0 with torch 2.14.1: BigBird with its default attention, block_sparse.
#
# Expected: a model in evaluation mode gives the same text the same states, whatever it has read before.
# Seen: the first text (or batch) that is too short for sparse attention, below 704 tokens with the default settings,
# turns the whole model to full attention, and it stays so: the states of a long text are others after it than before.
# The one warning speaks of the short text only. config.json still says block_sparse, so a saved and loaded model gives
# the first states again, as does set_attention_type("block_sparse"). So the vectors of long documents depend on their
# order, and two processes that share out a corpus disagree.
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
SIZE = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, vocab_size=100)
config = transformers.BigBirdConfig(**SIZE, max_position_embeddings=1024, initializer_range=0.2)
torch.manual_seed(0)
model = transformers.BigBirdModel(config).eval()
long = torch.randint(5, 99, (1, 960))
short = long[:, :20]


def states(ids):
    with torch.no_grad():
        return model(input_ids=ids).last_hidden_state


def change(one, other):
    return ((one - other).norm() / one.norm()).item()


first, again = states(long), states(long)
states(short)
after, kind = states(long), model.attention_type
model.save_pretrained("saved")
model = transformers.BigBirdModel.from_pretrained("saved").eval()
loaded = states(long)
print(f"a long text twice: {change(first, again):.6f}")
print(f"after a short one: {change(first, after):.6f} ({kind}; config: {config.attention_type})")
print(f"saved and loaded:  {change(first, loaded):.6f} ({model.attention_type})")
ok = change(first, again) == 0 and change(first, loaded) < 1e-5 and change(first, after) > 0.01
sys.exit(0 if ok and kind == "original_full" else 1)
EOS
venv/bin/python try.py
