"""Seconds of commands with the threads they choose, with 1 and with 2, alone and beside a busy program.

    python benchmarks/threads.py [--cells detect embed ...] [--rounds 3] [--load idle busy]

Text and labels are the lines of this project's docs. Rounds are interleaved: each runs every cell with every
number of threads. The last column is the time as shipped over that of the better number, medians of the
rounds; the target is at most 1.3. OMP_NUM_THREADS must not be set. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
WAYS = {"as shipped": [], "1": ["--threads", "1"], "2": ["--threads", "2"]}
TUNE = "finetune {model} --task classification --data {work}/rows.csv --epochs 0.02"
CELLS = {
    "detect": "detect tiny-en {work}/60.txt",
    "embed": "embed small-en {work}/texts.txt --out {out}.npy",
    "predict": "predict {work}/tuned {work}/texts.txt --out {out}.csv",
    "bias": "analyze tiny-en --probe bias --data {work}/test.conllu --out {out}",
    "layer_similarity": "analyze small-en --probe layer_similarity --data {work}/test.conllu --out {out}",
    "baselines": TUNE.format(model="small-en", work="{work}") + " --out {out}",
    "ablate": "ablate masking --store {work}/store --budget 30steps --seeds 1 --only uniform --out {out}",
}


def electra(line: str, *more: str) -> float:
    """Runs a command and returns its seconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "electra", *line.split(), *more], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def write_data(work: Path) -> None:
    lines = [(path.stem, line) for path in sorted(DOCS.glob("*.md")) for line in path.read_text().splitlines()]
    rows = [(name[0], re.sub(r"[^A-Za-z ]+", " ", line)) for name, line in lines if len(line) > 60][:1500]
    (work / "texts.txt").write_text("\n".join(text for _, text in rows))
    (work / "60.txt").write_text("\n".join(text for _, text in rows[:60]))
    (work / "rows.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for label, text in rows[:600]))
    tags = ["NOUN", "VERB", "ADJ"]
    sentences = (
        "".join(f"{i}\t{word}\t_\t{tags[len(word) % 3]}" + "\t_" * 6 + "\n" for i, word in enumerate(text.split(), 1))
        for _, text in rows[:400]
    )
    (work / "test.conllu").write_text("\n".join(sentences) + "\n")
    electra(f"prepare {work}/texts.txt --out {work}/store")
    electra(TUNE.format(model="tiny-en", work=work), "--no-baselines", "--out", f"{work}/tuned")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", nargs="+", default=["idle", "busy"], choices=["idle", "busy"])
    arguments = parser.parse_args()
    if "OMP_NUM_THREADS" in os.environ:
        sys.exit("unset OMP_NUM_THREADS: every command obeys it")
    seconds: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="electra-threads-") as folder:
        write_data(Path(folder))
        for number in range(arguments.rounds):
            for load in arguments.load:
                spin = [sys.executable, "-c", "while True: pass" if load == "busy" else ""]
                with subprocess.Popen(spin) as other:
                    for cell in arguments.cells:
                        for way, words in WAYS.items():
                            out = f"{folder}/out-{number}"
                            took = electra(CELLS[cell].format(work=folder, out=out), *words)
                            seconds.setdefault((cell, load, way), []).append(took)
                            shutil.rmtree(out, ignore_errors=True)
                    other.kill()
    medians = {key: statistics.median(taken) for key, taken in seconds.items()}
    print(f"{'':18}{'':6}" + "".join(f"{way:>12}" for way in WAYS) + f"{'ratio':>8}")
    for cell, load in dict.fromkeys((cell, load) for cell, load, _ in medians):
        taken = [medians[cell, load, way] for way in WAYS]
        print(f"{cell:18}{load:6}" + "".join(f"{t:12.1f}" for t in taken) + f"{taken[0] / min(taken[1:]):8.2f}")
    print(json.dumps({" ".join(key): taken for key, taken in seconds.items()}))


if __name__ == "__main__":
    main()
