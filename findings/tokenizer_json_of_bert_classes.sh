#!/usr/bin/env bash
# transformers 5.24.0 with tokenizers 0.23.3: the class named in tokenizer_config.json decides whether tokenizer.json
# is followed.
#
# Expected: AutoTokenizer gives the ids that `tokenizers` gives for the same tokenizer.json, whatever class its
# tokenizer_config.json names; saving the tokenizer and reading the file again changes nothing.
# Seen: with TokenizersBackend or PreTrainedTokenizerFast it does. With BertTokenizerFast, ElectraTokenizer,
# DistilBertTokenizer and MPNetTokenizer only the vocabulary of the file is used. Normaliser, pre-tokenizer and
# template are built anew from flags of tokenizer_config.json, and a flag that is absent means an uncased BERT: a cased
# vocabulary is read in lower case and without accents, words joined by hyphens are split, [CLS] is added where the
# file adds none. No warning. What save_pretrained then writes is the other tokenizer.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check transformers==5.24.0 tokenizers==0.23.3
cat > try.py <<'EOF'
import json
import pathlib
import sys

import tokenizers
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] the The caf\u00e9 cafe well - known well-known".split()
SPECIALS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
TEXT = "The caf\u00e9 well-known"
FOLLOWS = ("TokenizersBackend", "PreTrainedTokenizerFast")
REBUILDS = ("BertTokenizerFast", "ElectraTokenizer", "DistilBertTokenizer", "MPNetTokenizer")

tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.NFC()
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer.post_processor = processors.TemplateProcessing(
    "$A [SEP]", "$A [SEP] $B:1 [SEP]:1", [("[SEP]", PIECES.index("[SEP]"))]
)
expected = tokenizer.encode(TEXT).tokens
print("transformers", transformers.__version__, "tokenizers", tokenizers.__version__)
print(f"{'tokenizer.json':24s}", expected)
ok = expected == ["The", "caf\u00e9", "well-known", "[SEP]"]
for name in FOLLOWS + REBUILDS:
    folder = pathlib.Path(name)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": name, **{f"{role}_token": token for role, token in SPECIALS.items()}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    seen = loaded.convert_ids_to_tokens(loaded(TEXT)["input_ids"])
    loaded.save_pretrained(folder / "saved")
    saved = Tokenizer.from_file(str(folder / "saved" / "tokenizer.json")).encode(TEXT).tokens
    print(f"{name:24s}", seen, "" if saved == expected else "and saved so")
    if name in FOLLOWS:
        ok &= seen == saved == expected
    else:
        ok &= seen == saved == ["[CLS]", "the", "cafe", "well", "-", "known", "[SEP]"]
sys.exit(not ok)
EOF
HF_HUB_OFFLINE=1 venv/bin/python try.py
