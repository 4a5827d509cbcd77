#!/usr/bin/env bash
# datasets 5.2.0 with pandas 3.1.1, Polars 2.1.0 and pyarrow 26.0.1: a text in a column of type Json changes on its way.
#
# Expected: the parquet file of a data set with a feature Json gives the same text in every reader of the file that
# knows Arrow's JSON type, and Dataset.to_csv writes what Dataset.to_pandas().to_csv() writes.
# Seen: `datasets` gives the text. pandas (dtype object), Polars (dtype Extension) and pyarrow give its serialisation,
# with quotes around it and a line feed as a backslash and an n, without a warning. Within `datasets`, to_pandas and
# to_json write the text, to_csv writes the serialisation. After pandas has rewritten the file, `datasets` too gives
# the quotes, because the type is gone.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1
cat > try.py <<'EOP'
import csv
import json
import sys

import datasets
import pandas
import polars
import pyarrow.parquet

TEXT = 'She said "yes".\nThen left.'
SERIALISED = json.dumps(TEXT)
data = datasets.Dataset.from_list([{"text": TEXT}], features=datasets.Features({"text": datasets.Json()}))
data.to_parquet("a.parquet")
data.to_csv("a.csv")
data.to_json("a.jsonl")
frame = pandas.read_parquet("a.parquet")
frame.to_parquet("b.parquet")
seen = {
    "datasets, parquet": datasets.Dataset.from_parquet("a.parquet")["text"][0],
    "datasets, to_pandas": data.to_pandas()["text"][0],
    "datasets, to_json": json.loads(open("a.jsonl").readline())["text"],
    "datasets, to_csv": list(csv.DictReader(open("a.csv", newline="")))[0]["text"],
    "pandas, parquet": frame["text"][0],
    "Polars, parquet": polars.read_parquet("a.parquet")["text"][0],
    "pyarrow, parquet": pyarrow.parquet.read_table("a.parquet")["text"][0].as_py(),
    "datasets, rewritten by pandas": datasets.Dataset.from_parquet("b.parquet")["text"][0],
}
for name, text in seen.items():
    print(f"{name:30s} {text!r}")
expected = [TEXT] * 3 + [SERIALISED] * 5
sys.exit(list(seen.values()) != expected)
EOP
HF_HUB_OFFLINE=1 HF_HOME="$folder/home" venv/bin/python try.py
