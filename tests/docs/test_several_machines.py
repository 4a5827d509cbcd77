"""How several machines are started, as docs/several-machines.md shows it, as far as one machine can tell."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import types
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
    commands = [shlex.split(line) for line in re.findall(r"^ {4}(torchrun .*)$", text, re.M)]
    for words in commands:
        arguments, pretrain = launched([word.replace("$NODE", "1") for word in words])
        assert arguments.nnodes == "2" and pretrain.out == "/shared/runs/mine"
    assert [launched([w.replace("$NODE", "1") for w in words])[0].max_restarts for words in commands] == [
        0,
        3,
    ]


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


def test_what_a_worker_of_ray_train_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for Ray that calls the function as a worker would."""
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    seen: list[tuple[list[str], dict[str, str]]] = []

    class Trainer:
        def __init__(self, train: Any, **_: Any) -> None:
            self.train = train

        def fit(self) -> None:
            self.train()

    train, torch = types.ModuleType("ray.train"), types.ModuleType("ray.train.torch")
    vars(train).update(dict.fromkeys(("FailureConfig", "RunConfig", "ScalingConfig"), dict))
    vars(torch)["TorchTrainer"] = Trainer
    for name, module in {
        "ray": types.ModuleType("ray"),
        "ray.train": train,
        "ray.train.torch": torch,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    variables = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "4000"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(subprocess, "run", lambda words, env, check: seen.append((words, env)))
    exec(compile(block, "several-machines.md", "exec"), {"__name__": "page"})
    [(words, environment)] = seen
    assert words[:4] == [sys.executable, "-m", "electra", "pretrain"]
    assert parse(Pretrain, words[4:])[0].store == "/shared/store"
    assert environment == {**os.environ, **variables, "MASTER_PORT": "4001"}
