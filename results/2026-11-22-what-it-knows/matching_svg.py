"""matching.svg: attention to the same token over each training, from over-training/. Run in the repository: .venv/bin/python THIS."""

import json
from pathlib import Path

from electra.report import charts

HERE = Path(__file__).parent
TOKENS = 32 * 128 / 1e6  # millions an update
RUNS = {"rtd": "RTD, first training", "rtd-2": "RTD, second", "mlm": "MLM, first", "mlm-2": "MLM, second"}

series = []
for name, label in RUNS.items():
    record = json.loads((HERE / "over-training" / name / "matching-over-training.probe.json").read_text())
    one = record["figures"][0]["series"][0]
    series.append(one | {"label": label, "x": [step * TOKENS for step in one["x"]]})
figure = record["figures"][0] | {"x": "millions of tokens", "series": series}
drawn = charts.draw("matching", figure)
assert drawn is not None
(HERE / "matching.svg").write_text(drawn)
