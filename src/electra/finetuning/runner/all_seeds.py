"""A fine-tuning: all its seeds, the numbers over them, the saved model. What it writes: artifacts/tuning.py.

Nothing is written before data, model and settings have been read and checked. A finished seed is never
trained again.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from electra.artifacts import digests
from electra.artifacts.model import Pooling
from electra.artifacts.tuning import TuningFolder
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import Loaded, load
from electra.exchange.weights import digest
from electra.finetuning.heads import load_head
from electra.finetuning.metrics.scores import summary
from electra.finetuning.runner import floors
from electra.finetuning.runner.counted import counted
from electra.finetuning.runner.dataset import Dataset, answers_told, choose_task, count_labels, read_dataset
from electra.finetuning.runner.one_seed import Stopped, train_seed
from electra.finetuning.runner.over_seeds import FinishedSeed, choose, compared, headline, scores_over_seeds
from electra.finetuning.runner.records import judged, read_records, write
from electra.finetuning.runner.saved_model import load_seed, save_model
from electra.finetuning.runner.search import parted, search
from electra.finetuning.runner.task_file import task_source
from electra.finetuning.runner.tuned_model import choose_pooling
from electra.finetuning.runner.tuning import ReadSplit, Tuning, describe, evaluate, steps_of
from electra.finetuning.settings import (
    SEARCHED,
    ResolvedSettings,
    Settings,
    default_layer_decay,
    default_learning_rate,
    searched,
)
from electra.finetuning.tasks.parts.task import Task
from electra.finetuning.windows.features import Tokens
from electra.foundation import durable, seeds
from electra.foundation.errors import ConfigError
from electra.foundation.extensions import HEADS, TASKS
from electra.foundation.machine import versions
from electra.foundation.options import as_path
from electra.foundation.progress import Say, quiet
from electra.model.precision import pick_device, pick_precision
from electra.model.sizes import EncoderConfig
from electra.training.checkpoint import on_host
from electra.training.threads import set_threads

FILES = ("data", "dev", "test", "extra_eval")  # settings that say where the data lie
DROPOUT = 0.1  # the paper's
COUNTING = {1: "bag", 2: "compare"}  # the head that starts from counting, by the texts of an example
IN_RESULTS = ("epochs", "batch_size", "learning_rate", "layer_decay", "max_length", "head", "pooling")


def finetune(
    model: str, settings: Settings, say: Say = quiet, stop: Callable[[], bool] | None = None
) -> dict[str, Any]:
    """Fine-tune and evaluate each seed; the contents of all_results.json.

    model: whose encoder to tune: a run folder, a model folder, a fine-tuning, or a name on the hub.
    stop:  asked after each step; then the state is saved and Interrupted raised: the same call resumes.
    """
    begun = TuningFolder(as_path(settings.out))
    before = begun.record.get("environment", {}).get("threads") if begun.exists() else None
    threads = ""
    if settings.device in ("auto", "cpu"):
        threads = set_threads(settings.threads, before, "--threads")
    dataset = read_dataset(settings, choose_task(settings))
    loaded = load(source_of(model), load_head(settings.head).starts_from)
    if settings.search:
        parted(dataset)  # raises where there is too little
    pooling = made_with(loaded, dataset.task)
    tuning, notes = prepare(resolve(settings, dataset.task, loaded.config, pooling), dataset, loaded)
    folder = TuningFolder(as_path(settings.out))
    with folder.session(make_record(model, tuning, dataset), say=say, stop=stop) as session:
        digests.forget(folder.path)  # until all is written
        tuning = replace(tuning, say=session.say, stopping=session.stopping)
        if before not in (None, torch.get_num_threads()):
            threads = f"resumed with threads {torch.get_num_threads()} instead of {before}: not bit-exact"
        for note in (threads, announcement(model, tuning), *answers_told(dataset), *notes):
            if note:
                session.say(note)
        try:
            others = {"floors": floors.beside(tuning, dataset, folder)}
            if settings.search:
                others["search"] = search(settings, tuning, dataset, folder, prepared_as(tuning))
                tuning = tuning.with_settings(**others["search"]["chosen"])
            finished = [run_seed(tuning, folder, seed) for seed in seeds_of(settings, folder)]
            others["untrained"] = run_twin(tuning, folder, [one.seed for one in finished])
        except Stopped:
            session.interrupt()
        results = summarise(model, tuning, dataset, finished, notes)
        results |= {name: found for name, found in others.items() if found}
        if settings.ensemble or folder.ensemble.path.exists():  # an earlier one is of fewer seeds
            results |= ensemble(tuning, folder, finished)
        chosen = next(one for one in finished if one.seed == results["kept_seed"])
        save_model(tuning, folder.model, chosen, results)
        dev = judged(
            read_records(chosen.folder.table("dev").read_bytes()),
            tuning.splits["dev"].examples,
            tuning.task,
        )
        durable.commit_file(folder.dev, write(dev, "jsonl"))
        durable.commit_json(folder.results, results)
        folder.record_digests()
        for name in tuning.task.metrics:
            session.say(headline(results, name))
        for line in compared(results, counting_head(tuning)):
            session.say(line)
        return results


def counting_head(tuning: Tuning) -> str:
    """The head that starts from counting, where the task has one and another was chosen."""
    if tuning.task.head != "classifier" or tuning.settings.head in COUNTING.values():
        return ""
    return COUNTING.get(len(tuning.splits["dev"].examples[0].texts), "")


def source_of(model: str) -> str | Path:
    """Of a fine-tuning, its saved model."""
    folder = TuningFolder(Path(model))
    return folder.model.path if folder.exists() else model


def made_with(loaded: Loaded, task: Task) -> Pooling | None:
    """How the encoder makes vectors, if it was made to: a discriminator's or generator's was not."""
    if task.head == "vectors":
        return loaded.pooling
    return loaded.text_vector.pooling if loaded.kind == "encoder" and loaded.text_vector.files else None


def resolve(
    settings: Settings, task: Task, config: EncoderConfig, pooling: Pooling | None = None
) -> ResolvedSettings:
    """The settings with nothing left open, by the task, the model's size and how it makes vectors."""
    positions = config.max_positions
    if settings.max_length is not None and settings.max_length > positions:
        what = f"{settings.max_length} tokens are more than the model's positions"
        raise ConfigError(what, key="max_length", fix=f"Use at most {positions}")
    if settings.search and not searched(settings):
        fix = f"Leave out {', '.join(f'`{name}`' for name in SEARCHED[:-1])} or `{SEARCHED[-1]}`"
        raise ConfigError("nothing is left to search for", key="search", fix=fix)
    values = {field.name: getattr(settings, field.name) for field in fields(Settings)}
    head = load_head(settings.head)
    usual_dropout = DROPOUT if head.dropout is None else head.dropout
    values |= {
        "dropout": usual_dropout if settings.dropout is None else settings.dropout,
        "epochs": next(one for one in (settings.epochs, head.epochs, task.epochs) if one is not None),
        "learning_rate": settings.learning_rate or default_learning_rate(config.hidden_size),
        "layer_decay": settings.layer_decay or default_layer_decay(config.hidden_size),
        "pooling": choose_pooling(settings.pooling, task.head, config.architecture, pooling or head.pooling),
        "max_length": settings.max_length or min(task.max_length, positions),
    }
    return ResolvedSettings(**values)


