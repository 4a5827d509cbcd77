"""How several machines are started, as docs/several-machines.md shows it, as far as one machine can tell."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from electra.commands.framework.parser import parse
from electra.commands.pretrain import Pretrain

PAGE = (Path(__file__).parents[2] / "docs" / "several-machines.md").read_text(encoding="utf-8")


def launched(words: list[str]) -> tuple[Any, Pretrain]:
    """What torchrun and `electra pretrain` understand of a command."""
    from torch.distributed.run import parse_args

    arguments = parse_args(words[1:])
    assert words[0] == "torchrun" and arguments.module and arguments.training_script == "electra"
    verb, *rest = arguments.training_script_args
    assert verb == "pretrain"
    return arguments, parse(Pretrain, rest)[0]


def test_torchrun_takes_its_options() -> None:
    text = re.sub(r"\\\n\s*", " ", PAGE)
    found = []
    for line in re.findall(r"^ {4}(torchrun .*)$", text, re.M):
        arguments, pretrain = launched(shlex.split(line.replace("$NODE", "1")))
        if "--nnodes" in line:
            assert arguments.nnodes == "2" and pretrain.out == "/shared/runs/mine"
            found.append(arguments.max_restarts)
    assert found == [0, 3]


def test_the_kubernetes_job_is_consistent() -> None:
    yaml = pytest.importorskip("yaml")
    [text] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    service, job = yaml.safe_load_all(text)
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    words = [word.replace("$(JOB_COMPLETION_INDEX)", "3") for word in container["command"]]
    arguments, pretrain = launched(words)
    assert (
        int(arguments.nnodes)
        == job["spec"]["completions"]
        == job["spec"]["parallelism"]
        > arguments.node_rank
    )
    name = job["metadata"]["name"]  # pods of an indexed Job are NAME-INDEX, in the domain of the service
    assert arguments.master_addr == f"{name}-0.{pod['subdomain']}"
    assert service["metadata"]["name"] == pod["subdomain"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    [mount], [volume] = container["volumeMounts"], pod["volumes"]
    assert mount["name"] == volume["name"] and str(pretrain.out).startswith(mount["mountPath"])
