"""Trains spaCy's named-entity recogniser (a CNN, from nothing) on the 500 sentences of the grid's `entities`.

    python results/how-defaults-were-chosen/spacy_entities.py DATA OUT [--seeds 11 12 13]

Needs spaCy, and grid.py beside it. spaCy keeps the best of its evaluations on the rows that are scored, an
advantage that the other rows of the table do not have. Prints a line of JSON for each seed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import spacy
from grid import parts
from spacy.tokens import Doc, DocBin


def main() -> None:
    """Writes the data, trains, and prints the best F1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[11, 12, 13])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    blank = spacy.blank("en")
    for name, rows in zip(("train", "dev"), parts(arguments.data, "entities", "final"), strict=True):
        documents = DocBin()
        for row in rows:
            documents.add(Doc(blank.vocab, words=row["tokens"], ents=row["tags"]))
        documents.to_disk(arguments.out / f"{name}.spacy")
    run = [sys.executable, "-m", "spacy"]
    config = str(arguments.out / "config.cfg")
    subprocess.run([*run, "init", "config", config, "-p", "ner", "--force"], check=True, capture_output=True)
    for seed in arguments.seeds:
        began, model = time.perf_counter(), arguments.out / f"model-{seed}"
        paths = [f"--paths.{name}={arguments.out / name}.spacy" for name in ("train", "dev")]
        options = [f"--training.seed={seed}", f"--output={model}"]
        subprocess.run([*run, "train", config, *paths, *options], check=True, capture_output=True)
        score = json.loads((model / "model-best" / "meta.json").read_text())["performance"]["ents_f"]
        record = {"model": f"spaCy {spacy.__version__}", "task": "entities", "seed": seed, "score": score}
        sys.stdout.write(json.dumps(record | {"seconds": round(time.perf_counter() - began)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
