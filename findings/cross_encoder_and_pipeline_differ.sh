#!/usr/bin/env bash
# sentence-transformers 6.2.0 and transformers 5.24.0: neither reads what the other lets a folder say about its scores.
#
# Expected: CrossEncoder and pipeline("text-classification") give the same score for the same pair and the same folder
# of a BertForSequenceClassification with one label, because config.json says what the output means.
# Seen: they agree (sigmoid) only while config.json says nothing. With problem_type "regression" the pipeline gives the
# number and CrossEncoder its sigmoid. With sentence_transformers.activation_fn Identity, as in many published
# re-rankers, CrossEncoder gives the number and the pipeline its sigmoid. With several labels at once
# (multi_label_classification) the pipeline gives probabilities and CrossEncoder logits. No warning.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check sentence-transformers==6.2.0 transformers==5.24.0
cat > try.py <<'EOS'
import pathlib
import sys

import sentence_transformers
import torch
import transformers

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a film was good bad".split()
PAIR = ("a film", "was good")
IDENTITY = {"activation_fn": "torch.nn.modules.linear.Identity"}
CASES = {
    "nothing": (1, {}, "sigmoid", "sigmoid"),
    "regression": (1, {"problem_type": "regression"}, "number", "sigmoid"),
    "identity": (1, {"sentence_transformers": IDENTITY}, "sigmoid", "number"),
    "several": (3, {"problem_type": "multi_label_classification"}, "sigmoid", "number"),
}
print("transformers", transformers.__version__, "sentence-transformers", sentence_transformers.__version__)
ok = True
for name, (labels, settings, of_pipeline, of_cross_encoder) in CASES.items():
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=32, num_labels=labels, **settings,
    )
    model = transformers.BertForSequenceClassification(config).eval()
    torch.nn.init.constant_(model.classifier.bias, 3.0)
    folder = pathlib.Path(name)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder)
    with torch.inference_mode():
        number = model(**tokenizer(*PAIR, return_tensors="pt")).logits[0]
    meanings = {"number": number, "sigmoid": number.sigmoid()}
    pipe = transformers.pipeline("text-classification", model=str(folder), device="cpu")
    scores = pipe({"text": PAIR[0], "text_pair": PAIR[1]}, top_k=None)
    by_label = {answer["label"]: answer["score"] for answer in scores}
    seen = torch.tensor([by_label[label] for label in sorted(by_label)])
    encoder = sentence_transformers.CrossEncoder(str(folder), device="cpu")
    other = torch.as_tensor(encoder.predict([PAIR])[0]).reshape(-1)
    print(f"{name:12s} pipeline {seen[0]:.4f} ({of_pipeline}) CrossEncoder {other[0]:.4f} ({of_cross_encoder})")
    ok &= torch.allclose(seen, meanings[of_pipeline], atol=1e-4)
    ok &= torch.allclose(other, meanings[of_cross_encoder], atol=1e-4)
sys.exit(not ok)
EOS
HF_HUB_OFFLINE=1 venv/bin/python try.py
