#!/usr/bin/env bash
# datasets 5.2.0: a column of integers with one null, read with the format "numpy" or "torch".
#
# Expected: the integers that are there stay as they are, or an error. pandas turns such a column into float64, which
# is exact to 2**53; so does Dataset.to_pandas.
# Seen: the whole column becomes float32, which is exact to 2**24: with one null anywhere in the rows that are read
# together, the number 16777217 of another row is 16777216. Read alone, the same row is exact. So two ids, offsets or
# times in seconds may become one, depending on the batch. There is no warning. (With a null, pyarrow gives floats, and
# float32 is the default of these formats for floats.)
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0 pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1
cat > try.py <<'EOF'
import sys

import datasets
import numpy

print("datasets", datasets.__version__, "numpy", numpy.__version__)
ids = [2**24, 2**24 + 1, None]
data = datasets.Dataset.from_dict({"id": ids})
formatted = data.with_format("numpy")
together = formatted["id"][:]
print("in the file", data["id"][:])
print("to_pandas", data.to_pandas()["id"].tolist())
print("numpy", together.dtype, together.tolist())
print("numpy, without the null", formatted[:2]["id"].tolist())
is_so = (
    data["id"][:] == ids
    and data.to_pandas()["id"].tolist()[:2] == ids[:2]
    and formatted[:2]["id"].tolist() == ids[:2]
    and together.dtype == numpy.float32
    and together[0] == together[1]
)
print("still so" if is_so else "it has changed")
sys.exit(0 if is_so else 1)
EOF
HF_HUB_OFFLINE=1 venv/bin/python try.py
