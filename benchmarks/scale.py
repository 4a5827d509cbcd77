"""Measures how memory grows: of `prepare` with the size of the text, of `pretrain` with the steps.

    python benchmarks/scale.py [--megabytes 30 60 120] [--steps 2000] [--figures HERE]

The text is generated: documents of a sentence of about 60 characters, all distinct. Each measurement is a
process of its own that samples its memory. `own` memory stays with the process; `mapped` memory is pages of
files, which the system reclaims when it needs them. The last line of output is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 5000
CORPUS = 570_000_000  # number of sentences to which the slope is extrapolated
PREPARE = """
import json, sys, threading, time
from pathlib import Path
from electra.data.text_settings import CorpusConfig, TokenizerConfig
from electra.data.corpus.store_builder import build_store
peak, done = {"RssAnon": 0, "RssFile": 0}, threading.Event()
def watch():
    while not done.wait(0.02):
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in peak:
                peak[name] = max(peak[name], int(value.split()[0]) << 10)
watching = threading.Thread(target=watch)
watching.start()
text, out = sys.argv[1:]
began = time.process_time()
try:
    config = CorpusConfig(unit="line")
    tokenizer = TokenizerConfig(vocab_size=2000, sample_mb=5)
    store = build_store([text], tokenizer, out, config=config, workers=1)
finally:
    done.set()
watching.join()
row = {"documents": store.train.num_documents + store.heldout.num_documents, "own": peak["RssAnon"]}
print(json.dumps(row | {"mapped": peak["RssFile"], "cpu_seconds": time.process_time() - began}))
"""
PRETRAIN = """
import json, sys
from pathlib import Path
from electra.testing import toy
from electra.training import loop
from electra.training.distributed import World
from electra.training.assemble import start
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
steps = int(sys.argv[2])
often = {"steps": steps, "checkpoint_every": 100, "evaluate_every": 100}
rows = []
with start(toy.recipe(training=often), Path(sys.argv[1]), toy.store(), World()) as run:
    def stop():
        if run.step % max(1, steps // 20) == 0:
            rows.append((run.step, resident(), len(list(Path("/proc/self/fd").iterdir()))))
        return False
    loop.train(run, stop)
print(json.dumps(rows))
"""


def write_text(path: Path, megabytes: float) -> None:
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list("aeioubdfgklmnprst"), rng.integers(2, 9))) for _ in range(WORDS)])
    written = number = 0
    with open(path, "w", encoding="utf-8") as file:
        while written < megabytes * 1e6:
            for row in words[rng.integers(0, WORDS, (1000, 9))]:
                number += 1
                written += file.write(f"{' '.join(row)} {number}\n")


def measure(program: str, *words: object) -> Any:
    command = [sys.executable, "-c", program, *map(str, words)]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=one_thread).stdout
    return json.loads(output.splitlines()[-1])


def slope(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(x, y, 1)[0])


def prepare(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the peak memory for each size, and the bytes that a document adds."""
    rows = []
    for size in arguments.megabytes:
        write_text(folder / "text.txt", size)
        words = (folder / "text.txt", folder / "store")
        rows.append({"megabytes": size, **measure(PREPARE, *words)})
        subprocess.run(["rm", "-rf", *map(str, words)], check=True)
        print(
            "prepare {megabytes:7.0f} MB {documents:>12,} documents {0:6.0f} MiB own {1:6.0f} MiB mapped"
            " {cpu_seconds:6.0f} s".format(rows[-1]["own"] / 2**20, rows[-1]["mapped"] / 2**20, **rows[-1]),
            flush=True,
        )
    documents = [row["documents"] for row in rows]
    per_document = {name: slope(documents, [row[name] for row in rows]) for name in ("own", "mapped")}
    last = rows[-1]["own"] + max(0.0, per_document["own"]) * (CORPUS - documents[-1])
    print("prepare: {own:.1f} bytes of own memory per document, {mapped:.1f} mapped".format(**per_document))
    print(f"prepare: {last / 1e9:.1f} GB of own memory for {CORPUS / 1e6:.0f} million documents at this slope")
    return {"prepare": rows, "bytes_per_document": per_document, "extrapolated": last}


def pretrain(folder: Path, steps: int) -> dict[str, Any]:
    """Returns memory and open files over the steps; the slope is without the first quarter."""
    rows = measure(PRETRAIN, folder / "run", steps)
    late = [row for row in rows if row[0] >= steps // 4]
    per_step = slope([row[0] for row in late], [row[1] for row in late])
    files = sorted({row[2] for row in late})
    print(f"pretrain: {late[0][1] / 2**20:.0f} MiB at step {late[0][0]}, {late[-1][1] / 2**20:.0f} at the end")
    print(f"pretrain: {per_step:.0f} bytes per step over {steps} steps, open files {files}")
    return {"pretrain": rows, "bytes_per_step": per_step, "open_files": files}


def draw(record: dict[str, Any], folder: Path) -> None:
    """Draws scale-prepare.svg and scale-pretrain.svg."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    documents = [row["documents"] / 1e6 for row in record["prepare"]]
    steps = [row[0] for row in record["pretrain"]]
    lines = {
        "prepare": (
            "million documents",
            documents,
            {n: [r[n] for r in record["prepare"]] for n in ("own", "mapped")},
        ),
        "pretrain": ("step", steps, {"resident": [row[1] for row in record["pretrain"]]}),
    }
    for name, (title, x, series) in lines.items():
        figure, axes = pyplot.subplots(figsize=(6, 3), layout="constrained")
        for label, y in series.items():
            axes.plot(x, [value / 2**20 for value in y], marker="o", label=label)
        axes.set(xlabel=title, ylabel="MiB", ylim=(0, None), xlim=(0, None), title=f"Memory of {name}")
        axes.legend()
        figure.savefig(folder / f"scale-{name}.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[30, 60, 120])
    parser.add_argument("--steps", type=int, default=2000, help="0 to measure only prepare")
    parser.add_argument("--figures", type=Path, help="folder for two figures; needs matplotlib")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        record = prepare(Path(name), arguments)
        if arguments.steps:
            record |= pretrain(Path(name), arguments.steps)
            if arguments.figures:
                draw(record, arguments.figures)
    print(json.dumps(record | {"seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
