"""Draw matching.svg: attention to the same token over each training.

Unpack the records, then: python results/2026-11-22-what-it-knows/matching_svg.py
"""

import json
from pathlib import Path

from electra.pages import charts

HERE = Path(__file__).parent
TOKENS = 32 * 128 / 1e6  # millions an update
RUNS = {"rtd": "RTD, first training", "rtd-2": "RTD, second", "mlm": "MLM, first", "mlm-2": "MLM, second"}

series = []
for name, label in RUNS.items():
    path = HERE / "records" / "over-training" / name / "matching-over-training.probe.json"
    record = json.loads(path.read_text())
    one = record["figures"][0]["series"][0]
    series.append(one | {"label": label, "x": [step * TOKENS for step in one["x"]]})
figure = record["figures"][0] | {"x": "millions of tokens", "series": series}
drawn = charts.draw("matching", figure)
assert drawn is not None
(HERE / "matching.svg").write_text(drawn)
