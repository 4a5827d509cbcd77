"""Compares the speed of fine-tuning, from text to dev score, with that of the transformers Trainer.

    python benchmarks/finetune.py MODEL --data GLUE/SST-2 [--examples 2000] [--epochs 1] [--rounds 3]
    [--precision bf16|fp32]

The Trainer needs the package accelerate.

MODEL is an exported folder that both sides load. Both use the same data, epochs and learning rate, batches of
32 and at most 128 tokens; the Trainer pads each batch to its longest row. Both dev accuracies are printed,
because the comparison of speeds is valid only if they agree within noise.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from contest import Contender, compare, options, python


def read(data: str, examples: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Returns the (text, label) pairs of a subset of the training set, and of the dev set."""
    from electra.finetuning.runner.dataset import read_dataset
    from electra.finetuning.settings import Settings
    from electra.finetuning.tasks import load_task

    task = load_task("sst2")
    dataset = read_dataset(
        Settings(task="sst2", data=Path(data), out=Path("unused"), limit_train=examples), task
    )
    train, dev = ([(e.texts[0], int(e.gold)) for e in split] for split in (dataset.train, dataset.dev))
    return train, dev


def ours(arguments: argparse.Namespace, folder: str) -> dict[str, float]:
    from electra.finetuning.runner.all_seeds import finetune
    from electra.finetuning.settings import Settings

    settings = Settings(
        task="sst2", data=Path(arguments.data), out=Path(folder) / "out",
        limit_train=arguments.examples, epochs=arguments.epochs, learning_rate=arguments.learning_rate,
        layer_decay=1.0, pooling="cls", precision=arguments.precision,
    )  # fmt: skip
    results = finetune(arguments.model, settings, lambda line: None)
    assert results is not None
    return {"accuracy": float(results["eval_accuracy"])}


def reference(arguments: argparse.Namespace, folder: str) -> dict[str, float]:
    import numpy as np
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    tokenizer, network = (
        AutoTokenizer.from_pretrained(arguments.model),
        AutoModelForSequenceClassification.from_pretrained(arguments.model),
    )
    splits = []
    for rows in read(arguments.data, arguments.examples):
        encoded = tokenizer([text for text, _ in rows], truncation=True, max_length=128)
        splits.append(
            [
                {"input_ids": ids, "labels": label}
                for ids, (_, label) in zip(encoded["input_ids"], rows, strict=True)
            ]
        )
    settings = TrainingArguments(
        output_dir=folder, num_train_epochs=arguments.epochs,
        per_device_train_batch_size=32, per_device_eval_batch_size=32,
        learning_rate=arguments.learning_rate, warmup_steps=0.1, weight_decay=0.0,
        bf16=arguments.precision == "bf16", use_cpu=True, report_to=[], disable_tqdm=True,
        save_strategy="no", logging_strategy="no",
    )  # fmt: skip
    trainer = Trainer(
        network, settings, DataCollatorWithPadding(tokenizer), train_dataset=splits[0], eval_dataset=splits[1]
    )
    trainer.train()
    output = trainer.predict(splits[1])
    return {"accuracy": float((np.argmax(output.predictions, -1) == output.label_ids).mean())}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--side", choices=["electra", "transformers"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            scores = (ours if arguments.side == "electra" else reference)(arguments, folder)
            seconds = time.perf_counter() - began
        print(json.dumps({"examples_per_s": arguments.examples * arguments.epochs / seconds, **scores}))
        return
    shared = [arguments.model, "--data", arguments.data]
    shared += ["--examples", arguments.examples, "--epochs", arguments.epochs]
    shared += ["--learning-rate", arguments.learning_rate, "--precision", arguments.precision]
    contenders = [
        Contender(side, python(__file__, *shared, "--side", side)) for side in ("transformers", "electra")
    ]
    rates = {"rate": "examples_per_s", "unit": "examples/s", "baseline": "transformers"}
    result = compare(f"finetune-{arguments.precision}", contenders, arguments, **rates)
    for side, row in result["contenders"].items():
        print(f"{side:36} dev accuracy {row['turns'][0]['accuracy']:.4f}")


if __name__ == "__main__":
    main()
