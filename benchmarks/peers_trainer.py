"""The Trainer of transformers as the peer of a tagger, of entities or of a text classifier.

    python benchmarks/peers_trainer.py train.conll test.conll --model FOLDER [--entities] [--seed N]
    python benchmarks/peers_trainer.py train.jsonl test.jsonl --model FOLDER [--matthews]

Needs transformers and accelerate, and nothing of this project but the folder of an encoder. Of the Trainer's
own settings (5e-5, 3 epochs) and two that fit a small encoder, the best on a tenth of the rows are chosen to
train on all. Prints a line of JSON: the score, the settings, and the seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
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

SETTINGS = ((5e-5, 3), (3e-4, 10), (1e-3, 10))  # learning rate and epochs; the first are the Trainer's own
LONGEST, NO_LABEL = 128, -100
Row = dict[str, Any]


def rows_of(path: Path) -> list[Row]:
    """Returns the rows of a file: words with a label each, or texts with one."""
    if path.suffix != ".jsonl":
        return [{"words": words, "labels": tags} for words, tags in read(path)]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{"texts": [v for k, v in row.items() if k != "label"], "labels": row["label"]} for row in rows]


def encode(row: Row, tokenizer: Any, index_of: dict[str, int]) -> Row:
    """Returns a row as the Trainer reads it: a word's label lies at its first token."""
    if "texts" in row:
        found = dict(tokenizer(*row["texts"], truncation=True, max_length=LONGEST))
        return found | {"labels": index_of.get(row["labels"], 0)}
    encoding = tokenizer(row["words"], is_split_into_words=True, truncation=True, max_length=LONGEST)
    places = encoding.word_ids()
    labels = [
        NO_LABEL if place is None or place == before else index_of.get(row["labels"][place], NO_LABEL)
        for before, place in zip([None, *places], places, strict=False)
    ]
    return dict(encoding) | {"labels": labels}


class Peer:
    """An encoder that the Trainer fine-tunes."""

    def __init__(self, given: argparse.Namespace, rows: list[Row]) -> None:
        self.given, self.of_texts = given, "texts" in rows[0]
        self.tokenizer = AutoTokenizer.from_pretrained(given.model)
        found = {label for row in rows for label in ([row["labels"]] if self.of_texts else row["labels"])}
        self.labels = sorted(found)
        self.index_of = {label: index for index, label in enumerate(self.labels)}

    def train(self, rows: list[Row], rate: float, epochs: int) -> Trainer:
        """Returns a Trainer that has trained."""
        set_seed(self.given.seed)
        auto = AutoModelForSequenceClassification if self.of_texts else AutoModelForTokenClassification
        model = auto.from_pretrained(self.given.model, num_labels=len(self.labels))
        collate = DataCollatorWithPadding if self.of_texts else DataCollatorForTokenClassification
        options: Any = {"learning_rate": rate, "num_train_epochs": epochs, "seed": self.given.seed}
        options |= {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True}
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(folder, logging_strategy="no", **options)
            data = [encode(row, self.tokenizer, self.index_of) for row in rows]
            trainer = Trainer(model, arguments, collate(self.tokenizer), train_dataset=data)
            trainer.train()
        return trainer

    def score(self, trainer: Trainer, rows: list[Row]) -> float:
        """Returns the accuracy of labels, the Matthews correlation, or the F1 of entities."""
        data = [encode(row, self.tokenizer, self.index_of) for row in rows]
        said = trainer.predict(data).predictions.argmax(-1)
        if self.of_texts:
            names = [self.labels[index] for index in said]
            score = matthews_corrcoef if self.given.matthews else accuracy_score
            return float(score([row["labels"] for row in rows], names))
        tags = [self.tags(row, predicted) for row, predicted in zip(rows, said, strict=True)]
        gold = [row["labels"] for row in rows]
        if not self.given.entities:
            same = [a == b for one, two in zip(tags, gold, strict=True) for a, b in zip(one, two, strict=True)]
            return float(sum(same) / len(same))
        spans = [(entities(one), entities(two)) for one, two in zip(tags, gold, strict=True)]
        return float(2 * sum(len(a & b) for a, b in spans) / max(1, sum(len(a) + len(b) for a, b in spans)))

    def tags(self, row: Row, predicted: Any) -> list[str]:
        """Returns the tag of each word; of a word that was cut off, the first label or "O"."""
        encoding = self.tokenizer(row["words"], is_split_into_words=True, truncation=True, max_length=LONGEST)
        tags = ["O" if "O" in self.index_of else self.labels[0]] * len(row["words"])
        before = None
        for index, place in enumerate(encoding.word_ids()):
            if place is not None and place != before:
                tags[place] = self.labels[predicted[index]]
            before = place
        return tags


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--entities", action="store_true")
    parser.add_argument("--matthews", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows, began = rows_of(given.train), time.monotonic()
    peer = Peer(given, rows)
    mixed = random.Random(given.seed).sample(rows, len(rows))
    held_out, rest = mixed[: len(rows) // 10], mixed[len(rows) // 10 :]
    scores = [peer.score(peer.train(rest, *each), held_out) for each in SETTINGS]
    rate, epochs = SETTINGS[scores.index(max(scores))]
    result = peer.score(peer.train(rows, rate, epochs), rows_of(given.test))
    seconds = round(time.monotonic() - began, 1)
    chosen = {"learning_rate": rate, "epochs": epochs, "held_out": [round(each, 4) for each in scores]}
    print(json.dumps({"score": round(result, 4), **chosen, "seconds": seconds}))


if __name__ == "__main__":
    main()
