"""The share of the compute with which MLM reaches RTD's final score (interpolated along its logarithm).

Unpack the records, then: python results/the-papers-claims/shares.py
"""

import json
import sys
from pathlib import Path

import numpy as np

ARMS = Path(__file__).parent / "records" / "convergence" / "arms"
SHARES = (0.125, 0.25, 0.5, 1.0)


def mean(arm: str, share: float, tasks: tuple[str, ...]) -> float:
    folder = ARMS / arm if share == 1 else ARMS / arm / f"budget-{share:g}"
    scores = [json.loads(path.read_text())["scores"] for path in sorted(folder.glob("seed-*/score.json"))]
    return float(np.mean([[each[task]["value"] for task in tasks] for each in scores]))


for tasks in (("pos",), ("chunking",), ("pos", "chunking", "stsb")):
    mlm, rtd = [mean("mlm", share, tasks) for share in SHARES], mean("rtd", 1.0, tasks)
    reached = np.exp(np.interp(rtd, mlm, np.log(SHARES)))
    sys.stdout.write(f"{' '.join(tasks)}: RTD ends with {rtd:.4f}, which MLM has at {reached:.3f} of the budget\n")
