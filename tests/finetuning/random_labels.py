"""Fine-tunings on random labels with stubs for the networks: nothing can be learned, only remembered.

Everything but the networks is the product's: rows are read and split, the head is chosen, baselines are
fitted, and the verdict is reached by its own code.
"""

import json
import random
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from contracts import toy_task

from electra.artifacts.finetuning_files import best_baseline
from electra.data.tables.table_files import Given
from electra.finetuning.labelled.examples import Example
from electra.finetuning.score import baselines, choose_head
from electra.finetuning.settings import AUTO, Settings
from electra.finetuning.train.dataset import choose_task, normalise, read_dataset

TASKS = {1: "classification", 2: "pair"}
KEPT = {AUTO: 1.0, "counts": 0.85, "frozen": 0.7}  # the share of its training texts that a head remembers


def rows(draw: random.Random, texts: int, count: int, copies: int) -> list[dict[str, str]]:
    """Rows with random texts and labels, each `copies` times: as it is, in capitals, or the pair reversed."""
    found = []
    for _ in range(count):
        cells, label = [" ".join(draw.choices(toy_task.OTHER, k=7)) for _ in range(texts)], draw.choice("xy")
        for copy in range(copies):
            turned = cells[:: -1 if copy % 3 == 2 else 1]
            shown = [cell.upper() if copy % 3 == 1 else cell for cell in turned]
            found.append(dict(zip(("text1", "text2"), shown, strict=False)) | {"label": label})
    draw.shuffle(found)
    return found


def given(name: str, table: list[dict[str, str]]) -> Given:
    return Given(name, "".join(json.dumps(row) + "\n" for row in table).encode(), rows=table)


def answers(head: str, train: tuple[Example, ...], new: tuple[Example, ...], seed: int) -> list[Any]:
    """What a network says that knows some training texts by heart (in any order), and guesses the others."""
    key = lambda example: str(sorted(normalise(example)))  # noqa: E731
    known = {key(e): e.gold for e in train if random.Random(f"{head}{key(e)}").random() < KEPT[head]}
    guesses = [known.get(key(e), random.Random(f"{seed}{head}{key(e)}").choice("xy")) for e in new]
    return [np.eye(2)["xy".index(str(guess))] for guess in guesses]


@dataclass(frozen=True)
class World:
    """What the data look like."""

    texts: int  # 1, or 2: pairs
    count: int  # different training texts
    copies: int = 1  # rows of each
    dev: int = 0  # different dev texts; 0: a tenth of the training rows is held out
    known: int = 0  # further dev rows, which are training rows


def verdict_in(world: World, seed: int, patch: Any) -> tuple[str, dict[str, float]]:
    """The head, the p-value of each baseline and, under "", that of the verdict."""
    draw, columns, dev = random.Random(seed), ("text1", "text2")[: world.texts], None
    train = rows(draw, world.texts, world.count, world.copies)
    if world.dev:
        dev = given("dev", rows(draw, world.texts, world.dev, world.copies) + train[: world.known])
    data, task = given("train", train), TASKS[world.texts]
    settings = Settings(task=task, text_column=columns, data=data, dev=dev, out="never-written")
    dataset = read_dataset(settings, replace(choose_task(settings), metrics=("accuracy",)))

    def try_head(head: str, trials: choose_head.Trials, fold: int) -> dict[int, Any]:
        part, known = choose_head.hold_out(trials.dataset, fold), trials.dataset.held_out(fold)
        return dict(zip(known, answers(head, part.splits["train"], part.splits["dev"], seed), strict=True))

    def linear(trials: choose_head.Trials) -> dict[str, dict[int, Any]]:
        folds = [{name: try_head(name, trials, fold) for name in ("frozen", "counts")} for fold in range(5)]
        return {name: {i: each for of in folds for i, each in of[name].items()} for name in folds[0]}

    patch.setattr(choose_head, "try_head", try_head)
    patch.setattr(choose_head, "linear_answers", linear)
    narrow: Any = SimpleNamespace(config=SimpleNamespace(hidden_size=32))
    chosen, _ = choose_head.choose_head(settings, dataset, narrow, lambda: False)
    said = {name: baselines.predictions(name, dataset) for name in baselines.NAMES}
    if chosen.head == AUTO:
        train, held_out = dataset.splits["train"], dataset.splits["dev"]
        said["frozen encoder"] = {"dev": answers("frozen", train, held_out, seed)}
    known: dict[str, dict[str, Any]] = {}
    for name, of in said.items():
        known[name] = {key: score.value for key, score in baselines.score_all(of, dataset).items()}
        right = baselines.right_answers(dataset, of["dev"])
        assert right is not None
        known[name][baselines.WRONG] = np.flatnonzero(~right).tolist()
    model = answers(chosen.head, dataset.splits["train"], dataset.splits["dev"], seed)
    right = baselines.right_answers(dataset, model)
    assert right is not None
    baselines.compare(known, [right.tolist()], dataset.dev_keys)
    best = best_baseline({"primary_metric": "accuracy", "baselines": known})
    assert best is not None
    p = {name: values["eval_paired"]["p"] for name, values in known.items()}
    return chosen.head, p | {"": p[best[0]]}