def prepare(settings: ResolvedSettings, dataset: Dataset, loaded: Loaded) -> tuple[Tuning, list[str]]:
    """Tokenise once for all seeds. Also returns what was done to the data, to be reported."""
    tokens, task, notes = Tokens(loaded.tokenizer), dataset.task, list(dataset.notes)
    splits: dict[str, ReadSplit] = {}
    for split, examples in dataset.splits.items():
        windows = task.featurize(examples, tokens, settings.max_length, train=split == "train")
        if windows.truncated:
            of = f"{windows.truncated} of {len(examples)} examples"
            notes.append(f"{split}: {of} are longer than {settings.max_length} tokens and were truncated")
        notes += [f"{split}: {note}" for note in windows.notes]
        splits[split] = ReadSplit(windows, examples)
    train = splits.pop("train").windows
    device = pick_device(settings.device)
    tuning = Tuning(
        settings=settings,
        task=task,
        start=loaded,
        train=train,
        splits=splits,
        total_steps=steps_of(settings, train),
        device=device,
        precision=pick_precision(settings.precision, device),
    )
    return tuning, notes


def prepared_as(tuning: Tuning) -> Callable[[Dataset], Tuning]:
    """What prepares other examples in the same way."""
    return lambda dataset: prepare(tuning.settings, dataset, tuning.start)[0]


