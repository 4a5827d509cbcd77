#!/usr/bin/env bash
# datasets 5.2.0 with pandas 3.1.1: Dataset.to_csv of a column of lists, such as the words of a sentence.
#
# Expected: the file has the lists in full, in a notation that can be read back, as Dataset.to_json writes them and as
# pandas writes Python lists (['a', 'b']); or an error, since csv has no lists.
# Seen: each list is written as numpy prints an array. There are no commas, so that ast.literal_eval, the usual way to
# read such cells, joins the words into one: ['the' 'film'] is ['thefilm']. A list of more than 1,000 items is cut to
# its first and last three with "..." between them; the others are lost. There is no warning.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0 pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1
cat > try.py <<'EOF'
import ast
import csv
import json
import sys

import datasets
import pandas

datasets.disable_progress_bars()
print("datasets", datasets.__version__, "pandas", pandas.__version__)
lists = [["the", "film"], [f"word{i}" for i in range(1001)]]
data = datasets.Dataset.from_dict({"tokens": lists})
data.to_csv("a.csv")
data.to_json("a.jsonl")
with open("a.csv", newline="") as file:
    short, long = [row["tokens"] for row in csv.DictReader(file)]
with open("a.jsonl") as file:
    in_json = [json.loads(line)["tokens"] for line in file]
read = ast.literal_eval(short)
print("written", short, "read by literal_eval", read)
print("a list of 1,001 words", long)
print("to_json is whole:", in_json == lists)
print("pandas alone:", pandas.DataFrame({"tokens": lists[:1]}).to_csv(index=False).splitlines()[1])
is_so = in_json == lists and read == ["thefilm"] and "..." in long and "word500" not in long
print("still so" if is_so else "it has changed")
sys.exit(0 if is_so else 1)
EOF
HF_HUB_OFFLINE=1 venv/bin/python try.py
