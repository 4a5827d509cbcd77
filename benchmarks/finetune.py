"""Compares fine-tuning, from text to dev score, with that of the transformers Trainer, in speed and quality.

    python benchmarks/finetune.py MODEL --data GLUE/SST-2 [--task sst2] [--examples 2000] [--dev 1000]
    [--epochs 1] [--learning-rate 3e-4] [--seed 1] [--rounds 3]
    python benchmarks/finetune.py MODEL --data GLUE/MRPC --task mrpc --defaults

The Trainer needs the package accelerate. Tasks: those with one or two texts and one answer, and taggers.

MODEL is a folder that both sides load. Both read files with so many rows and no more, and use the same epochs
and learning rate, batches of 32 and at most 128 tokens; the Trainer pads each batch to its longest row, and
runs in its default precision, fp32, and in bf16. All dev scores are printed, because the comparison of speeds
is valid only if they agree within noise. With --defaults each side keeps its own settings, and the question
is which score a user gets.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from contest import Contender, compare, options, python

SIDES = "transformers fp32", "transformers bf16", "electra"
Row = tuple[tuple[str, ...], Any]  # the texts and the answer, or the words and their tags


def read(arguments: argparse.Namespace) -> tuple[list[Row], list[Row], Any]:
    """Returns the training set, the dev set and the task."""
    from electra.finetuning.settings import Settings
    from electra.finetuning.train.dataset import choose_task, read_dataset

    settings = Settings(task=arguments.task, data=Path(arguments.data), out=Path("unused"))
    dataset = read_dataset(settings, choose_task(settings))
    train, dev = (
        [
            (tuple(example.texts), example.gold if dataset.task.head == "tagger" else str(example.gold))
            for example in dataset.splits[name]
        ]
        for name in ("train", "dev")
    )
    return train, dev, dataset.task


def ours(arguments: argparse.Namespace, folder: str) -> dict[str, float]:
    from electra.finetuning.settings import Settings
    from electra.finetuning.train.all_seeds import finetune

    given: dict[str, Any] = {} if arguments.defaults else {
        "epochs": arguments.epochs, "learning_rate": arguments.learning_rate,
        "layer_decay": 1.0, "pooling": "cls",
    }  # fmt: skip
    settings = Settings(
        task=arguments.task, data=Path(arguments.data), out=Path(folder) / "out", seed=arguments.seed, **given
    )
    results = finetune(arguments.model, settings, lambda line: None)
    assert results is not None
    metric = results["primary_metric"] if results.get("eval_accuracy") is None else "accuracy"
    return {"score": float(results[f"eval_{metric}"])}


def training_arguments(arguments: argparse.Namespace, folder: str) -> Any:
    from transformers import TrainingArguments

    given: dict[str, Any] = {} if arguments.defaults else {
        "num_train_epochs": arguments.epochs, "per_device_train_batch_size": 32,
        "learning_rate": arguments.learning_rate, "warmup_steps": 0.1,
    }  # fmt: skip
    return TrainingArguments(
        output_dir=folder, per_device_eval_batch_size=32, seed=arguments.seed, use_cpu=True, report_to=[],
        disable_tqdm=True, save_strategy="no", logging_strategy="no", bf16=arguments.side.endswith("bf16"),
        **given,
    )  # fmt: skip


def reference_tagger(arguments: argparse.Namespace, folder: str, data: Any) -> dict[str, float]:
    from transformers import (
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        Trainer,
    )

    train, dev, _ = data
    labels = sorted({tag for _, tags in train for tag in tags})
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    network = AutoModelForTokenClassification.from_pretrained(arguments.model, num_labels=len(labels))

    def encode(words: tuple[str, ...], tags: Any) -> dict[str, Any]:
        """Labels the first piece of each word, as in transformers' script."""
        encoded = tokenizer(list(words), is_split_into_words=True, truncation=True, max_length=128)
        seen, targets = set[Any](), []
        for word in encoded.word_ids():
            is_first = word is not None and word not in seen
            targets.append((labels.index(tags[word]) if tags[word] in labels else 0) if is_first else -100)
            seen.add(word)
        return {**encoded, "labels": targets}

    splits = [[encode(*row) for row in rows] for rows in (train, dev)]
    collator = DataCollatorForTokenClassification(tokenizer)
    settings = training_arguments(arguments, folder)
    trainer = Trainer(network, settings, collator, train_dataset=splits[0], eval_dataset=splits[1])
    trainer.train()
    output = trainer.predict(splits[1])
    right = total = 0
    for logits, targets in zip(output.predictions, output.label_ids, strict=True):
        real = targets != -100
        right, total = right + (logits[real].argmax(-1) == targets[real]).sum(), total + real.sum()
    return {"score": float(right / total)}


