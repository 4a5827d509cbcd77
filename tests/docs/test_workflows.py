"""The workflows: actions are pinned by commit, and what they run of ours is there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def read(path: Path) -> dict[Any, Any]:
    found = pytest.importorskip("yaml").safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def steps(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in read(workflow)["jobs"].values():
        assert job["timeout-minutes"] <= 180
        yield from job["steps"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_pinned_and_runs_what_there_is(workflow: Path) -> None:
    assert read(workflow)["permissions"] == {"contents": "read"}  # a job that needs more says so
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        assert PINNED.fullmatch(step.get("uses", "a/b@" + "0" * 40)), step["uses"]
        assert set(re.findall(r"\bmake ([\w-]+)", step.get("run", ""))) <= targets


def test_a_tag_or_a_branch_is_no_pin() -> None:
    assert not PINNED.fullmatch("actions/checkout@v4") and not PINNED.fullmatch("actions/checkout@main")


def test_one_commit_an_action() -> None:
    used = {step["uses"] for path in WORKFLOWS for step in steps(path) if "uses" in step}
    assert len(used) == len({one.partition("@")[0] for one in used})


def test_the_tests_run_on_every_python_and_system_that_is_promised() -> None:
    matrix = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "classifiers"
    ]
    minor = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    assert matrix["python"] == [found[1] for one in classifiers if (found := minor.fullmatch(one))]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]


def test_an_issue_form_has_what_the_host_requires() -> None:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    for form in map(read, forms):
        assert form["name"] and form["description"]
        kept = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        assert kept and len(kept) == len(set(kept))
        assert all(part["attributes"]["label"] for part in form["body"] if part["type"] != "markdown")


def test_what_publishes_is_installed_by_hash() -> None:
    """A job that may publish runs nothing that was not compared with a recorded hash."""
    release = ROOT / ".github" / "workflows" / "release.yml"
    installs = [
        step["run"] for step in read(release)["jobs"]["publish"]["steps"] if "install" in step.get("run", "")
    ]
    assert installs and all("--require-hashes" in one and "--no-deps" in one for one in installs)
    lock = (ROOT / ".github" / "release.lock").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[\w-])", lock, flags=re.M)[1:]
    assert all(re.match(r"[\w.-]+==\S+ ", block) and "--hash=sha256:" in block for block in blocks)
    assert any(block.startswith("twine==") for block in blocks) and "http" not in lock
