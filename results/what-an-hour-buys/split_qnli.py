"""split_qnli.py DEV.tsv.gz OUT: nine tenths of QNLI's dev set to train on and a tenth to score, with no question and no
sentence on both sides.
"""

import gzip
import hashlib
import sys
from pathlib import Path

header, *lines = gzip.open(sys.argv[1], "rt", encoding="utf-8").read().splitlines()
parents: dict[str, str] = {}


def root(name: str) -> str:
    while parents.setdefault(name, name) != name:
        name = parents[name]
    return name


for line in lines:
    _, question, sentence, _ = line.split("\t")
    parents[root(f"q{question}")] = root(f"s{sentence}")
out = Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)
scored = [int(hashlib.sha1(root(f"q{line.split(chr(9))[1]}").encode()).hexdigest(), 16) % 10 == 0 for line in lines]
for name, wanted in (("train", False), ("dev", True)):
    chosen = [line for line, held in zip(lines, scored, strict=True) if held is wanted]
    (out / f"{name}.tsv").write_text("\n".join([header, *chosen]) + "\n", encoding="utf-8")
