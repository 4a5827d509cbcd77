#!/usr/bin/env bash
# datasets 5.2.0: spans of entities such as [0, 3, "PER"] (doccano's, GLiNER's and spaCy's), from a file and from memory.
#
# Expected: load_dataset("json") and Dataset.from_list give the same data set for the same rows, or both refuse them.
# Seen: load_dataset reads the file, with the type Json for the items of a span; Dataset.from_list, and so what maps or
# generates such rows, raises ArrowInvalid ("tried to convert to int64"). In the parquet file that the first one writes
# the items are strings of JSON (0, 3 and "PER" in quotes) in the extension type arrow.json, which pandas passes on as
# strings, without a warning.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0 pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1
cat > try.py <<'EOF'
import json
import sys

import datasets
import pandas
import pyarrow

datasets.disable_progress_bars()
print("datasets", datasets.__version__, "pandas", pandas.__version__, "pyarrow", pyarrow.__version__)
row = {"text": "Ada left London", "label": [[0, 3, "PER"], [9, 15, "LOC"]]}
with open("spans.jsonl", "w") as file:
    file.write(json.dumps(row) + "\n")
from_file = datasets.load_dataset("json", data_files="spans.jsonl", split="train", cache_dir="cache")
print("from a file:", from_file.features["label"], from_file[0]["label"])
from_file.to_parquet("spans.parquet")
in_pandas = [list(span) for span in pandas.read_parquet("spans.parquet")["label"][0]]
print("parquet, by pandas:", in_pandas)
try:
    refused = ""
    datasets.Dataset.from_list([row])
except pyarrow.ArrowInvalid as error:
    refused = str(error)
print("from memory:", refused or "read")
is_so = from_file[0]["label"] == row["label"] and bool(refused) and in_pandas[0] == ["0", "3", '"PER"']
print("still so" if is_so else "it has changed")
sys.exit(0 if is_so else 1)
EOF
HF_HUB_OFFLINE=1 venv/bin/python try.py
