"""A corpus that exists on every machine: the documentation that comes with the running Python.

It consists of the language reference (`pydoc_data.topics`) and the docstrings of the standard library and of
the numerical libraries that this package requires. Source files are parsed with `ast`, never imported. Each
topic and each module is a document. Duplicate docstrings, doctest blocks, ruled lines and indentation are
left out, so that the rest reads as prose.
"""

import ast
import hashlib
import importlib.util
import inspect
import platform
import re
import sysconfig
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

NAME = "python-docs"
_LIBRARIES = ("numpy", "scipy", "sklearn")
_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "pydoc_data"}
_DOCTEST = re.compile(r"^[ \t]*>>>.*(?:\n[ \t]*\S.*)*", re.MULTILINE)  # from a prompt to the next blank line
_RULE = re.compile(r"^[ \t]*([-=*~^#.+_|`])[-=*~^#.+_| `]*$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


@cache
def documents() -> tuple[str, ...]:
    """Returns all documents (about 10 MB), in an order that depends only on the installation."""
    seen: set[str] = set()
    joined_texts = []
    for docstrings in chain(_topics(), _modules()):
        new_texts = [text for text in dict.fromkeys(map(prose, docstrings)) if text and text not in seen]
        seen.update(new_texts)
        if new_texts:
            joined_texts.append("\n\n".join(new_texts))
    return tuple(joined_texts)


def describe() -> dict[str, object]:
    """Returns Python's version, and the corpus's size and SHA-256, which also depend on the libraries."""
    hasher, size = hashlib.sha256(), 0
    for text in documents():
        content = text.encode("utf-8", "replace") + b"\0"
        size += len(content)
        hasher.update(content)
    return {"name": NAME, "python": platform.python_version(), "size": size, "sha256": hasher.hexdigest()}


def prose(docstring: str) -> str:
    """Returns a docstring without indentation, doctest blocks and ruled lines."""
    text = _RULE.sub("", _DOCTEST.sub("", inspect.cleandoc(docstring)))
    text = "\n".join(line.strip() for line in text.splitlines())
    return _BLANK_LINES.sub("\n\n", text).strip()


def _topics() -> Iterator[list[str]]:
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield [topics[name]]


def _roots() -> Iterator[Path]:
    yield Path(sysconfig.get_path("stdlib"))
    for library in _LIBRARIES:
        spec = importlib.util.find_spec(library)
        if spec is not None and spec.submodule_search_locations:
            yield Path(next(iter(spec.submodule_search_locations)))


def _modules() -> Iterator[list[str]]:
    for root in _roots():
        files = [path for path in root.rglob("*.py") if not _SKIPPED & set(path.relative_to(root).parts)]
        for path in sorted(files, key=lambda path: path.relative_to(root).as_posix()):
            yield _docstrings(path)


def _docstrings(path: Path) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's source
            module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):  # some files of the standard library are broken on purpose
        return []
    docstrings = (ast.get_docstring(node, clean=False) for node in [module, *_definitions(module.body)])
    return [docstring for docstring in docstrings if docstring]


def _definitions(body: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yields classes and functions in source order, also inside `if` and `try`; faster than ast.walk."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for branch in ("body", "orelse", "handlers", "finalbody"):
            yield from _definitions(getattr(node, branch, []))
