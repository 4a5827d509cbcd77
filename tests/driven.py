"""Small real runs through the command line, in processes of their own that tests kill or wait for.

Importing torch takes longer than such a run. So most of these processes are forked from one that has only
imported everything; `spawn` starts one as a user does.
"""

import hashlib
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from electra.artifacts.run_files import RunFolder

SETTINGS = {
    "--recipe": "tiny",
    "--model.size": "tiny",
    "--training.length": "16",
    "--training.batch-size": "8",
    "--training.steps": "24",
    "--training.checkpoint-every": "4",
    "--training.evaluate-every": "8",
    "--training.log-every": "1",
    "--training.precision": "fp32",
    "--training.threads": "1",
    "--evaluation.rows": "8",
}
SUBJECTS = ["the cat", "a dog", "my friend", "the old man", "our teacher", "the queen"]
VERBS = ["sees", "likes", "finds", "eats", "draws", "remembers"]
OBJECTS = ["the house", "a green apple", "the long road", "some bread", "the sea", "an old book"]


def write_corpus(path: Path, documents: int = 120) -> Path:
    """Writes a corpus of small English-like sentences, one document a line, and returns its path."""
    draw = random.Random(0)
    lines = []
    for _ in range(documents):
        sentences = [
            f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(OBJECTS)} ." for _ in range(draw.randint(1, 8))
        ]
        lines.append(" ".join(sentences))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def toy_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token store of that corpus, made once per session."""
    from electra.data.corpus.store_builder import build_store
    from electra.data.text_settings import CorpusConfig, TokenizerConfig

    folder = tmp_path_factory.mktemp("store")
    corpus = write_corpus(folder / "corpus.txt")
    build_store(
        [str(corpus)],
        TokenizerConfig(vocab_size=90),
        folder / "store",
        config=CorpusConfig(unit="line", heldout=0.1),
        workers=1,
    )
    return folder / "store"


def command(store: Path, out: Path, **changes: str) -> list[str]:
    """The words of a `pretrain` command with the small settings; `changes` are options without dashes."""
    settings = SETTINGS | {f"--{name}": value for name, value in changes.items()}
    flags = [word for pair in settings.items() for word in pair]
    return ["pretrain", "--store", str(store), "--out", str(out), *flags]


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "__main__",
        "driven",
        "electra.commands.pretrain",
        "electra.training.assemble",
        "electra.training.loop",
        "electra.inference.example_rows",
        "electra.exchange.huggingface",
    ]
    + ["sklearn.metrics", "torch._dynamo", "torch.distributed"]  # imported lazily by the modules above
)


class Forked:
    """Runs `electra WORD...` in a process of its own, without figures in its report."""

    def __init__(self, words: list[str], **variables: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix="electra-test-")
        os.close(descriptor)
        self.log = Path(name)
        self.process = FORKS.Process(target=_run_command, args=(words, self.log, variables), daemon=True)
        self.process.start()

    def poll(self) -> int | None:
        """Returns the exit code, or None while the process runs."""
        return self.process.exitcode

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if the process still runs."""
        assert self.process.pid is not None
        if self.poll() is None:
            os.kill(self.process.pid, number)

    def finish(self, timeout: float = 240) -> str:
        """Waits for the process to end and returns its output, standard error included."""
        self.process.join(timeout)
        assert self.poll() is not None, self.log.read_text()
        text = self.log.read_text()
        self.log.unlink()
        return text


def _run_command(words: list[str], log: Path, variables: dict[str, str]) -> None:
    import offline

    from electra.commands.framework.main import main
    from electra.pages import figures

    offline.block_network()
    os.environ.update(variables)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["electra", *words]
    figures.missing = lambda: "written without figures"
    sys.exit(main(words))


def complete(words: list[str]) -> str:
    """Runs a command that must succeed, and returns its output."""
    process = Forked(words)
    output = process.finish()
    assert process.poll() == 0, output
    return output


def ranks(words: list[str], size: int, folder: Path, **variables: str) -> list[Forked]:
    """Starts the processes that a launcher would start."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **variables}
    return [Forked(words, RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(size)]


def run_processes(words: list[str], size: int, folder: Path, until: int | None = None) -> None:
    """Runs a command, whose fifth word is the run folder, in processes that are killed after `until`."""
    processes = ranks(words, size, folder) if size > 1 else [Forked(words)]
    while until is not None and steps_done(Path(words[4])) < until:
        assert all(process.poll() is None for process in processes)
    for process in processes:
        if until is not None:
            process.process.kill()
        output = process.finish()
        assert until is not None or process.poll() == 0, output


def spawn(words: list[str], *launcher: str) -> subprocess.Popen[str]:
    """Starts a command as a user does, or as `python LAUNCHER...` does."""
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "electra", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def rows(out: Path, kind: str = "train") -> list[dict[str, Any]]:
    """Returns the ledger's rows of a kind."""
    return RunFolder(out).ledger().rows_of_kind(kind)


def steps_done(out: Path) -> int:
    """Returns the last step in a ledger that is being written; -1 for an empty one."""
    rows = RunFolder(out).ledger().rows
    return int(rows[-1]["step"]) if rows else -1


def fingerprint(out: Path) -> dict[str, Any]:
    """Returns what must be bit-identical: weights, optimizer state, and the ledger without times."""
    last = RunFolder(out).saved_checkpoints()[0]
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (last.weights, last.optimizer)}
    untimed = [
        {key: value for key, value in row.items() if key not in ("seconds", "tokens_per_s", "rank_seconds")}
        for row in rows(out) + rows(out, "eval")
    ]
    return {**digests, "checkpoint": last.path.name, "ledger": untimed}
