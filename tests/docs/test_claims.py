"""The numbers of the page on the paper's claims are those that its script computes from the kept records."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "results" / "the-papers-claims"
DIFFERENCE = re.compile(r"[+-]\d+\.\d \[-?\d+\.\d, -?\d+\.\d\]\*?, p [.\d]+ \([.\d]+\)")


def test_every_difference_with_a_p_is_computed_from_the_records(tmp_path: Path) -> None:
    with tarfile.open(FOLDER / "records.tar.xz") as records:
        records.extractall(tmp_path, filter="data")
    script = [sys.executable, str(FOLDER / "claims.py"), str(tmp_path / "records")]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    said = DIFFERENCE.findall((FOLDER / "README.md").read_text())
    assert len(said) > 30 and set(said) <= set(DIFFERENCE.findall(printed))
    means = re.search(r"width-1 - width-0.25: (.*)  means (\d+\.\d), (\d+\.\d)", printed)
    assert means and f"{means[1]} ({means[2]}, {means[3]})" in (FOLDER / "README.md").read_text()
