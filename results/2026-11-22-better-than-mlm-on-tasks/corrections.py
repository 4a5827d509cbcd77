"""Minimal pairs from learners' sentences and their corrections (JFLEG), and from disfluent questions (Disfl-QA).

python corrections.py DATA OUT
"""

import gzip
import json
import sys
from pathlib import Path

data, out = map(Path, sys.argv[1:])


def write(name: str, pairs: list[tuple[str, str]]) -> None:
    folder = out / f"minimal-pairs-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"sentence_good": good, "sentence_bad": bad})
        for good, bad in pairs
        if good.strip() and bad.strip()
    ]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


learners = [json.loads(line) for line in gzip.open(data / "ged" / "jfleg-dev.jsonl.gz", "rt")]
write("jfleg", [(row["refs"][0], row["src"]) for row in learners])
questions = json.load(gzip.open(data / "disfluency" / "disfl-qa-dev.json.gz", "rt")).values()
write("disfl-qa", [(row["original"], row["disfluent"]) for row in questions])
