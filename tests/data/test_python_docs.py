"""The corpus of Python's documentation: prose without repetitions, always equal, never imported."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from electra.data.corpus import python_docs

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
