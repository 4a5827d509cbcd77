"""Seconds per update with 1, 2 and 4 processes and on two nodes, gradients summed fast or in a fixed order.

    python benchmarks/processes.py [--processes 1 2 4] [--rounds 3] [--steps 30] [--batch 32]

Rounds are interleaved: each runs every combination once, and ratios are taken within a round. All processes
have one thread, share the cores of this machine, and do the same work per update. The two nodes are network
namespaces joined by a virtual cable, started by torchrun; they are left out where the system does not allow
that. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from electra.data.corpus.store_builder import build_store
from electra.data.text_settings import CorpusConfig, TokenizerConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from driven import rows, write_corpus

NODES = [f"electra-bench-{os.getpid()}-{number}" for number in range(2)]
TORCHRUN = ["-m", "torch.distributed.run", "--nnodes", "2", "--master-addr", "10.201.78.1"]


@contextmanager
def two_nodes() -> Iterator[bool]:
    """Makes two network namespaces; yields whether that worked."""

    def ip(*words: str) -> int:
        return subprocess.run(["ip", *words], check=False, capture_output=True).returncode

    failed = sum(ip("netns", "add", name) for name in NODES)
    failed += ip("link", "add", "cable", "netns", NODES[0], "type", "veth", "peer", "cable", "netns", NODES[1])
    for number, name in enumerate(NODES, 1):
        failed += ip("-n", name, "address", "add", f"10.201.78.{number}/24", "dev", "cable")
        failed += ip("-n", name, "link", "set", "cable", "up") + ip("-n", name, "link", "set", "lo", "up")
    try:
        yield not failed
    finally:
        for name in NODES:
            ip("netns", "delete", name)


def run(store: Path, out: Path, place: tuple[int, bool], summation: str, arguments: argparse.Namespace) -> float:
    """Trains, and returns the median seconds of an update, without the first five."""
    processes, nodes = place
    words = ["pretrain", "--recipe", "tiny", "--store", str(store), "--out", str(out)]
    for name, value in {
        "model.size": arguments.size,
        "training.length": arguments.length,
        "training.batch-size": arguments.batch,
        "training.micro-batch": arguments.batch // 4,
        "training.steps": arguments.steps,
        "training.log-every": 1,
        "training.checkpoint-every": arguments.steps,
        "training.evaluate-every": arguments.steps,
        "training.precision": "fp32",
        "training.threads": 1,
        "training.summation": summation,
        "evaluation.rows": 8,
    }.items():
        words += [f"--{name}", str(value)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "cable" if nodes else "lo"}
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    commands = [[sys.executable, *launcher, "-m", "electra", *words]]
    if nodes:
        commands = [
            [
                "ip",
                "netns",
                "exec",
                name,
                sys.executable,
                *TORCHRUN,
                "--node-rank",
                str(number),
                "-m",
                "electra",
            ]
            + words
            for number, name in enumerate(NODES)
        ]
    quiet = {"stdout": subprocess.DEVNULL, "env": environment}
    started = [subprocess.Popen(command, **quiet) for command in commands]  # type: ignore[call-overload]
    try:
        codes = [process.wait() for process in started]
    finally:
        for process in started:
            process.terminate()
            process.wait()
    if any(codes):
        raise SystemExit(f"a process failed; see {out}")
    seconds: list[float] = [row["seconds"] for row in rows(out)]
    return statistics.median(b - a for a, b in pairwise(seconds[4:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--batch", type=int, default=32, help="rows of an update, in four micro-batches")
    parser.add_argument("--length", type=int, default=128)
    arguments = parser.parse_args()
    measured: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, two_nodes() as possible:
        corpus, store = write_corpus(Path(folder) / "corpus.txt", 3000), Path(folder) / "store"
        config = CorpusConfig(unit="line", heldout=0.05)
        build_store([str(corpus)], TokenizerConfig(vocab_size=90), store, config=config, workers=1)
        places = [(str(number), number, False) for number in arguments.processes]
        places += [("2 nodes", 2, True)] if possible else []
        for number in range(arguments.rounds):
            for name, processes, nodes in places:
                for summation in ("fast", "fixed"):
                    out = Path(folder) / f"{number}-{name}-{summation}"
                    seconds = run(store, out, (processes, nodes), summation, arguments)
                    measured.setdefault(name, {}).setdefault(summation, []).append(seconds)
                    print(f"round {number + 1}: {name:>7} {summation:5} {1000 * seconds:8.1f} ms", flush=True)
    print("processes   fast ms  fixed ms   fixed / fast (each round)")
    for name, each in measured.items():
        ratios = [fixed / fast for fast, fixed in zip(each["fast"], each["fixed"], strict=True)]
        fast, fixed = (1000 * statistics.median(each[kind]) for kind in ("fast", "fixed"))
        listed = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:>9} {fast:9.1f} {fixed:9.1f}   {statistics.median(ratios):.2f} ({listed})")
    print(json.dumps({**vars(arguments), "seconds": measured}))


if __name__ == "__main__":
    main()
