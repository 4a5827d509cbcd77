"""Spearman correlation of the cosine of two texts' vectors with the numbers of STS-B's dev set.

python stsb.py STS-B MODEL ...
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import electra

[dev] = Path(sys.argv[1]).glob("dev.tsv")
rows = [line.split("\t") for line in dev.read_text(encoding="utf-8").splitlines()]
first, second, number = (rows[0].index(name) for name in ("sentence1", "sentence2", "score"))
rows = [row for row in rows[1:] if len(row) == len(rows[0])]
for name in sys.argv[2:]:
    model = electra.load(name)
    a, b = (model.embed([row[column] for row in rows]) for column in (first, second))
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    print(f"{name}: {spearmanr(cosine, [float(row[number]) for row in rows])[0]:.3f} ({len(rows)} pairs)")
