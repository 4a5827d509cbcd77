"""A small real run, driven through the command line in its own process."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SETTINGS = {
    "--model.size": "tiny",
    "--training.length": "16",
    "--training.batch-size": "8",
    "--training.steps": "40",
    "--training.checkpoint-every": "4",
    "--training.evaluate-every": "10",
    "--training.log-every": "1",
    "--training.precision": "fp32",
    "--training.threads": "1",
    "--evaluation.rows": "8",
}
SUBJECTS = ["the cat", "a dog", "my friend", "the old man", "our teacher", "the queen"]
VERBS = ["sees", "likes", "finds", "eats", "draws", "remembers"]
OBJECTS = ["the house", "a green apple", "the long road", "some bread", "the sea", "an old book"]


def write_corpus(path: Path, documents: int = 120) -> Path:
    draw = random.Random(0)
    lines = []
    for _ in range(documents):
        sentences = [f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(OBJECTS)} ." for _ in range(draw.randint(1, 8))]
        lines.append(" ".join(sentences))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def toy_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from electra.data.corpus import CorpusConfig
    from electra.data.packing import build_store
    from electra.data.wordpiece import TokenizerConfig

    folder = tmp_path_factory.mktemp("store")
    corpus = write_corpus(folder / "corpus.txt")
    build_store([str(corpus)], TokenizerConfig(vocab_size=90), folder / "store", config=CorpusConfig(unit="line", heldout=0.1), workers=1)
    return folder / "store"


def command(store: Path, out: Path, processes: int = 1, torchrun: bool = False, **changes: str) -> list[str]:
    settings = SETTINGS | {f"--{name}": value for name, value in changes.items()}
    flags = [word for pair in settings.items() for word in pair]
    if processes > 1 and not torchrun:
        flags += ["--processes", str(processes)]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", str(free_port())] if torchrun else []
    return [sys.executable, *launcher, "-m", "electra", "pretrain", "--store", str(store), "--out", str(out), *flags]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def launch(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def complete(arguments: list[str]) -> str:
    process = launch(arguments)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    return output


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rows(out: Path, kind: str = "train") -> list[dict[str, Any]]:
    found = []
    for line in (out / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == kind:
            found.append(row)
    return found


def steps_done(out: Path) -> int:
    """The last step in metrics.jsonl while it is being written."""
    try:
        lines = (out / "metrics.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return -1
    for line in reversed(lines):
        try:
            return int(json.loads(line).get("step", -1))
        except ValueError:
            continue
    return -1


def fingerprint(out: Path) -> dict[str, Any]:
    """Everything that must be equal to the bit: weights, moments, and the ledger but for its times."""
    last = max((out / "checkpoints").glob("step-*"))
    digests = {name: hashlib.sha256((last / name).read_bytes()).hexdigest() for name in ("model.safetensors", "optimizer.safetensors")}
    untimed = [
        {key: value for key, value in row.items() if key not in ("seconds", "tokens_per_s")} for row in rows(out) + rows(out, "eval")
    ]
    return {**digests, "checkpoint": last.name, "ledger": untimed}
