"""Memory over size: of prepare over the text, of pretrain over the steps, each with its slope.

    python benchmarks/scale.py [--megabytes 10 30 100] [--steps 2000]

The text is generated: sentences of about 60 characters, one a document, none twice. Each measurement is a
process of its own. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORDS = 5000
PREPARE = """
import json, resource, sys, time
from electra.data.corpus import CorpusConfig
from electra.data.packing import build_store
from electra.data.tokenizer import TokenizerConfig
from electra.data.store import TokenStore
began = time.monotonic()
store = build_store([sys.argv[1]], TokenizerConfig(vocab_size=2000, sample_mb=5), sys.argv[2],
    config=CorpusConfig(unit="line"), workers=1)
peak = [resource.getrusage(who).ru_maxrss << 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
documents = store.train.num_documents + store.heldout.num_documents
row = {"peak": peak[0], "workers": peak[1], "documents": documents, "seconds": time.monotonic() - began}
print(json.dumps(row))
"""
PRETRAIN = """
import json, sys
from pathlib import Path
from electra.data.store import TokenStore
from electra.testing import toy
from electra.training import loop
from electra.training.distributed import World
from electra.training.start import start
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
steps = int(sys.argv[2])
often = {"steps": steps, "checkpoint_every": 100, "evaluate_every": 100}
found = []
with start(toy.recipe(training=often), Path(sys.argv[1]), toy.store(), World()) as run:
    def stop():
        if run.step % max(1, steps // 20) == 0:
            found.append((run.step, resident(), len(list(Path("/proc/self/fd").iterdir()))))
        return False
    loop.train(run, stop)
print(json.dumps(found))
"""


def write_text(path: Path, megabytes: float) -> None:
    draw = np.random.default_rng(0)
    words = np.array(
        ["".join(draw.choice(list("aeioubdfgklmnprst"), draw.integers(2, 9))) for _ in range(WORDS)]
    )
    written = number = 0
    with open(path, "w", encoding="utf-8") as file:
        while written < megabytes * 1e6:
            for row in words[draw.integers(0, WORDS, (1000, 9))]:
                number += 1
                written += file.write(f"{' '.join(row)} {number}\n")


def measure(program: str, *words: object) -> object:
    command = [sys.executable, "-c", program, *map(str, words)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(said.splitlines()[-1])


def slope(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(x, y, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, nargs="+", default=[10, 30, 100])
    parser.add_argument("--steps", type=int, default=2000)
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = []
        for size in asked.megabytes:
            write_text(folder / "text.txt", size)
            row = measure(PREPARE, folder / "text.txt", folder / f"store-{size}")
            assert isinstance(row, dict)
            rows.append({"megabytes": size, **row})
            print(
                f"prepare {size:7.0f} MB  {row['documents']:>10,} documents  {row['peak'] / 2**20:7.0f} MiB"
                f"  {row['seconds']:6.0f} s"
            )
        per_document = slope([row["documents"] for row in rows], [row["peak"] for row in rows])
        print(f"prepare: {per_document:.1f} bytes a document")
        found = measure(PRETRAIN, folder / "run", asked.steps)
        assert isinstance(found, list)
        late = [row for row in found if row[0] >= asked.steps // 4]
        per_step = slope([row[0] for row in late], [row[1] for row in late])
        files = {row[2] for row in late}
        print(f"pretrain: {per_step:.0f} bytes a step over {asked.steps} steps, open files {sorted(files)}")
    record = {
        "prepare": rows,
        "bytes_per_document": per_document,
        "pretrain": found,
        "bytes_per_step": per_step,
    }
    print(json.dumps(record | {"seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
