"""Parts of the training sets, to choose settings on: python parts.py GLUE PARTS"""

import sys
from pathlib import Path

import numpy as np

TRAINED_ON = {"mrpc": 2600, "rte": 400, "sts-b": 1500, "qqp": 2000, "mnli": 2000, "qnli": 2000}
SCORED_ON = 2000

for name, count in TRAINED_ON.items():
    [source] = (Path(sys.argv[1]) / name).glob("train.*")
    lines = [line for line in source.read_text(encoding="utf-8").split("\n") if line.strip()]
    head = [lines.pop(0)] if source.suffix == ".tsv" else []
    order = np.random.default_rng(11).permutation(len(lines))
    out = Path(sys.argv[2]) / name
    out.mkdir(parents=True, exist_ok=True)
    for split, places in (("train", order[:count]), ("dev", order[count : count + SCORED_ON])):
        (out / (split + source.suffix)).write_text(
            "\n".join(head + [lines[i] for i in places]) + "\n", encoding="utf-8"
        )
