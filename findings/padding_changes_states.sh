#!/usr/bin/env bash
# transformers 5.24.0 with torch 2.14.1: encoders that read the padding although the attention mask says where it is.
#
# Expected: AutoModel gives a text the same states, but for rounding, whether it is read alone or padded to the longest
# text of its batch with an attention mask, and whatever tokens lie under the mask.
# Seen: so for BERT, ELECTRA, RoFormer and Longformer. Not for Nystromformer, ConvBERT, MobileBERT (if the embedding of
# [PAD] is not zero), CANINE and YOSO; there is no warning. YOSO ignores the mask: it is handed 1 and 0,
# takes them for 0 and -10000, and makes 1 of both, so its states are those without any mask. An embedding or a score of
# these models depends on the texts that share its batch.
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

transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__, "torch", torch.__version__)
SIZE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)
OWN = {
    "convbert": dict(embedding_size=32),
    "mobilebert": dict(embedding_size=16, true_hidden_size=16, intra_bottleneck_size=16),
    "longformer": dict(attention_window=[8, 8]),
}
RIGHT = ["bert", "electra", "roformer", "longformer"]
WRONG = ["convbert", "mobilebert", "nystromformer", "canine", "yoso"]
LENGTH, PADDED = 24, 40


def differences(name):
    """The relative change of the first and the last token by padding, and of both by what lies under the mask; is it as without?"""
    config = transformers.CONFIG_MAPPING[name](**SIZE, **OWN.get(name, {}), max_position_embeddings=64)
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():  # as large as those of a trained model; [PAD] has an embedding too
            weight.copy_(torch.randn_like(weight) * 0.2 if weight.dim() > 1 else weight)
        ids = torch.randint(5, 99, (1, PADDED))
        padded = ids.clone()
        padded[:, LENGTH:] = config.pad_token_id
        mask = (torch.arange(PADDED) < LENGTH).long()[None]
        alone = model(input_ids=ids[:, :LENGTH], attention_mask=mask[:, :LENGTH]).last_hidden_state[0]
        unmasked = model(input_ids=ids).last_hidden_state[0, :LENGTH]
        found = []
        for under in (padded, ids):
            other = model(input_ids=under, attention_mask=mask).last_hidden_state[0, :LENGTH]
            change = (other - alone).norm(dim=-1) / alone.norm(dim=-1)
            found += [change[0].item(), change[-1].item()]
    return found, torch.equal(other, unmasked)


ok = True
print(f"{'':14s} padded: first, last   other tokens under the mask: first, last")
for name in RIGHT + WRONG:
    found, is_unmasked = differences(name)
    print(f"{name:14s}", "  ".join(f"{each:8.6f}" for each in found), "  as without a mask" * is_unmasked)
    ok &= max(found) < 1e-4 if name in RIGHT else min(found[1], found[3]) > 1e-3
    ok &= is_unmasked == (name == "yoso")
sys.exit(0 if ok else 1)
EOS
venv/bin/python try.py
