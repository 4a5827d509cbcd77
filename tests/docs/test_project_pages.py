"""CITATION.cff is what citation tools read; the page of licences names every library of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def test_the_citation_has_what_is_required() -> None:
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0" and cited["message"] and cited["title"] == "electra"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["license"] == project["license"]
    assert [author["name"] for author in cited["authors"]] == [
        author["name"] for author in project["authors"]
    ]
    [paper] = cited["references"]
    assert paper["year"] == 2020 and paper["url"].endswith("2003.10555") and len(paper["authors"]) == 4


def test_every_library_has_its_licence_on_the_page() -> None:
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "dev"}
    for wanted in (project["dependencies"], *extras.values()):
        for requirement in map(Requirement, wanted):
            assert re.search(rf"\| {re.escape(requirement.name)} \| [^|?]+ \|$", page, re.M), requirement.name
