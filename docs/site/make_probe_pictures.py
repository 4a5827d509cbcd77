"""Draw docs/pictures/probe-*.svg: one figure of each probe, from the records of results/what-it-knows.

    python docs/site/make_probe_pictures.py

The pictures follow the reader's light or dark scheme, as those of make_drawings.py do.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from electra.pages.figures import Figure, Series, draw

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results" / "what-it-knows" / "records.tar.xz"
SCHEME = """<style>
svg { color: #1b1f24; background: #ffffff; }
@media (prefers-color-scheme: dark) { svg { color: #e6edf3; background: #0d1117; } }
</style>"""
CHOSEN = {  # probe: its record, the figure's name
    "calibration": ("rtd/calibration", "reliability-generator"),
    "errors": ("errors", "by-kind"),
    "bias": ("rtd/bias", "false-alarms-by-part-of-speech"),
    "generators": ("rtd/generators", "kinds"),
    "reranking": ("rtd/reranking", "gain"),
    "minimal_pairs": ("rtd/minimal_pairs", "phenomena-mlm"),
    "layer_similarity": ("two-trainings/layer_similarity", "across"),
}
NEW_LABELS = {  # probe: label in its record, what the probe calls it now
    "bias": {"as it is": "false alarms", "uncertainty held equal": "false alarms, adjusted"},
    "calibration": {"as it is": "uncalibrated", "share that is wrong": "share of errors"},
}


def themed(svg: str) -> str:
    """A figure that stands alone: with its own background and text colour in either scheme."""
    start, end, rest = svg.partition(">")
    return f"{start}{end}{SCHEME}{rest}"


def picture(record: dict[str, Any], name: str, labels: dict[str, str]) -> str:
    """The SVG of the figure called `name` of a probe's record."""
    chosen = next(figure for figure in record["figures"] if figure["name"] == name)
    keys = ("x", "y", "low", "high", "style")
    series = [
        Series(labels.get(each["label"], each["label"]), *(each[key] for key in keys)) for each in chosen["series"]
    ]
    figure = Figure(
        f"probe-{name}",
        chosen["title"],
        chosen["note"],
        series,
        chosen["kind"],
        x=chosen["x"],
        y=labels.get(chosen["y"], chosen["y"]),
        x_range=chosen["x_range"],
        y_range=chosen["y_range"],
    )
    drawn = draw(figure)
    assert drawn is not None, name
    return themed(drawn)


def pictures() -> dict[str, str]:
    """The SVG of each probe's figure."""
    with tarfile.open(RECORDS) as tar:
        return {
            probe: picture(
                json.load(tar.extractfile(f"records/{record}.probe.json") or tar),
                name,
                NEW_LABELS.get(probe, {}),
            )
            for probe, (record, name) in CHOSEN.items()
        }


if __name__ == "__main__":
    for probe, svg in pictures().items():
        (ROOT / "docs" / "pictures" / f"probe-{probe}.svg").write_text(svg, encoding="utf-8")
