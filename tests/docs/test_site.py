"""The site is built strictly, from every page, and loads nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import electra

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b(?![^>]*canonical)[^>]*\bhref=\"?(?:https?:)?//|@import|fonts\.googleapis"
)


def listed() -> set[Path]:
    folder = ROOT / "docs"
    links = re.findall(r"\]\(([^)#]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    return {(folder / link).resolve() for link in links}


def test_every_page_is_in_the_menu() -> None:
    first = {ROOT / "README.md", ROOT / "docs" / "README.md"}  # the site's first page, and the menu itself
    pages = {*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")} - first
    assert sorted(page.name for page in pages - listed()) == []


def test_the_python_reference_names_all_that_is_public() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^::: electra\.(\w+)$", page, flags=re.M))
    assert set(electra.__all__) - {"__version__"} <= named


def test_it_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings_handlers.python")
    typed = [sys.executable, *["-m", "mkdocs", "build", "--strict", "--site-dir"], str(tmp_path / "site")]
    done = subprocess.run(typed, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    made = {page: page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html")}
    assert len(made) > 50
    assert [str(page) for page, text in made.items() if LOADED.search(text)] == []
    site = tmp_path / "site"
    assert "vocab_size" in made[site / "docs" / "python" / "index.html"], "signatures"
    assert (site / "results" / "rtd-or-mlm" / "index.html").is_file()