def make_record(model: str, tuning: Tuning, dataset: Dataset) -> dict[str, Any]:
    """finetune.json: `settings` and `identity` must agree to resume."""
    start, task = tuning.start, tuning.task
    pretrained = tuning.settings.init == "pretrained"
    identity = {
        "task": f"{task.name} version {task.version}",
        "labels": list(task.label_names),
        "weights": digest(exported_weights(start.encoder, None)) if pretrained else str(start.config),
        "tokenizer": start.tokenizer.digest,
        "data": dataset.files,
        "precision": tuning.precision,
        "seed_scheme": seeds.SCHEME,
        **TASKS.identity(tuning.settings.task),
        **HEADS.identity(tuning.settings.head),
    }
    return {
        "model": model,
        "task": task_source(tuning.settings.task, task),
        "settings": tuning.settings.recorded(),
        "identity": identity,
        "environment": {
            **versions("electra", "torch", "numpy", "tokenizers"),
            "platform": platform.platform(),
            "device": str(tuning.device),
            "threads": torch.get_num_threads(),
            "data": places(tuning.settings),
        },
    }


def places(settings: Settings) -> dict[str, Any]:
    """Where the data lie, for who reads the record."""

    def whole(value: Any) -> Any:
        return (
            [whole(one) for one in value] if isinstance(value, tuple) else str(value.expanduser().resolve())
        )

    return {name: whole(value) for name in FILES if (value := getattr(settings, name))}


def announcement(model: str, tuning: Tuning) -> str:
    settings, threads = tuning.settings, torch.get_num_threads()
    start = model if settings.init == "pretrained" else f"fresh weights in the shape of {model}"
    sizes = ", ".join(f"{len(split.examples)} {name}" for name, split in tuning.splits.items())
    steps = f"{counted(tuning.total_steps, 'step')} of {settings.batch_size}"
    rates = f"learning rate {settings.learning_rate:g}, layer decay {settings.layer_decay:g}"
    if settings.search:
        steps, rates = f"batches of {settings.batch_size}", f"settings searched for, {settings.search}"
    machine = f"{tuning.device}, {tuning.precision}, {counted(threads, 'thread')}"
    inputs = counted(len(tuning.train), "training input")
    return f"{tuning.task.name}: {inputs}, {sizes}; {start}; {steps}, {rates}; {machine}"


def seeds_of(settings: Settings, folder: TuningFolder) -> list[int]:
    """Those wanted, and those that an earlier command has finished here: none is left out of the summary."""
    wanted = range(settings.seed, settings.seed + settings.seeds)
    return sorted({*wanted, *(number for number, _ in folder.seeds())})


def run_twin(tuning: Tuning, folder: TuningFolder, numbers: Sequence[int]) -> dict[str, Any]:
    """The scores of the same seeds from fresh weights; {} where they were never asked for."""
    twin = folder.untrained
    if not tuning.settings.untrained_baseline and not twin.seeds():
        return {}

    def say(line: str) -> None:
        tuning.say(f"untrained, {line}")

    fresh = replace(tuning.with_settings(init="random", untrained_baseline=False), say=say)
    return scores_over_seeds([run_seed(fresh, twin, seed) for seed in numbers], tuning.task.metrics)


