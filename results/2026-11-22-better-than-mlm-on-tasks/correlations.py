"""How far do scorers agree on which paradigms of BLiMP are easy? Pearson correlations of their accuracies.

Unpack the records, then: python results/2026-11-22-better-than-mlm-on-tasks/correlations.py
"""

import json
import sys
from pathlib import Path

import numpy as np

SCORERS = [("electric", "odds"), ("mlm", "pll"), ("rtd", "pll"), ("rtd", "odds")]


def accuracies(model: str, scorer: str) -> list[float]:
    scorers = Path(__file__).parent / "records" / "scorers"
    record = json.loads((scorers / f"{model}.minimal_pairs.probe.json").read_text())
    table = next(table for table in record["tables"] if table["title"] == "By paradigm")
    column = table["columns"].index(scorer)
    return [row[column] for row in table["rows"] if row[1] != "babylm-supplement"]


for (model, scorer), row in zip(SCORERS, np.corrcoef([accuracies(*each) for each in SCORERS]), strict=True):
    sys.stdout.write(f"{model} {scorer}: {' '.join(f'{value:.2f}' for value in row)}\n")
