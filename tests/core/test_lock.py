"""requirements.lock names every dependency with hashes, in versions that pyproject and constraints allow."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"([\w.-]+)==(\S+)")


def name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def test_every_dependency_is_pinned_with_its_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    blocks = [block for block in re.split(r"^(?=\w)", lock, flags=re.M) if not block.startswith("#")]
    pins = {}
    for block in blocks:
        actual = PIN.match(block)
        assert actual and len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)) >= 1, block[:60]
        pins[name(actual[1])] = actual[2]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    expected = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    extras = project["project"]["optional-dependencies"]
    [ours] = [one for one in extras["dev"] if one.startswith("electra-encoder[")]  # installed here
    names = ["dev", *re.findall(r"[\w-]+", ours)[1:]]
    expected += [one for extra in names for one in extras[extra]]
    for requirement in map(Requirement, expected):
        if name(requirement.name) not in ("torch", "electra-encoder"):
            assert pins[name(requirement.name)] in requirement.specifier, requirement
    constraints = PIN.findall((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert constraints
    assert {one: version for one, version in constraints if pins.get(name(one), version) != version} == {}
    assert "http" not in re.sub(r"^http\w+==.*", "", lock, flags=re.M), "no index is named"
