#!/usr/bin/env bash
# transformers 5.24.0 with tokenizers 0.23.3: AutoTokenizer on a local folder that has config.json and no tokenizer file.
#
# Expected: an error that says that the vocabulary is missing, as where the folder has no config.json either: a model of
# 30,522 embeddings cannot be read with a tokenizer that was never there.
# Seen: for model types whose class can be built from nothing (bert, electra, distilbert) from_pretrained returns
# a tokenizer of the special tokens alone, without a warning. Every word becomes [UNK], so that all texts of as many
# words have equal ids, and save_pretrained writes that tokenizer as if it were the model's.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check transformers==5.24.0 tokenizers==0.23.3
cat > try.py <<'EOF2'
import json
import pathlib
import sys

import tokenizers
import transformers
from tokenizers import Tokenizer

print("transformers", transformers.__version__, "tokenizers", tokenizers.__version__)
ok = True
for model_type in ("bert", "electra", "distilbert"):
    folder = pathlib.Path(model_type)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": model_type, "vocab_size": 30522}))
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        print(f"{model_type:11s} {type(error).__name__}")
        ok = False
        continue
    one, other = (tokenizer(text)["input_ids"] for text in ("red apples fall", "nobody saw it"))
    tokenizer.save_pretrained(folder / "saved")
    saved = Tokenizer.from_file(str(folder / "saved" / "tokenizer.json")).get_vocab_size()
    print(f"{model_type:11s} entries {len(tokenizer)}, saved {saved}, equal ids of two texts: {one == other}")
    ok &= len(tokenizer) < 10 and saved < 10 and one == other
sys.exit(0 if ok else 1)
EOF2
venv/bin/python try.py
