"""Compares the prediction of a csv's texts, from csv to csv, with that of a padded transformers pipeline.

    python benchmarks/predict.py [MODEL] [--texts 10000] [--layers 6] [--width 256] [--rounds 3]

MODEL is the folder of a published classifier; without one, a BERT with random weights is made. The texts are
words of its vocabulary, 12 at the median. Each side is a whole process, imports included; the pipeline reads
batches of 32 texts, each padded to its longest. Both write the probability of every label, and the largest
difference is printed: the speeds are only comparable if it is that of rounding.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from contest import Contender, compare, electra, options, python

DIFFERENCE = 1e-5


def make_model(folder: Path, layers: int, width: int) -> None:
    """Writes a BERT with random weights and the vocabulary of the model that comes with the package."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    from electra.exchange.load import load

    torch.manual_seed(0)
    tokenizer = load("tiny-en").tokenizer
    shape = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": width // 64}
    config = BertConfig(
        vocab_size=tokenizer.vocab_size, intermediate_size=4 * width, pad_token_id=tokenizer.specials.pad,
        num_labels=5, **shape,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    torch.nn.init.normal_(model.classifier.weight)
    model.save_pretrained(folder)
    tokenizer.save(folder)


def write_texts(path: Path, model: Path, count: int) -> None:
    import numpy as np

    from electra.data.corpus.tokenizer import Tokenizer

    rng, tokenizer = np.random.default_rng(0), Tokenizer.load(model)
    entries = [tokenizer.id_to_token(index) for index in range(tokenizer.vocab_size)]
    words = [entry for entry in entries if entry.isalpha()]
    lengths = np.clip(np.exp(rng.normal(np.log(12), 0.6, count)), 1, 100).astype(int)
    rows = [[" ".join(rng.choice(words, length))] for length in lengths]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *rows])


def pipeline(model: str, source: str, target: str) -> None:
    """What people run: transformers' pipeline on batches."""
    import transformers

    pipe = transformers.pipeline("text-classification", model=model, device="cpu")
    texts = [row["text"] for row in csv.DictReader(Path(source).read_text().splitlines())]
    answers = pipe(texts, batch_size=32, truncation=True, top_k=None)
    with Path(target).open("w", newline="") as file:
        labels = sorted(answer["label"] for answer in answers[0])
        writer = csv.writer(file)
        writer.writerow(["text", *(f"p({label})" for label in labels)])
        for text, scores in zip(texts, answers, strict=True):
            by_label = {score["label"]: score["score"] for score in scores}
            writer.writerow([text, *(by_label[label] for label in labels)])


def probabilities(path: Path) -> list[list[float]]:
    rows = list(csv.DictReader(path.read_text().splitlines()))
    return [[float(row[name]) for name in sorted(row) if name.startswith("p(")] for row in rows]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--side", choices=["electra", "transformers", "pipeline"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.out / "predict"
    source, targets = (
        folder / "texts.csv",
        {side: folder / f"{side}.csv" for side in ("electra", "transformers")},
    )
    model = arguments.model or folder / "model"
    if arguments.side == "pipeline":
        pipeline(str(model), str(source), str(targets["transformers"]))
    elif arguments.side:
        target = targets[arguments.side]
        target.unlink(missing_ok=True)
        given = [*([arguments.model] if arguments.model else []), f"--out={arguments.out}", "--side=pipeline"]
        command = {
            "electra": electra("predict", model, source, "--out", target),
            "transformers": python(__file__, *given),
        }
        began = time.perf_counter()
        subprocess.run(command[arguments.side], check=True, capture_output=True)
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "texts_per_s": arguments.texts / seconds}))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        if not arguments.model:
            make_model(model, arguments.layers, arguments.width)
        write_texts(source, Path(model), arguments.texts)
        given = [*([arguments.model] if arguments.model else []), f"--out={arguments.out}"]
        given += [f"--texts={arguments.texts}"]
        sides = [Contender(side, python(__file__, *given, "--side", side)) for side in ("transformers", "electra")]
        rates: dict[str, Any] = {"rate": "texts_per_s", "unit": "texts/s", "baseline": "transformers"}
        compare("predict", sides, arguments, **rates)
        ours, theirs = (probabilities(targets[side]) for side in ("electra", "transformers"))
        difference = max(abs(a - b) for rows in zip(ours, theirs, strict=True) for a, b in zip(*rows, strict=True))
        print(f"largest difference of a probability: {difference:.1e}")
        assert difference < DIFFERENCE, "the two sides answer differently"


if __name__ == "__main__":
    main()
