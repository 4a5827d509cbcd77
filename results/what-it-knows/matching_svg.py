"""Draw matching.svg: attention to the same token over each training.

Unpack the records, then: python results/what-it-knows/matching_svg.py
"""

import json
from pathlib import Path

from electra.pages.figures import Figure, Series, draw

HERE = Path(__file__).parent
TOKENS = 32 * 128 / 1e6  # millions a step
RUNS = {"rtd": "RTD, seed 1", "rtd-2": "RTD, seed 2", "mlm": "MLM, seed 1", "mlm-2": "MLM, seed 2"}

series = []
for name, label in RUNS.items():
    path = HERE / "records" / "over-training" / name / "matching-over-training.probe.json"
    first = json.loads(path.read_text())["figures"][0]["series"][0]
    series.append(Series(label, [step * TOKENS for step in first["x"]], first["y"], first["low"], first["high"]))
figure = Figure("matching", "", "", series, x="millions of tokens", y="attention to the same token")
drawn = draw(figure)
assert drawn is not None
(HERE / "matching.svg").write_text(drawn, encoding="utf-8")
