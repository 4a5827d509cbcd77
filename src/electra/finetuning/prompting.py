"""Zero- and few-shot classification with the discriminator itself; the task is prompt_task.py.

Calibrated: less each candidate's score in the template without a text (after Zhao et al. 2021). Departure:
neither the learning rate nor the number of steps is chosen on further labelled examples; a fixed recipe is
run to its end. Few-shot training is fine-tuning (one_seed.py), each seed on its own draw of the shots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from electra.artifacts import digests
from electra.artifacts.tuning import PromptingFolder
from electra.data.rows import data_digest
from electra.exchange.huggingface import weights_of
from electra.exchange.load import Loaded, load
from electra.exchange.weights import digest
from electra.finetuning.all_seeds import run_seed
from electra.finetuning.features import Tokens
from electra.finetuning.labelled.examples import Example, Examples
from electra.finetuning.labelled.splits import find_split, limit_by_hash
from electra.finetuning.metrics import summary
from electra.finetuning.one_seed import Stopped, build_model
from electra.finetuning.prompt_settings import PromptSettings
from electra.finetuning.prompt_task import PromptTask
from electra.finetuning.prompt_templates import choose_prompt
from electra.finetuning.settings import ResolvedSettings, default_learning_rate
from electra.finetuning.tasks import load_task
from electra.finetuning.text_class import TextClassification
from electra.finetuning.tuning import ReadSplit, Tuning, evaluate
from electra.foundation import durable, seeds
from electra.foundation.errors import ConfigError, DataError
from electra.foundation.machine import versions
from electra.foundation.progress import Say, quiet
from electra.foundation.seeds import key, permute
from electra.model.precision import pick_device, pick_precision

VERSION = 2  # of the numbers after few-shot training; 2: trained as fine-tuning trains
HARMLESS = {"data", "out", "seeds", "seed", "device"}


@dataclass(frozen=True)
class PromptData:
    task: TextClassification  # fitted
    train: Examples  # to draw the shots from
    dev: Examples
    files: dict[str, str]  # split -> SHA-256
    notes: tuple[str, ...]


def prompt(
    model: str, settings: PromptSettings, say: Say = quiet, stop: Callable[[], bool] | None = None
) -> dict[str, Any]:
    """Evaluate without training, and after training on each draw of the shots; the contents of prompt.json.

    stop: asked after each step; then the state is saved and Interrupted raised: the same call resumes.
    """
    data = read_data(settings)
    classes, started = data.task, time.monotonic()
    texts = len(data.dev[0].texts)
    chosen = choose_prompt(classes.name, classes.labels, texts, settings.template, settings.words)
    loaded = load(model, "discriminator")
    task = PromptTask.of(classes, chosen)
    numbers = range(settings.seed, settings.seed + settings.seeds) if settings.shots else ()
    draws = {seed: draw_shots(data.train, classes, settings.shots, seed) for seed in numbers}
    tuning, notes = prepare(settings, data, task, loaded)
    folder = PromptingFolder(settings.out)
    with folder.session(make_record(settings, data, tuning, loaded), say=say, stop=stop) as session:
        tuning = replace(tuning, say=session.say, stopping=session.stopping)
        digests.forget(folder.path)  # until all is written
        results = {
            "task": task.name,
            "task_version": task.version,
            "prompting_version": VERSION,
            "model": model,
            "template": chosen.template,
            "words": dict(chosen.words),
            "eval_samples": len(data.dev),
            "chance": 1 / len(classes.labels),
            "majority": majority(data.dev, classes),
            **zero_shot(tuning, folder),
        }
        plain, calibrated = results["zero_shot_accuracy"], results["zero_shot_accuracy_calibrated"]
        found = f"accuracy {plain:.4f} without training, {calibrated:.4f} calibrated"
        session.say(f"{task.name}, {len(data.dev)} examples: {found}")
        try:
            results |= few_shot(tuning, folder, draws, settings) if draws else {"shots": 0}
        except Stopped:
            session.interrupt()
        results |= {
            "max_length": tuning.settings.max_length,
            "device": str(tuning.device),
            "seconds": round(time.monotonic() - started, 3),
            "notes": notes,
            **{f"{name}_version": each for name, each in versions("electra", "torch").items()},
        }
        durable.commit_json(folder.results, results)
        folder.record_digests()
    return results


def read_data(settings: PromptSettings) -> PromptData:
    names = ("text_column", "label_column", "columns")
    options = {"head": "transformers", **{name: getattr(settings, name) for name in names}}
    task = load_task(settings.task).configured(options)
    if not isinstance(task, TextClassification):
        fix = "Prompts choose one of several labels for a text"
        raise ConfigError(f"{task.name} is not a classification", key="task", fix=fix)
    data = settings.data
    if not data.exists():
        fix = "Pass `data` a folder with a dev file, or the file"
        raise DataError("no such file or folder", where=data, fix=fix)
    dev_path = find_split(data, "dev", task.dev_files, task.formats) if data.is_dir() else data
    train_path = find_split(data, "train", (), task.formats) if data.is_dir() and settings.shots else None
    if dev_path is None:
        raise DataError("no dev file", where=data, fix="Pass `data` the file itself")
    if settings.shots and train_path is None:
        fix = "Pass `data` a folder with a train file"
        raise DataError("no training file to draw the shots from", where=data, fix=fix)
    dev = task.read(dev_path).examples
    train = task.read(train_path).examples if train_path is not None else ()
    task = task if task.labels and not train else task.fit(train or dev)
    notes = []
    if settings.limit_eval and settings.limit_eval < len(dev):
        notes.append(f"evaluated on {settings.limit_eval} of {len(dev)} examples, chosen by hash")
        dev = limit_by_hash(dev, settings.limit_eval)
    paths = {"dev": dev_path, **({"train": train_path} if train_path is not None else {})}
    files = {split: data_digest(path) for split, path in paths.items()}
    return PromptData(task, train, dev, files, tuple(notes))


def draw_shots(train: Sequence[Example], task: TextClassification, shots: int, seed: int) -> list[Example]:
    """`shots` examples of each label, another draw for each seed."""
    classes = np.array([task.gold_class(example) for example in train])
    chosen: list[int] = []
    for number, label in enumerate(task.labels):
        members = np.flatnonzero(classes == number)
        if len(members) < shots:
            what = f"{len(members)} examples of {label!r}, fewer than `shots` {shots}"
            raise DataError(what, where=train[0].where.rpartition(":")[0], fix="Lower `shots`")
        places = permute(np.arange(len(members)), len(members), key(seed, "prompt/shots", number))
        chosen += members[places < shots].tolist()
    return [train[i] for i in sorted(chosen)]


def prepare(
    settings: PromptSettings, data: PromptData, task: PromptTask, loaded: Loaded
) -> tuple[Tuning, list[str]]:
    """What the zero-shot evaluation and all draws share; each draw brings its own training data."""
    device, length = pick_device(settings.device), settings.max_length
    resolved = ResolvedSettings(
        task=settings.task,
        data=settings.data,
        out=settings.out,
        pooling="cls",
        epochs=1,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate or default_learning_rate(loaded.config.hidden_size) / 5,
        layer_decay=1.0,
        dropout=settings.dropout,
        max_length=min(length, loaded.config.max_positions),
    )
    tokens, empty = Tokens(loaded.tokenizer), replace(data.dev[0], texts=("",) * len(data.dev[0].texts))
    splits = {
        name: ReadSplit(task.featurize(examples, tokens, resolved.max_length), examples)
        for name, examples in {"dev": data.dev, "empty": (empty,)}.items()
    }
    notes, windows = list(data.notes), splits["dev"].windows
    if windows.truncated:
        of = f"{windows.truncated} of {len(data.dev)} texts"
        notes.append(f"{of} were truncated to fit {resolved.max_length} tokens")
    precision = pick_precision("auto", device)
    return Tuning(resolved, task, loaded, windows, splits, settings.steps, device, precision), notes


def make_record(settings: PromptSettings, data: PromptData, tuning: Tuning, loaded: Loaded) -> dict[str, Any]:
    """What must agree to resume."""
    chosen = {name: value for name, value in asdict(settings).items() if name not in HARMLESS}
    chosen["limit"] = chosen.pop("limit_eval")  # as records have always called it
    return {
        "settings": chosen,
        "identity": {
            "task": f"{tuning.task.name} version {tuning.task.version}, prompting version {VERSION}",
            "weights": digest(weights_of(loaded.encoder, loaded.head)),
            "tokenizer": loaded.tokenizer.digest,
            "data": data.files,
            "precision": tuning.precision,
            "seed_scheme": seeds.SCHEME,
        },
    }


def zero_shot(tuning: Tuning, folder: PromptingFolder) -> dict[str, Any]:
    """The accuracy without training; writes its predictions."""
    model, dev = build_model(tuning, seed=0), tuning.splits["dev"]
    found = evaluate(tuning, model, dev)
    [empty] = evaluate(tuning, model, tuning.splits["empty"]).predictions
    for name, content in tuning.task.files("dev", found.predictions, dev.examples).items():
        durable.commit_file(folder.path / name, content)
    calibrated = [scores - empty for scores in found.predictions]
    return {
        "zero_shot_accuracy": found.scores["accuracy"].value,
        "zero_shot_ties": found.scores["ties"].value,
        "zero_shot_accuracy_calibrated": tuning.task.score(calibrated, dev.examples)["accuracy"].value,
    }


def few_shot(
    tuning: Tuning, folder: PromptingFolder, draws: dict[int, list[Example]], settings: PromptSettings
) -> dict[str, Any]:
    """Train and evaluate on each draw."""
    tokens, dev = Tokens(tuning.start.tokenizer), {"dev": tuning.splits["dev"]}
    finished = []
    for seed, shots in draws.items():
        windows = tuning.task.featurize(shots, tokens, tuning.settings.max_length, train=True)
        finished.append(run_seed(replace(tuning, train=windows, splits=dev), folder, seed))
    accuracies = [one.score("accuracy") for one in finished]
    numbers = summary(accuracies)
    return {
        "few_shot_accuracy": numbers["mean"],
        "few_shot_accuracy_sd": numbers["sd"],
        "few_shot_accuracy_median": numbers["median"],
        "few_shot_accuracy_by_seed": accuracies,
        "few_shot_ties_by_seed": [one.score("ties") for one in finished],
        "shots": settings.shots,
        "seeds": list(draws),
        "steps": settings.steps,
        "batch_size": settings.batch_size,
        "learning_rate": tuning.settings.learning_rate,
        "dropout": settings.dropout,
    }


def majority(examples: Sequence[Example], task: TextClassification) -> float:
    """The share of the most frequent label."""
    return float(np.bincount([task.gold_class(example) for example in examples]).max() / len(examples))
