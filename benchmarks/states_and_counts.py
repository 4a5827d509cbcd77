"""Measures heads and peers on tags, entities and texts: the grid of results/states-and-counts.

    python benchmarks/states_and_counts.py --data DATA --encoders RUNS --out OUT [--methods counts frozen]
    python benchmarks/states_and_counts_table.py OUT [--picture curves.svg]

DATA is the folder of public data sets, RUNS has a run for each language (is, la, yor, sna, swa). A cell is a
task, a number of labels, a seed and a method; it is one command, and its record one file of OUT/cells. Cells
that have a record are skipped, as are those whose encoder is missing. The seed draws the sample and trains;
1,000 rows of the test set are drawn once. Measured is the electra of the Python that runs this; peers run
with the Python of `--peers`, which needs their packages.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from samples import ENTITIES, GLUE, SINGLE, TAGS, TASKS, TOPICS, prepare

HERE = Path(__file__).parent
MODELS = HERE.parent / "src" / "electra" / "inference" / "models"
ALL = 0
LOADED = ("torch", "transformers", "sklearn.linear_model", "sklearn.feature_extraction", "scipy.sparse")
FIRST = 0  # the seed with baselines, and whose sample chooses the penalties of a CRF

WORDS, TEXTS = [*TAGS, *ENTITIES], [*TOPICS, *SINGLE]
CURVES = ["is-pos", "yor-pos", "yor-ner"]
HEADS = ("counts", "frozen", "transformers", "auto")
# what is measured, in this order: tasks, numbers of labels, seeds, methods
PLAN: list[tuple[list[str], tuple[int, ...], tuple[int, ...], tuple[str, ...]]] = [
    (WORDS, (100, 500), (0,), ("counts", "crf")),
    (WORDS, (100, 500), (1, 2), ("counts", "crf")),
    (WORDS, (100, 500), (0, 1), ("transformers",)),
    ([*GLUE], (1000,), (0, 1, 2), ("counts", "frozen", "tfidf")),
    (TEXTS, (100, 500), (0, 1, 2), ("counts", "frozen", "tfidf")),
    (["is-pos"], (100, 500), (0, 1, 2), ("auto",)),
    (WORDS, (100, 500), (0,), ("auto",)),
    ([*GLUE], (1000,), (0, 1), ("transformers",)),
    (TEXTS, (100, 500), (0, 1), ("transformers",)),
    (CURVES, (50, 200, 1000), (0,), ("counts", "frozen", "crf", "transformers")),
    (CURVES, (2000, ALL), (0,), ("counts", "frozen", "crf", "transformers")),
    (WORDS, (100, 500), (0,), ("spacy", "trainer")),
    ([*GLUE], (1000,), (0,), ("auto", "spacy", "trainer")),
    (TEXTS, (100, 500), (0,), ("auto", "spacy", "trainer")),
    (WORDS, (100, 500), (2,), ("transformers",)),
]


def command(cell: tuple[str, int, int, str], files: tuple[Path, Path], given: argparse.Namespace) -> list[str]:
    """Returns the command of a cell."""
    name, _, seed, method = cell
    task, (train, test) = TASKS[name], map(str, files)
    run = given.encoders / task.encoder
    encoder = str(run) if run.exists() else task.encoder
    if method in HEADS:
        words = ["finetune", encoder, "--task", task.name, "--data", train, "--dev", test]
        words += ["--head", method, "--seed", str(seed), "--out", str(given.out / "tuned" / label(*cell))]
        with_baselines = (method, seed) == ("counts", FIRST) and not given.no_baselines
        return words if with_baselines else [*words, "--no-baselines"]
    kind = ["--entities"] if task.name == "ner" else []
    if method == "crf":
        chosen = given.out / "cells" / f"{label(*cell[:2], FIRST, method)}.json"
        if seed != FIRST:
            penalties = json.loads(chosen.read_text())["record"]
            kind += ["--penalties", str(penalties["c1"]), str(penalties["c2"])]
        return [str(given.peers), str(HERE / "crf.py"), train, test, *kind]
    if name == "cola":
        kind += ["--matthews"]
    if method == "trainer":
        folder = run / "generator" if run.exists() else MODELS / encoder / "discriminator"
        kind += ["--model", str(folder)]
    return [str(given.peers), str(HERE / f"peers_{method}.py"), train, test, "--seed", str(seed), *kind]


def label(name: str, size: int, seed: int, method: str) -> str:
    """Returns the name of a cell."""
    return f"{name}-{size or 'all'}-{seed}-{method}"


def cells(given: argparse.Namespace) -> Iterable[tuple[str, int, int, str]]:
    """Yields the cells of the plan that were asked for."""
    for names, sizes, seeds, methods in PLAN:
        for size in sizes:
            for name in names:
                for seed in seeds:
                    yield from ((name, size, seed, each) for each in methods if each in given.methods)


def score_of(folder: Path) -> dict[str, Any]:
    """Returns what the record keeps of a fine-tuning: score, baselines, head, notes on it, bytes."""
    results = json.loads((folder / "all_results.json").read_text(encoding="utf-8"))
    size = sum(path.stat().st_size for path in (folder / "model").rglob("*") if path.is_file())
    metric = results["primary_metric"]
    kept = {key: results.get(key) for key in ("head", "baselines", "epochs", "learning_rate", "pooling")}
    notes = [note for note in results.get("notes", ()) if note.startswith("head")]
    return {"score": results[f"eval_{metric}"], "metric": metric, **kept, "notes": notes, "bytes": size}


def is_ready(cell: tuple[str, int, int, str], given: argparse.Namespace) -> bool:
    """Returns whether the encoder of a cell exists, or none is needed."""
    encoder = TASKS[cell[0]].encoder
    needs_none = cell[3] not in HEADS or encoder == "small-en"
    return needs_none or (given.encoders / encoder / "generator").exists()


def finetuned(words: list[str], log: Path) -> int:
    """Runs electra in a copy of this process, in which it is loaded already; returns the exit code."""
    from electra.commands.framework.main import main as electra

    for name in LOADED:
        importlib.import_module(name)
    sys.stdout.flush()
    if pid := os.fork():
        return os.waitpid(pid, 0)[1]
    code = 1
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        with contextlib.suppress(SystemExit):
            code = electra(words)
        sys.stdout.flush()
    os._exit(code)


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Returns what `work` returns, and the seconds that it and its processes took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = {"seconds": time.monotonic() - began, "cpu_seconds": used, "load": os.getloadavg()[0]}
    return result, {name: round(value, 1) for name, value in seconds.items()}


def run_cell(cell: tuple[str, int, int, str], given: argparse.Namespace) -> None:
    """Runs the command of a cell unless it was run, and writes its record."""
    target = given.out / "cells" / f"{label(*cell)}.json"
    if target.exists() or not is_ready(cell, given):
        return
    files = prepare(*cell[:3], given.data, given.out)
    if files is None:
        return
    words, log = command(cell, files, given), given.out / f"{label(*cell)}.log"
    if cell[3] in HEADS:
        code, seconds = timed(lambda: finetuned(words, log))
    else:
        with log.open("w") as file:
            run = partial(subprocess.run, words, stdout=file, stderr=file, check=False)
            code, seconds = timed(lambda: run().returncode)
    said = log.read_text(encoding="utf-8").splitlines()
    if code:
        print(f"{label(*cell)} failed: {' '.join(words)}", *said[-8:], sep="\n", file=sys.stderr, flush=True)
        return
    if cell[3] in HEADS:
        folder = given.out / "tuned" / label(*cell)
        record = score_of(folder) | {"commit": given.commit}
        shutil.rmtree(folder)
    else:
        record = json.loads(said[-1])
    log.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"record": record, **seconds}, indent=1) + "\n")
    print(f"{label(*cell):32} {record['score']:.4f}  {seconds}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--encoders", type=Path)
    parser.add_argument("--peers", type=Path, default=Path(sys.executable))
    parser.add_argument("--methods", nargs="+", default=[*HEADS])
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument("--only", default="", help="a regular expression of cells")
    parser.add_argument("--commit", default="", help="the commit that is measured, for the records")
    given = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    for cell in cells(given):
        if re.search(given.only, label(*cell)):
            run_cell(cell, given)


if __name__ == "__main__":
    main()
