"""Files around the package fit it: the container, the workflows, the citation, the page of licences."""

import importlib.util
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from electra.commands.framework.parser import parse
from electra.commands.serve import Serve

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")  # a commit, not a tag or a branch


def read_yaml(path: Path) -> dict[Any, Any]:
    found = pytest.importorskip("yaml").safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_the_container_copies_and_installs_what_there_is() -> None:
    copied = [word for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M) for word in line.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied and all((ROOT / name).exists() and f"!{name}" in ignored for name in copied)
    [extras] = re.findall(r"'\.\[(.*)\]'", DOCKERFILE)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "grep ^torch== constraints.txt" in DOCKERFILE and not re.search(r"torch==\d", DOCKERFILE)
    assert len(re.findall(r"^torch==[\d.]+$", constraints, re.M)) == 1


def test_the_container_serves() -> None:
    [entry] = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.M)
    [command] = re.findall(r"command: (.*)$", (ROOT / "compose.yaml").read_text(encoding="utf-8"), re.M)
    program, name, *options = json.loads(entry)
    assert (program, name) == ("electra", "serve")
    parsed, _ = parse(Serve, [*options, *json.loads(command)])
    assert parsed.host == "0.0.0.0" and parsed.models == ("/models/${MODEL:-mine}",)
    [exposed] = re.findall(r"^EXPOSE (\d+)", DOCKERFILE, re.M)
    assert parsed.port == int(exposed)


def test_every_library_has_its_licence_on_the_page() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    extras = {name: wanted for name, wanted in PROJECT["optional-dependencies"].items() if name != "dev"}
    for wanted in (PROJECT["dependencies"], *extras.values()):
        for requirement in map(Requirement, wanted):
            assert re.search(rf"\| {re.escape(requirement.name)} \| [^|?]+ \|$", page, re.M), requirement.name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_pinned_and_runs_what_there_is(workflow: Path) -> None:
    assert read_yaml(workflow)["permissions"] == {"contents": "read"}  # a job that needs more says so
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for job in read_yaml(workflow)["jobs"].values():
        assert job["timeout-minutes"] <= 180
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert PINNED.fullmatch(step.get("uses", "a/b@" + "0" * 40)), step["uses"]
            assert set(re.findall(r"\bmake ([\w-]+)", step.get("run", ""))) <= targets


def test_what_publishes_is_installed_by_hash() -> None:
    """A job that may publish runs nothing that was not compared with a recorded hash."""
    steps = read_yaml(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["publish"]["steps"]
    installs = [step["run"] for step in steps if "install" in step.get("run", "")]
    assert installs and all("--require-hashes" in one and "--no-deps" in one for one in installs)
    lock = (ROOT / ".github" / "release.lock").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[\w-])", lock, flags=re.M)[1:]
    assert all(re.match(r"[\w.-]+==\S+ ", block) and "--hash=sha256:" in block for block in blocks)


def test_an_index_shows_links_that_work_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """README.md as hatch_build.py gives it to an index: links to files are addresses of files that exist."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/electra")
    metadata: dict[str, Any] = {}
    hook.IndexPage(str(ROOT), {}).update(metadata)
    page, address = metadata["readme"]["text"], "https://github.com/someone/electra"
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    ours = [link for link in links if link.startswith(address)]
    assert len(ours) > 10 and all(re.match("https?:|#", link) for link in links)
    for link in ours:
        path = re.fullmatch(rf"{address}/(?:blob|raw)/main/([^#]+)(#.*)?", link)
        assert path is not None and (ROOT / path[1]).exists(), link
    assert {"Source", "Issues", "Documentation"} <= set(metadata["urls"])


def test_the_address_is_that_of_the_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hatchling")
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    remotes = {"": "", "https://github.com/a/b.git": "https://github.com/a/b", "/srv/git/electra": ""}
    for remote, address in {**remotes, "git@example.org:a/b": "https://example.org/a/b"}.items():
        if remote:
            subprocess.run(["git", "-C", str(tmp_path), "config", "remote.origin.url", remote], check=True)
        assert importlib.import_module("hatch_build").repository(tmp_path) == address
