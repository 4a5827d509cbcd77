"""Parts of the training sets, to choose settings on: python parts.py GLUE PARTS"""
import gzip, sys
from pathlib import Path
import numpy as np
TRAINED_ON = {"cola": 3000, "mrpc": 1500, "sts-b": 1500}
SCORED_ON = 2000
for name, count in TRAINED_ON.items():
    [source] = (Path(sys.argv[1]) / name).glob("train.*")
    lines = [line for line in gzip.open(source, "rt", encoding="utf-8", newline="\n").read().split("\n") if line.strip()]
    head = [] if name == "cola" else [lines.pop(0)]
    order = np.random.default_rng(11).permutation(len(lines))
    out = Path(sys.argv[2]) / name
    out.mkdir(parents=True, exist_ok=True)
    for split, places in (("train", order[:count]), ("dev", order[count : count + SCORED_ON])):
        (out / f"{split}.tsv").write_text("\n".join(head + [lines[i] for i in places]) + "\n", encoding="utf-8")
