"""The drawings are those of today's script, and the chart's numbers stand in the page that it cites."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree

from electra.foundation.extensions import PROBES

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "make_drawings.py"))


def test_the_files_are_the_scripts() -> None:
    for name in ("hour", "electra"):
        drawn = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
        assert drawn == SCRIPT[name](), "python docs/make_drawings.py"


def test_the_charts_numbers_are_in_their_record() -> None:
    page = (ROOT / SCRIPT["RECORD"] / "README.md").read_text(encoding="utf-8").replace("*", "")
    cells = {cell.strip() for line in page.splitlines() for cell in line.split("|")}
    shown = [str(score) for _, _, *scores in SCRIPT["HOUR"] for score in scores]
    assert len(shown) == 21 and set(shown) <= cells


def test_every_probe_has_a_picture_on_its_page() -> None:
    page = (ROOT / "docs" / "analysis.md").read_text(encoding="utf-8")
    for probe in PROBES.names():
        assert f"(pictures/probe-{probe}.svg)" in page
        ElementTree.parse(ROOT / "docs" / "pictures" / f"probe-{probe}.svg")
