"""Writes text.txt, the text of `small-en`: paragraphs and sentences, a line each.

python text.py CORPORA    a folder with the compressed JSON lines that are named below
"""

import io
import json
import random
import re
import sys
from pathlib import Path

import zstandard

SHARES = {
    "enwiki-2015.3": 0.6,
    "enwiki-2015.4": 0.6,
    "babylm-mix-3m": 1,
    "english-novels-100": 0.25,
}  # of documents
LONGEST = 3000  # characters

rng, lines = random.Random(1), []
for name, share in SHARES.items():
    with open(Path(sys.argv[1]) / f"{name}.jsonl.zst", "rb") as file:
        for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8"):
            if rng.random() > share:
                continue
            row = json.loads(line)
            if name.startswith("babylm") and "simple_wiki" not in row["source"]:
                continue  # the other sources may not be published
            for paragraph in (" ".join(text.split()) for text in row["text"].split("\n")):
                if len(paragraph.split()) < 5:
                    continue
                if rng.random() < 0.5:
                    lines.append(paragraph[:LONGEST])
                else:
                    sentences = re.split(r"(?<=[.!?]) +(?=[A-Z])", paragraph)
                    lines += [text[:LONGEST] for text in sentences if len(text.split()) >= 4]
rng.shuffle(lines)
Path("text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
