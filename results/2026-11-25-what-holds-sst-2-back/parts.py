"""A part of SST-2's training set whose sentences none of the rest's phrases come from: python parts.py TRAIN.tsv PARTS"""
import sys
from pathlib import Path
import numpy as np
HELD_OUT = 2000
lines = Path(sys.argv[1]).read_text(encoding="utf-8").split("\n")
rows = [line.rsplit("\t", 1) for line in lines[1:] if line.strip()]
words = [tuple(text.split()) for text, _ in rows]
order = sorted(range(len(rows)), key=lambda i: -len(words[i]))
parents = {}  # run of words -> the sentences that have it
sentences = []
for i in order:
    run = words[i]
    if run in parents: continue
    sentences.append(i)
    for a in range(len(run)):
        for b in range(a + 1, len(run) + 1):
            parents.setdefault(run[a:b], set()).add(i)
long = [i for i in sentences if len(words[i]) >= 8]
held = set(int(long[j]) for j in np.random.default_rng(11).permutation(len(long))[:HELD_OUT])
train = [i for i in range(len(rows)) if not parents[words[i]] <= held]
out = Path(sys.argv[2]); out.mkdir(parents=True, exist_ok=True)
for name, places in (("train", train), ("dev", sorted(held))):
    (out / f"{name}.tsv").write_text("\n".join([lines[0], *("\t".join(rows[i]) for i in places)]) + "\n", encoding="utf-8")
print(len(rows), "phrases", len(sentences), "maximal", len(long), "long", len(train), "to train on", len(held), "held out")
