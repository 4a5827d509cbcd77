"""Compares the defaults of a fine-tuning with other settings: ten tasks, one line of JSON a run, resumable.

    python results/how-defaults-were-chosen/grid.py DATA OUT [--stage choose|final] [--models small-en ...]
    [--seeds 0 ...] [--tasks trec-fine ...] [--settings default frozen ...]
    python results/how-defaults-were-chosen/grid.py DATA OUT --table

DATA holds the public data sets (docs/corpora.md) as in the records of this page. `choose` trains and scores on
parts of the training sets; `final` scores on the official dev or test sets, which no choice has seen: use
fresh seeds. A finished run is a line in OUT/STAGE.jsonl; rerun the command to do the rest. One thread.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
Row = dict[str, Any]
DEV = 1000  # at most
MORE: dict[str, dict[str, Any]] = {  # than the defaults
    "default": {},
    "frozen": {"head": "frozen"},
    "rate-1e-4": {"head": "transformers", "learning_rate": 1e-4},
    "rate-3e-4": {"head": "transformers", "learning_rate": 3e-4},
    "rate-5e-4": {"head": "transformers", "learning_rate": 5e-4},
    "rate-1e-3": {"head": "transformers", "learning_rate": 1e-3},
    "rate-3e-4-epochs-40": {"head": "transformers", "learning_rate": 3e-4, "epochs": 40.0},
    "rate-2e-4-epochs-3": {"head": "transformers", "learning_rate": 2e-4, "epochs": 3.0},
}


def lines(path: Path) -> list[str]:
    """Returns the lines of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r") for line in file.read().split("\n")]


def tsv(path: Path, columns: dict[str, int], header: bool = True) -> list[Row]:
    """Returns columns of a tsv file, by number."""
    cells = [line.split("\t") for line in lines(path) if line.strip()][header:]
    return [{name: row[i] for name, i in columns.items()} for row in cells if len(row) > max(columns.values())]


def jsonl(path: Path, columns: dict[str, str]) -> list[Row]:
    """Returns columns of a JSON lines file, by name."""
    rows = [json.loads(line) for line in lines(path) if line.strip()]
    return [
        {
            name: " ".join(row[key]) if name == "text" else row[key] if name == "tags" else str(row[key])
            for name, key in columns.items()
        }
        for row in rows
    ]


def tagged(path: Path, separator: str, tag: int, prefix: str = "") -> list[Row]:
    """Returns sentences of words and tags."""
    blocks = "\n".join(lines(path)).split("\n\n")
    sentences = [[line.split(separator) for line in block.split("\n") if line.strip()] for block in blocks]
    return [
        {"tokens": [word[0].removeprefix(prefix) for word in each], "tags": [word[tag] for word in each]}
        for each in sentences
        if each
    ]


GLUE_PAIR = {"sentence1": 1, "sentence2": 2, "label": 3}
MNLI = {"sentence1": "premise", "sentence2": "hypothesis", "label": "label"}
SNIPS = {"text": "tokens", "label": "intent"}
MRPC = {"sentence1": 3, "sentence2": 4, "label": 0}
SST, COLA = {"text": 0, "label": 1}, {"text": 3, "label": 1}
# name: kind of task, examples, training file, untouched file, reader
TASKS: dict[str, tuple[str, int, str, str, Callable[[Path], list[Row]]]] = {
    "trec-fine": ("classification", 10, "classification/trec/train.tsv.gz", "classification/trec/test.tsv.gz",
                  lambda path: tsv(path, {"text": 2, "label": 1})),
    "entities": ("tagging", 500, "ner/wikiann-en/train.tsv.gz", "ner/wikiann-en/dev.tsv.gz",
                 lambda path: tagged(path, "\t", 1, "en:")),
    "trec": ("classification", 500, "classification/trec/train.tsv.gz", "classification/trec/test.tsv.gz",
             lambda path: tsv(path, {"text": 2, "label": 0})),
    "rte": ("pair", 400, "glue/rte/train.tsv.gz", "glue/rte/dev.tsv.gz", lambda path: tsv(path, GLUE_PAIR)),
    "sst2": ("classification", 1000, "glue/sst-2/train.tsv.gz", "glue/sst-2/dev.tsv.gz",
             lambda path: tsv(path, SST)),
    "snips": ("classification", 300, "intents/snips/train.jsonl.gz", "intents/snips/valid.jsonl.gz",
              lambda path: jsonl(path, SNIPS)),
    "chunks": ("tagging", 1000, "chunking/conll2000/train.txt.gz", "chunking/conll2000/test.txt.gz",
               lambda path: tagged(path, " ", 2)),
    "mrpc": ("pair", 2000, "glue/mrpc/train.tsv.gz", "glue/mrpc/dev.tsv.gz", lambda path: tsv(path, MRPC)),
    "cola": ("classification", 3000, "glue/cola/train.tsv.gz", "glue/cola/dev.tsv.gz",
             lambda path: tsv(path, COLA, header=False)),
    "mnli": ("pair", 9000, "glue/mnli/train-10k.jsonl.gz", "glue/mnli/dev-4908.jsonl.gz",
             lambda path: jsonl(path, MNLI)),
}  # fmt: skip


