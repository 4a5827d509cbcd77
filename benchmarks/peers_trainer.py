"""The Trainer of transformers as the peer of a fine-tuning, with the standard head of the encoder's class.

    python benchmarks/peers_trainer.py train.conll test.conll --model FOLDER [--entities] [--seed N]
    python benchmarks/peers_trainer.py train.jsonl test.jsonl --model FOLDER [--matthews]

Needs transformers and accelerate, and nothing of this project but the exported encoder. As the Trainer's own
defaults (3 epochs, 5e-5) leave a narrow encoder untrained on few rows, it has the epochs and the learning
rate that are given. Prints a line of JSON: the score and the seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from crf import entities, read
from sklearn.metrics import accuracy_score, matthews_corrcoef
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

LENGTH, UNLABELLED = 128, -100


def encode_words(tokenizer: Any, path: Path, labels: list[str]) -> list[dict[str, Any]]:
    """Returns encoded sentences, labelled at the first piece of each word."""
    found = []
    for words, tags in read(path):
        encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=LENGTH)
        places = encoded.word_ids()
        before = [None, *places[:-1]]
        first = [word is not None and word != other for word, other in zip(places, before, strict=True)]
        numbers = [labels.index(tag) if tag in labels else len(labels) for tag in tags]
        targets = [
            numbers[word] if is_first else UNLABELLED for word, is_first in zip(places, first, strict=True)
        ]
        found.append({**encoded, "labels": targets})
    return found


def encode_texts(tokenizer: Any, path: Path, labels: list[str]) -> list[dict[str, Any]]:
    """Returns encoded texts or pairs, with the number of their label."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    texts = [[text for name, text in row.items() if name != "label"] for row in rows]
    return [
        {**tokenizer(*each, truncation=True, max_length=LENGTH), "labels": labels.index(row["label"])}
        for each, row in zip(texts, rows, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--epochs", type=float, default=20)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--entities", action="store_true")
    parser.add_argument("--matthews", action="store_true")
    given = parser.parse_args()
    set_seed(given.seed)
    began, tags = time.monotonic(), given.train.suffix == ".conll"
    if tags:
        labels = sorted({tag for _, row in read(given.train) for tag in row})
    else:
        labels = sorted({json.loads(line)["label"] for line in given.train.read_text("utf-8").splitlines()})
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    auto = AutoModelForTokenClassification if tags else AutoModelForSequenceClassification
    network = auto.from_pretrained(given.model, num_labels=len(labels))
    train, test = (
        (encode_words if tags else encode_texts)(tokenizer, path, labels)
        for path in (given.train, given.test)
    )
    collator = (DataCollatorForTokenClassification if tags else DataCollatorWithPadding)(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder, num_train_epochs=given.epochs, learning_rate=given.learning_rate,
            per_device_train_batch_size=32, per_device_eval_batch_size=32, warmup_steps=0.1, seed=given.seed,
            use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no", logging_strategy="no",
        )  # fmt: skip
        trainer = Trainer(network, settings, collator, train_dataset=train)
        trainer.train()
        # a tag that training lacks must not reach the loss
        for row in test:
            row["gold"] = row.pop("labels")
        output = trainer.predict([{k: v for k, v in row.items() if k != "gold"} for row in test]).predictions
    if not tags:
        gold, said = [row["gold"] for row in test], output.argmax(-1)
        result = (matthews_corrcoef if given.matthews else accuracy_score)(gold, said)
    else:
        result = score_words(
            output.argmax(-1), [row["gold"] for row in test], labels, given.entities, given.test
        )
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"score": round(float(result), 4), "seconds": seconds}))


def score_words(
    output: Any, targets: list[list[int]], labels: list[str], of_entities: bool, path: Path
) -> float:
    """Returns the accuracy or the F1 of entities; words that were cut off have no tag, so they are wrong."""
    right = total = common = size = 0
    for ids, row, (_, gold) in zip(output, targets, read(path), strict=True):
        said = [labels[ids[place]] for place, target in enumerate(row) if target != UNLABELLED]
        said += ["O" if of_entities else ""] * (len(gold) - len(said))
        right, total = right + int(np.sum(np.array(said) == np.array(gold))), total + len(gold)
        common += len(entities(said) & entities(gold))
        size += len(entities(said)) + len(entities(gold))
    return 2 * common / max(1, size) if of_entities else right / total


if __name__ == "__main__":
    main()
