"""The container's files fit the repository; a daemon to build them is not needed."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from electra.commands.framework.parser import parse
from electra.commands.serve import Serve

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_what_is_copied_is_here_and_not_ignored() -> None:
    copied = [word for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M) for word in line.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied and all((ROOT / name).exists() and f"!{name}" in ignored for name in copied)


def test_what_is_installed_is_known() -> None:
    [extras] = re.findall(r"'\.\[(.*)\]'", DOCKERFILE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    [torch] = re.findall(r"torch==[\d.]+", DOCKERFILE)
    assert torch in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()


def test_the_command_is_one() -> None:
    [entry] = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.M)
    [command] = re.findall(r"command: (.*)$", (ROOT / "compose.yaml").read_text(encoding="utf-8"), re.M)
    program, verb, *options = json.loads(entry)
    assert (program, verb) == ("electra", "serve")
    parsed, _ = parse(Serve, [*options, *json.loads(command)])
    assert parsed.host == "0.0.0.0" and parsed.models == ("/models/${MODEL:-mine}",)
    [exposed] = re.findall(r"^EXPOSE (\d+)", DOCKERFILE, re.M)
    assert parsed.port == int(exposed)


def test_the_server_has_stopped_before_it_would_be_killed() -> None:
    from electra.serving.server import GRACE

    [compose] = re.findall(r"stop_grace_period: (\d+)s", (ROOT / "compose.yaml").read_text(encoding="utf-8"))
    unit = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    [systemd] = re.findall(r"TimeoutStopSec=(\d+)", unit)
    assert GRACE < 30 <= min(int(compose), int(systemd)) - 10
