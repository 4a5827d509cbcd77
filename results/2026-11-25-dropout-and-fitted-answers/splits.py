"""Three folders of MRPC's training and dev pairs, each third held out once: python splits.py GLUE/mrpc OUT"""

import random
import sys
from pathlib import Path

rows = []
for name in ("train.tsv", "dev.tsv"):
    header, *lines = (Path(sys.argv[1]) / name).read_text(encoding="utf-8-sig").splitlines()
    rows += lines
random.Random(7).shuffle(rows)
for k in range(3):
    held = slice(k * 1076, (k + 1) * 1076)
    folder = Path(sys.argv[2]) / str(k)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"dev": rows[held], "train": rows[: held.start] + rows[held.stop :]}
    for name, part in parts.items():
        (folder / f"{name}.tsv").write_text("\n".join([header, *part]) + "\n")