def run_seed(tuning: Tuning, folder: TuningFolder, seed: int) -> FinishedSeed:
    """One seed from wherever it stands: finished, interrupted or not begun."""
    target, task = folder.seed(seed), tuning.task
    durable.sweep(target.path.parent)
    if target.path.exists():
        if (problem := durable.verify_directory(target.path)) is None:
            return FinishedSeed(seed, target, target.record)
        tuning.say(f"{target} is damaged ({problem}): training seed {seed} again")
    model, state = train_seed(tuning, seed, folder.checkpoints(seed))
    scored = {name: evaluate(tuning, model, split) for name, split in tuning.splits.items()}
    for name, found in scored.items():
        if found.scores:
            tuning.say(f"seed {seed}  {name}: {found.told()}")
    results = {
        "seed": seed,
        "steps": state.step,
        "seconds": round(state.seconds, 3),
        "train_loss": state.losses[-1][1] if state.losses else None,
        "losses": state.losses,
        "epochs": state.epochs,
        "eval": scored["dev"].record(),
        "others": {name: one.record() for name, one in scored.items() if name != "dev" and one.scores},
    }
    files: dict[str, durable.Content] = {target.results.name: durable.to_json(results)}
    for name, found in scored.items():
        files |= task.files(name, found.predictions, tuning.splits[name].examples)
    files[target.weights.name] = save(on_host(model.state_dict()))
    durable.commit_directory(target.path, files)
    if (checkpoints := folder.checkpoints(seed)).exists():
        durable.remove_directory(checkpoints)
    return FinishedSeed(seed, target, results)


def summarise(
    model: str, tuning: Tuning, dataset: Dataset, finished: Sequence[FinishedSeed], notes: Sequence[str]
) -> dict[str, Any]:
    """The contents of all_results.json."""
    settings, task = tuning.settings, tuning.task
    sizes = {("eval" if name == "dev" else name): len(found) for name, found in dataset.splits.items()}
    return {
        "task": task.name,
        "task_version": task.version,
        "model": model,
        "init": settings.init,
        **scores_over_seeds(finished, task.metrics),
        "train_loss": summary([one.results["train_loss"] for one in finished])["mean"],
        **{f"{name}_samples": size for name, size in sizes.items()},
        "steps": finished[0].results["steps"],
        "seconds": round(sum(one.results["seconds"] for one in finished), 3),
        "seeds": [one.seed for one in finished],
        "primary_metric": task.metrics[0],
        "kept_seed": choose(finished, task.metrics[0], settings.keep_seed).seed,
        "notes": list(notes),
        **({"labels": counts} if (counts := labels_of(dataset)) else {}),
        **{f"{name}_version": each for name, each in versions("electra", "torch").items()},
        **{name: getattr(settings, name) for name in IN_RESULTS},
        "precision": tuning.precision,
    }


def labels_of(dataset: Dataset) -> dict[str, dict[str, int]]:
    """split -> label -> count, of the splits with answers; {} for a task without labels."""
    counts = {name: count_labels(dataset.task, examples) for name, examples in dataset.splits.items()}
    return {name: found for name, found in counts.items() if found}


def ensemble(tuning: Tuning, folder: TuningFolder, finished: Sequence[FinishedSeed]) -> dict[str, Any]:
    """The predictions of all seeds as one. Returns its scores."""
    found: dict[str, list[list[Any]]] = {name: [] for name in tuning.splits}
    for one in finished:
        model = load_seed(tuning, one)
        for name, split in tuning.splits.items():
            found[name].append(evaluate(tuning, model, split).predictions)
    results: dict[str, Any] = {}
    files: dict[str, durable.Content] = {}
    for name, split in tuning.splits.items():
        predictions = tuning.task.average(found[name])
        files |= tuning.task.files(name, predictions, split.examples)
        if split.windows.targets is not None:
            scores = tuning.task.score(predictions, split.examples)
            prefix = f"ensemble_{'eval' if name == 'dev' else name}"
            results |= {f"{prefix}_{metric}": score.value for metric, score in scores.items()}
            tuning.say(f"ensemble of {len(finished)} seeds  {name}: {describe(scores)}")
    durable.commit_directory(folder.ensemble.path, files)
    return results