def parts(data: Path, name: str, stage: str) -> tuple[list[Row], list[Row]]:
    """Returns the rows to train on and those to score. trec-fine has ten rows a label to train on."""
    _, count, train_file, other_file, read = TASKS[name]
    rows = read(data / train_file)
    random.Random(7).shuffle(rows)
    if name == "trec-fine":
        seen: Counter[str] = Counter()
        numbered = []
        for row in rows:
            seen[row["label"]] += 1
            numbered.append((seen[row["label"]], row))
        train = [row for number, row in numbered if number <= count]
        dev = [row for number, row in numbered if count < number <= 3 * count]
    else:
        dev, train = rows[:DEV], rows[DEV : DEV + count]
    if stage == "final":
        dev = read(data / other_file)
        random.Random(7).shuffle(dev)
        dev = dev[:DEV]
    return train, dev


def run(arguments: argparse.Namespace, model: str, name: str, label: str, seed: int) -> dict[str, Any]:
    """Fine-tunes once, and returns the record."""
    import electra

    train, dev = parts(arguments.data, name, arguments.stage)
    out, began = arguments.out / "run", time.process_time()
    shutil.rmtree(out, ignore_errors=True)
    result = electra.finetune(
        model, task=TASKS[name][0], data={"train": train, "dev": dev}, out=out, seed=seed,
        baselines=label == "default", progress="quiet", **MORE[label],
    )  # fmt: skip
    del result
    record = json.loads((out / "all_results.json").read_text())
    metric = record["primary_metric"]
    shutil.rmtree(out)
    baselines = {key: scores.get(f"eval_{metric}") for key, scores in record.get("baselines", {}).items()}
    return {
        **{"model": model, "task": name, "settings": label, "seed": seed, "metric": metric},
        **{"score": record[f"eval_{metric}"], "head": record["head"], "steps": record["steps"]},
        **{"cpu_seconds": round(time.process_time() - began, 1), "baselines": baselines},
        "choice": [note for note in record["notes"] if note.startswith("head: ")],
    }


def table(path: Path) -> None:
    """Prints the mean scores by task and settings, and how far the default is from the best."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in map(json.loads, path.read_text().splitlines()):
        row = found[record["model"], record["task"]]
        row[record["settings"]].append(record["score"] or 0.0)
        for baseline, value in record["baselines"].items():
            row[f"({baseline})"].append(value or 0.0)
    for (model, name), row in found.items():
        means = {label: 100 * fmean(scores) for label, scores in row.items()}
        scores = ", ".join(f"{label} {mean:.1f}" for label, mean in means.items())
        sys.stdout.write(f"{model} {name}: {scores}\n")


def main() -> None:
    """Does the runs that are left, or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--stage", choices=["choose", "final"], default="choose")
    parser.add_argument("--models", nargs="+", default=["small-en"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--settings", nargs="+", choices=MORE, default=list(MORE))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    path = arguments.out / f"{arguments.stage}.jsonl"
    if arguments.table:
        table(path)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(each["model"], each["task"], each["settings"], each["seed"]) for each in records}
    pieces = [
        (model, task, label, seed)
        for seed in arguments.seeds for model in arguments.models
        for task in arguments.tasks for label in arguments.settings
    ]  # fmt: skip
    for piece in pieces:
        if piece not in done:
            record = run(arguments, *piece)
            with path.open("a") as file:
                file.write(json.dumps(record) + "\n")
            sys.stdout.write(f"{json.dumps(record)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
