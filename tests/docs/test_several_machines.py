"""How several machines are started, as docs/several-machines.md shows it, as far as one machine can tell."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

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
