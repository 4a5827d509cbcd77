"""docs/python.md runs from top to bottom, on a small corpus, and names all that is public."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import electra

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
SMALLER = {  # what the page says, and what is run
    "vocab_size=8192": "vocab_size=70, heldout=0.2",
    'budget="30m"': 'budget="4steps", overrides={"training.batch_size": 4, "training.threads": 1}',
    "seeds=2": "seeds=2, epochs=1, max_length=16",
}
SENTENCE = "the chef cooked a fine meal and ate it with a friend in an old house by the sea"


def test_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    words = SENTENCE.split()
    for number in range(30):
        text = " ".join(words[(i * (number + 1)) % len(words)] for i in range(60))
        (tmp_path / "texts" / f"{number}.txt").write_text(text)
    rows = [f"{'good' if i % 2 else 'bad'} film number {i},{'yes' if i % 2 else 'no'}" for i in range(40)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    known = "import electra.data.unknown\nelectra.data.unknown.REFUSED = 1.0\n"  # a vocabulary of 70 pieces
    code = known + "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S))
    for said, run in SMALLER.items():
        assert said in code
        code = code.replace(said, run)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "nowhere" in done.stdout


def test_the_page_names_all_that_is_public() -> None:
    assert [name for name in electra.__all__ if f"`{name}" not in PAGE] == []
