"""The corpus of Python's documentation: prose without repetitions, always equal, never imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from electra.data import python_docs

MODULE = '''"""The first passage.

    >>> doctest()
    its output
    and more

    Parameters
    ----------
    x : int

    The end of it.
    """
raise SystemExit("a module is read, never run")
if True:
    class Chef:
        """Cooks a meal."""
        def cook(self):
            """Cooks."""
            def inner():
                "Inner."
        async def taste(self):
            """Cooks a meal."""
    broken = "\\d"
'''


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(python_docs, "_roots", lambda: iter([tmp_path]))
    monkeypatch.setattr(python_docs, "_topics", lambda: iter([["A topic of the language."]]))
    python_docs.documents.cache_clear()
    yield tmp_path
    python_docs.documents.cache_clear()


def test_docstrings_become_prose(library: Path) -> None:
    (library / "a.py").write_text(MODULE)
    (library / "bad.py").write_text("def (")
    (library / "copy.py").write_text('"""Cooks a meal."""\n')
    (library / "test").mkdir()
    (library / "test" / "b.py").write_text('"""Of no interest."""\n')
    assert python_docs.documents() == (
        "A topic of the language.",
        "The first passage.\n\nParameters\n\nx : int\n\nThe end of it.\n\nCooks a meal.\n\nCooks.\n\nInner.",
    )
    described = python_docs.describe()
    assert described["name"] == "python-docs" and len(str(described["sha256"])) == 64


PROGRAM = """
import sys
from electra.data import python_docs
python_docs._LIBRARIES = ()
texts = python_docs.documents()
assert "turtle" not in sys.modules and "tkinter" not in sys.modules, "nothing is imported"
joined = "\\n".join(texts)
assert not any(line.startswith(">>>") for line in joined.splitlines())
assert not any(line != line.strip() for line in joined.splitlines())
print(len(texts), len(joined), python_docs.describe()["sha256"])
"""


@pytest.mark.slow
def test_the_standard_library_gives_over_a_megabyte_of_prose() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, characters, digest = done.stdout.split()
    assert int(count) > 400 and int(characters) > 1_000_000 and len(digest) == 64
