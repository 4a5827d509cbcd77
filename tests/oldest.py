"""The lower bounds of pyproject.toml as constraints for pip: the oldest versions that we say we work with.

    python tests/oldest.py [extras]         make test-oldest

torch is left out: the CPU build that constraints.txt names is the only one that is sure to be had.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def bounds(extras: list[str]) -> list[str]:
    """`name==version` of each requirement that has a lower bound."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    wanted = [*project["dependencies"], *(r for e in extras for r in project["optional-dependencies"][e])]
    found = [re.match(r"([\w.-]+)>=([\d.]+)", requirement) for requirement in wanted]
    return [f"{one[1]}=={one[2]}" for one in found if one and one[1] != "torch"]


if __name__ == "__main__":
    print("\n".join(bounds(sys.argv[1:])))