def reference(arguments: argparse.Namespace, folder: str) -> dict[str, float]:
    import numpy as np
    from scipy.stats import spearmanr
    from sklearn.metrics import accuracy_score, matthews_corrcoef
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        set_seed,
    )

    set_seed(arguments.seed)
    train, dev, task = read(arguments)
    if task.head == "tagger":
        return reference_tagger(arguments, folder, (train, dev, task))
    [metric, *_] = task.metrics
    labels = sorted({answer for _, answer in train})
    is_number = metric == "spearmanr"
    tokenizer, network = (
        AutoTokenizer.from_pretrained(arguments.model),
        AutoModelForSequenceClassification.from_pretrained(arguments.model, num_labels=1 if is_number else len(labels)),
    )

    def encode(rows: list[Row]) -> list[dict[str, Any]]:
        return [
            {
                **tokenizer(*texts, truncation=True, max_length=128),
                "labels": float(answer) if is_number else labels.index(answer),
            }
            for texts, answer in rows
        ]

    splits = encode(train), encode(dev)
    settings = training_arguments(arguments, folder)
    trainer = Trainer(
        network, settings, DataCollatorWithPadding(tokenizer), train_dataset=splits[0], eval_dataset=splits[1]
    )
    trainer.train()
    output = trainer.predict(splits[1])
    values = output.predictions[:, 0] if is_number else np.argmax(output.predictions, -1)
    measure = {
        "spearmanr": lambda gold, values: spearmanr(gold, values)[0],
        "matthews_correlation": matthews_corrcoef,
    }.get(metric, accuracy_score)
    return {"score": float(measure(output.label_ids, values))}


def shorten(data: Path, folder: Path, sizes: dict[str, int]) -> None:
    """Copies the files of a task with their first rows: lines after a header, or blocks of lines."""
    for path in (each for each in data.iterdir() if each.is_file()):
        size = sizes["train" if "train" in path.name else "dev"]
        text = path.read_text(encoding="utf-8")
        blocks = text.split("\n\n")
        first = "\n\n".join(blocks[:size]) if len(blocks) > 2 else "\n".join(text.split("\n")[: size + 1])
        (folder / path.name).write_text(first + "\n", encoding="utf-8")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--dev", type=int, default=1000, help="number of dev examples, at most")
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--defaults", action="store_true", help="each side's own settings")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            scores = (ours if arguments.side == SIDES[-1] else reference)(arguments, folder)
            seconds = time.perf_counter() - began
        rate = {"seconds": seconds, "examples_per_s": arguments.examples * arguments.epochs / seconds}
        memory = {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
        print(json.dumps({**rate, **scores, **memory}))
        return
    names = ("task", "examples", "dev", "epochs", "learning_rate", "seed")
    shared = [arguments.model, *(f"--{name.replace('_', '-')}={getattr(arguments, name)}" for name in names)]
    shared += ["--defaults"] if arguments.defaults else []
    with tempfile.TemporaryDirectory() as folder:
        shorten(Path(arguments.data), Path(folder), {"train": arguments.examples, "dev": arguments.dev})
        contenders = [Contender(side, python(__file__, *shared, f"--data={folder}", "--side", side)) for side in SIDES]
        rates = {"rate": "examples_per_s", "unit": "examples/s", "baseline": SIDES[0]}
        result = compare(f"finetune-{arguments.task}", contenders, arguments, **rates)
    for side, row in result["contenders"].items():
        turn = row["turns"][0]
        print(f"{side:36} dev score {turn['score']:.4f}, peak memory {turn['peak_mb']:,.0f} MB")


if __name__ == "__main__":
    main()
