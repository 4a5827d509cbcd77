"""Runs a fine-tuning: trains all seeds, summarises their scores and saves a model.

artifacts/finetuning.py lists the files. Nothing is written before the data, model and settings have been
read and checked. A finished seed is not trained again. Several processes may fine-tune in one folder: they
divide the seeds and the trials of a search, and the last one writes the results.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from electra.artifacts import digests
from electra.artifacts.finetuning import FinetuningFolder
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import load
from electra.exchange.weights import digest
from electra.finetuning.heads import load_head
from electra.finetuning.metrics.scores import summary
from electra.finetuning.predict import Predictor
from electra.finetuning.runner.baselines import baselines_needed, measure_all, with_baseline_model
from electra.finetuning.runner.calibration import calibrate
from electra.finetuning.runner.dataset import (
    Dataset,
    choose_task,
    count_labels,
    describe_labels,
    note_leaks,
    read_dataset,
)
from electra.finetuning.runner.defaults import (
    describe_defaults,
    encoder_pooling,
    resolve,
    with_recorded_defaults,
)
from electra.finetuning.runner.prepared import Finetuning, describe_scores, evaluate, prepare, source_of
from electra.finetuning.runner.records import format_records, join_gold, read_records
from electra.finetuning.runner.saved_model import load_seed, save_model
from electra.finetuning.runner.search import search, split_for_search
from electra.finetuning.runner.soft_labels import (
    open_teacher,
    teacher_digest,
    unlabelled_digest,
    with_soft_labels,
)
from electra.finetuning.runner.summary import (
    FinishedSeed,
    choose_seed,
    compare_with_baselines,
    headline,
    result_name,
    scores_over_seeds,
)
from electra.finetuning.runner.task_file import task_source
from electra.finetuning.runner.train_seed import Stopped, train_seed
from electra.finetuning.settings import Settings
from electra.foundation import durable, seeds
from electra.foundation.errors import Interrupted
from electra.foundation.extensions import HEADS, TASKS
from electra.foundation.jobs import HeldElsewhere, SharedWork
from electra.foundation.leases import Leases
from electra.foundation.machine import versions
from electra.foundation.options import as_path
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop
from electra.foundation.visible import plural
from electra.training.checkpoint import on_host
from electra.training.threads import set_threads

PATH_SETTINGS = ("data", "dev", "test", "extra_eval", "unlabelled", "teacher")
IN_RESULTS = ("epochs", "batch_size", "learning_rate", "layer_decay", "max_length", "head", "pooling")


def finetune(
    model: str, settings: Settings, say: Say = quiet, stop: Callable[[], bool] | None = None
) -> dict[str, Any]:
    """Fine-tunes and evaluates each seed; resumes if it is called again.

    Args:
        model: the model whose encoder is fine-tuned: a run folder, a model folder, the folder of a
            fine-tuning, or a name on the Hugging Face hub.
        settings: all options.
        say: receives each line of progress.
        stop: called after each step; if it returns True, the state is saved and training stops. None: the
            signals SIGINT, SIGTERM and SIGUSR1 do that.

    Returns:
        The contents of all_results.json.

    Raises:
        Interrupted: a stop was requested.
        RunFolderError: the folder contains something else, or a fine-tuning with other settings.
        ElectraError: the data, the model or the settings are invalid, or a loss is not finite.
    """
    return _finetune(model, settings, say, stop, wait=True)


def help_finetune(model: str, settings: Settings, say: Say, stop: Callable[[], bool]) -> None:
    """Does the work of a fine-tuning that no other process is doing, without waiting for the others.

    Takes the same arguments, and raises the same errors, as `finetune`.
    """
    with suppress(HeldElsewhere):
        _finetune(model, settings, say, stop, wait=False)


def _finetune(
    model: str, settings: Settings, say: Say, stop: Callable[[], bool] | None, wait: bool
) -> dict[str, Any]:
    folder = FinetuningFolder(as_path(settings.out))
    settings = with_recorded_defaults(settings, folder)
    previous_threads = recorded_threads(folder) if folder.exists() else None
    thread_note, may_use_cpu = "", settings.device in ("auto", "cpu")
    if may_use_cpu:
        thread_note = set_threads(settings.threads, previous_threads, "--threads")
    dataset = read_dataset(settings, choose_task(settings))
    loaded = load(source_of(model), load_head(settings.head).starts_from)
    if settings.search:
        split_for_search(dataset)  # raises DataError if there are too few examples
    pooling = encoder_pooling(loaded, dataset.task)
    resolved = resolve(settings, dataset, loaded.config, pooling)
    if folder.exists():  # older versions recorded no columns, and gave a pair to every head as one input
        recorded_settings = folder.record.get("settings", {})
        resolved = replace(
            resolved,
            separate_texts=recorded_settings.get("separate_texts", False),
            read_columns=tuple(recorded_settings.get("read_columns", ())),
        )
    tuning, notes = prepare(resolved, dataset, loaded)
    teacher, unlabelled = open_teacher(tuning, len(dataset.splits["train"][0].texts))
    for split, examples in dataset.splits.items():
        if split != "train":
            notes += note_leaks(split, examples, unlabelled, "texts without labels")
    baseline_tuning = with_baseline_model(settings, dataset)
    record = make_record(model, tuning, dataset, teacher)
    with folder.session(record, say=say, stop=stop, shared=True) as session:
        session.share()
        previous_threads = recorded_threads(folder)
        if may_use_cpu:  # another process may have recorded its number in the meantime
            set_threads(settings.threads, previous_threads, "--threads")
        shared = SharedWork(Leases(folder.leases), session.say, session.stopping, wait)
        tuning = replace(tuning, say=session.say, stopping=session.stopping)
        if previous_threads not in (None, torch.get_num_threads()):
            thread_note = f"resumed with {torch.get_num_threads()} instead of {previous_threads} threads"
            thread_note += ": not bit-identical"
        without_teacher = tuning
        if teacher is not None:
            session.say("labelling the training texts with the teacher")
            tuning, note = with_soft_labels(tuning, dataset.splits["train"], unlabelled, teacher)
            notes.append(note)
        start_lines = (describe_start(model, tuning), describe_defaults(settings, dataset, loaded.config))
        for note in (thread_note, *start_lines, *describe_labels(dataset), *notes):
            if note:
                session.say(note)
        try:
            search_record: dict[str, Any] = {}
            if settings.search:
                search_record = search(
                    settings,
                    tuning,
                    dataset,
                    folder,
                    lambda search_dataset: prepare(tuning.settings, search_dataset, loaded)[0],
                    shared,
                    session.exclusive,
                )
                tuning = tuning.with_settings(**search_record["chosen"])
            while True:
                seed_numbers = seeds_to_run(settings, folder)
                measure_baselines = partial(measure_all, without_teacher, dataset, folder, baseline_tuning)
                needs_baselines = partial(baselines_needed, without_teacher, dataset, folder)
                train_all(tuning, folder, seed_numbers, shared, measure_baselines, needs=needs_baselines)
                with session.exclusive():
                    # Otherwise another process has added seeds, which are to be included.
                    if seed_numbers == seeds_to_run(settings, folder):
                        results = finish(model, tuning, dataset, folder, notes, search_record, seed_numbers)
                        break
        except Interrupted:
            session.interrupt()
        shared.leases.clear()
        for name in tuning.task.metrics:
            session.say(headline(results, name))
        for line in compare_with_baselines(results):
            session.say(line)
        return results


def recorded_threads(folder: FinetuningFolder) -> int | None:
    """Returns the number of threads that a fine-tuning started with; None if it is not recorded.

    Raises RunFolderError if finetune.json is missing or damaged.
    """
    threads: int | None = folder.record.get("environment", {}).get("threads")
    return threads


def train_all(
    tuning: Finetuning,
    folder: FinetuningFolder,
    numbers: Sequence[int],
    shared: SharedWork,
    measure_baselines: Callable[[Say], None],
    *,
    needs: Callable[[], bool],
) -> None:
    """Scores the baselines and trains the seeds; if requested, also trains each seed from random weights.

    Args:
        tuning: the fine-tuning.
        folder: the folder for the results.
        numbers: the seeds.
        shared: divides the work among the processes that share the folder.
        measure_baselines: scores and saves the baselines.
        needs: whether baselines are requested and not saved yet.

    Raises:
        Interrupted: a stop was requested.
        HeldElsewhere: other processes are doing all remaining work, and `shared` does not wait for them.
        ElectraError: a loss is not finite, or the checkpoints are damaged.
    """
    pieces: dict[str, Callable[..., Any]] = {}
    if needs():
        pieces["baselines"] = lambda say, stop: measure_baselines(say)
    untrained_tuning = tuning.with_settings(init="random", untrained_baseline=False)
    seed_pieces = seed_folders(folder, numbers, bool(untrained_seeds(tuning.settings, folder, numbers)))
    for name, (target, number) in seed_pieces.items():
        prefix = "" if target == folder else "untrained, "
        pieces[name] = partial(
            _run_seed, tuning if target == folder else untrained_tuning, target, number, prefix
        )
    damaged = {
        name
        for name, (target, number) in seed_pieces.items()
        if (seed := target.seed(number)).path.exists() and durable.verify_directory(seed.path)
    }

    def is_done(name: str) -> bool:
        if name not in seed_pieces:
            return not needs()
        target, number = seed_pieces[name]
        return name not in damaged and target.seed(number).exists()

    for name in shared.run(pieces, is_done):
        damaged.discard(name)


def _run_seed(
    tuning: Finetuning, folder: FinetuningFolder, number: int, prefix: str, *, say: Say, stop: Stop
) -> None:
    """Trains a seed; `prefix` is put before each line of progress.

    Raises Interrupted, after the state is saved, if `stop` returned True.
    """
    tuning = replace(tuning, say=lambda line: say(f"{prefix}{line}"), stopping=stop)
    try:
        run_seed(tuning, folder, number)
    except Stopped:
        raise Interrupted(folder.path) from None


def seed_folders(
    folder: FinetuningFolder, numbers: Sequence[int], untrained: bool
) -> dict[str, tuple[FinetuningFolder, int]]:
    """Returns (folder, seed) for each piece of work that trains a seed, by the name of the piece.

    With `untrained`, each seed is also trained from random initialization, in a folder of its own.
    """
    folders = {"": folder, "untrained ": folder.untrained} if untrained else {"": folder}
    return {
        f"{prefix}seed {number}": (seeds_folder, number)
        for prefix, seeds_folder in folders.items()
        for number in numbers
    }


def remaining_work(settings: Settings) -> list[str]:
    """Returns the remaining pieces of work, each with the process that is working on it, if there is one.

    Raises RunFolderError if search.json is damaged.
    """
    folder = FinetuningFolder(as_path(settings.out))
    leases = Leases(folder.leases)
    seed_numbers = seeds_to_run(settings, folder)
    remaining: list[str] = []
    if settings.search and not folder.read_search().get("chosen"):
        remaining.append("search")
    seed_pieces = seed_folders(folder, seed_numbers, bool(untrained_seeds(settings, folder, seed_numbers)))
    remaining += [name for name, (target, number) in seed_pieces.items() if not target.seed(number).exists()]
    # Trials of a search and baselines are not among the remaining pieces.
    held_elsewhere = [name for name in leases.held() if name not in remaining]
    if not remaining and not folder.results.is_file():
        remaining.append("results")
    return [leases.label(name) for name in (*held_elsewhere, *remaining)]


def finish(  # noqa: PLR0917
    model: str,
    tuning: Finetuning,
    dataset: Dataset,
    folder: FinetuningFolder,
    notes: Sequence[str],
    search_record: dict[str, Any],
    numbers: Sequence[int],
) -> dict[str, Any]:
    """Writes and returns the results of all seeds, and saves the model, unless another process just did.

    Args:
        model: the model as the user passed it.
        tuning: the fine-tuning.
        dataset: its data.
        folder: the folder to write.
        notes: notes on the data, for all_results.json.
        search_record: the contents of search.json; {} without a search.
        numbers: the seeds, all of which must be finished.
    """
    settings = tuning.settings
    finished = finished_seeds(folder, numbers)
    untrained = finished_seeds(folder.untrained, untrained_seeds(settings, folder, numbers))
    extra_results = {
        "baselines": folder.read_baselines(),
        "search": search_record,
        "untrained": scores_over_seeds(untrained, tuning.task.metrics) if untrained else {},
    }
    results = summarise(model, tuning, dataset, finished, notes)
    results |= {name: record for name, record in extra_results.items() if record}
    # An existing ensemble is computed again, since it may lack the newest seeds.
    needs_ensemble = settings.ensemble or folder.ensemble.path.exists()
    # This process removed the digests at its start, so another process must have written them since.
    if digests.compare(folder.path) is not None:
        existing_results = folder.read_results()
        other_results = {
            name: value for name, value in existing_results.items() if not name.startswith("ensemble_")
        }
        if (
            other_results == json.loads(durable.to_json(results))
            and needs_ensemble == folder.ensemble.path.exists()
        ):
            return existing_results
    if needs_ensemble:
        results |= run_ensemble(tuning, folder, finished)
    kept_seed = next(seed for seed in finished if seed.seed == results["kept_seed"])
    save_model(tuning, folder.model, kept_seed, results)
    rows = read_records(kept_seed.folder.table("dev").read_bytes())
    dev_records = join_gold(rows, tuning.splits["dev"].examples, tuning.task)
    durable.commit_file(folder.dev, format_records(dev_records, "jsonl"))
    durable.commit_json(folder.results, results)
    folder.record_digests()
    return results


def make_record(
    model: str, tuning: Finetuning, dataset: Dataset, teacher: Predictor | None = None
) -> dict[str, Any]:
    """Returns the contents of finetune.json; a resumed run must agree in `settings` and `identity`."""
    start, task = tuning.start, tuning.task
    is_pretrained = tuning.settings.init == "pretrained"
    identity = {
        "task": f"{task.name} version {task.version}",
        "labels": list(task.label_names),
        "weights": digest(exported_weights(start.encoder, None)) if is_pretrained else str(start.config),
        "tokenizer": start.tokenizer.digest,
        "data": dataset.files | unlabelled_digest(tuning.settings),
        "precision": tuning.precision,
        "seed_scheme": seeds.SCHEME,
        **({"teacher": teacher_digest(teacher)} if teacher else {}),
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
            "data": data_paths(tuning.settings),
        },
    }


def data_paths(settings: Settings) -> dict[str, Any]:
    """Returns the absolute paths of the data, by the setting that names them, for information only."""

    def absolute(value: Any) -> Any:
        if isinstance(value, tuple):
            return [absolute(path) for path in value]
        path = Path(value).expanduser()
        return str(path.resolve()) if isinstance(value, Path) or path.exists() else value  # or a hub name

    return {name: absolute(value) for name in PATH_SETTINGS if (value := getattr(settings, name))}


def describe_start(model: str, tuning: Finetuning) -> str:
    """Returns the line that a run reports first: task, data, model, steps and hardware."""
    settings, threads = tuning.settings, torch.get_num_threads()
    start = model if settings.init == "pretrained" else f"random initialization in the shape of {model}"
    sizes = ", ".join(f"{len(split.examples)} {name}" for name, split in tuning.splits.items())
    steps = f"{plural(tuning.total_steps, 'step')} of {settings.batch_size}"
    rates = f"learning rate {settings.learning_rate:g}, layer decay {settings.layer_decay:g}"
    if settings.search:
        steps, rates = f"batches of {settings.batch_size}", f"settings to be searched, {settings.search}"
    machine = f"{tuning.device}, {tuning.precision}, {plural(threads, 'thread')}"
    inputs = plural(len(tuning.train), "training input")
    return f"{tuning.task.name}: {inputs}, {sizes}; {start}; {steps}, {rates}; {machine}"


def seeds_to_run(settings: Settings, folder: FinetuningFolder) -> list[int]:
    """Returns the requested seeds and those that the folder already has; the summary includes both."""
    requested = range(settings.seed, settings.seed + settings.seeds)
    return sorted({*requested, *(number for number, _ in folder.seeds())})


def untrained_seeds(settings: Settings, folder: FinetuningFolder, numbers: Sequence[int]) -> Sequence[int]:
    """Returns the seeds to train from random initialization as well, if that was ever requested."""
    return numbers if settings.untrained_baseline or folder.untrained.seeds() else ()


def finished_seeds(folder: FinetuningFolder, numbers: Sequence[int]) -> list[FinishedSeed]:
    """Returns the results of these seeds, all of which must be finished."""
    return [FinishedSeed(number, seed := folder.seed(number), seed.record) for number in numbers]


def run_seed(tuning: Finetuning, folder: FinetuningFolder, seed: int) -> None:
    """Trains a seed from its last checkpoint or from the start, unless it already has intact results.

    Raises:
        Stopped: `tuning.stopping()` returned True; the state is saved.
        RunFailed: a loss or an output is not finite.
        CheckpointError: all checkpoints are damaged.
    """
    seed_folder, task = folder.seed(seed), tuning.task
    durable.recover_and_clean(seed_folder.path)
    if seed_folder.path.exists():
        if (problem := durable.verify_directory(seed_folder.path)) is None:
            return
        tuning.say(f"{seed_folder} is damaged ({problem}): training seed {seed} again")
    model, state = train_seed(tuning, seed, folder.checkpoints(seed))
    calibration = calibrate(tuning, model) if tuning.settings.calibrate else None
    evaluations = {name: evaluate(tuning, model, split) for name, split in tuning.splits.items()}
    if calibration:
        loss, calibrated_loss, threshold = (
            calibration.loss,
            calibration.calibrated_loss,
            calibration.threshold,
        )
        evaluations["dev"] = replace(evaluations["dev"], loss=loss)
        dev_note = f"the loss on dev falls from {loss:.4f} to {calibrated_loss:.4f}"
        dev_note += f"; labels with a probability above {threshold:.3f} are predicted" if threshold else ""
        tuning.say(f"seed {seed}  temperature {calibration.temperature:.3f}, chosen on dev: {dev_note}")
    for name, evaluation in evaluations.items():
        if evaluation.scores:
            tuning.say(f"seed {seed}  {name}: {describe_scores(evaluation.scores)}")
    results = {
        "seed": seed,
        "steps": state.step,
        "seconds": round(state.seconds, 3),
        "train_loss": state.losses[-1][1] if state.losses else None,
        "losses": state.losses,
        "epochs": state.epochs,
        "temperature": calibration.temperature if calibration else None,
        "threshold": calibration.threshold if calibration else None,
        "eval": evaluations["dev"].record(),
        "others": {
            name: evaluation.record()
            for name, evaluation in evaluations.items()
            if name != "dev" and evaluation.scores
        },
    }
    files: dict[str, durable.Content] = {seed_folder.results.name: durable.to_json(results)}
    for name, evaluation in evaluations.items():
        files |= task.files(name, evaluation.predictions, tuning.splits[name].examples)
    files[seed_folder.weights.name] = save(on_host(model.state_dict()))
    durable.commit_directory(seed_folder.path, files)
    if (checkpoints := folder.checkpoints(seed)).exists():
        durable.remove_directory(checkpoints)


def summarise(
    model: str, tuning: Finetuning, dataset: Dataset, finished: Sequence[FinishedSeed], notes: Sequence[str]
) -> dict[str, Any]:
    """Returns the contents of all_results.json except baselines, search, untrained seeds and ensemble."""
    settings, task = tuning.settings, tuning.task
    sizes = {result_name(name): len(split) for name, split in dataset.splits.items()}
    return {
        "task": task.name,
        "task_version": task.version,
        "model": model,
        "init": settings.init,
        **scores_over_seeds(finished, task.metrics),
        "train_loss": summary([seed.results["train_loss"] for seed in finished])["mean"],
        **{f"{name}_samples": size for name, size in sizes.items()},
        "steps": finished[0].results["steps"],
        "seconds": round(sum(seed.results["seconds"] for seed in finished), 3),
        "seeds": [seed.seed for seed in finished],
        "primary_metric": task.metrics[0],
        "kept_seed": choose_seed(finished, task.metrics[0], settings.keep_seed).seed,
        "notes": list(notes),
        **({"labels": counts} if (counts := label_counts(dataset)) else {}),
        **{f"{name}_version": version for name, version in versions("electra", "torch").items()},
        **{name: getattr(settings, name) for name in IN_RESULTS},
        "precision": tuning.precision,
    }


def label_counts(dataset: Dataset) -> dict[str, dict[str, int]]:
    """Returns the frequency of each label by split; splits without answers or labels are left out."""
    counts = {name: count_labels(dataset.task, examples) for name, examples in dataset.splits.items()}
    return {name: split_counts for name, split_counts in counts.items() if split_counts}


def run_ensemble(
    tuning: Finetuning, folder: FinetuningFolder, finished: Sequence[FinishedSeed]
) -> dict[str, Any]:
    """Writes the averaged predictions of all seeds, and returns their scores by `ensemble_SPLIT_METRIC`."""
    predictions_by_split: dict[str, list[list[Any]]] = {name: [] for name in tuning.splits}
    for seed in finished:
        model = load_seed(tuning, seed)
        for name, split in tuning.splits.items():
            predictions_by_split[name].append(evaluate(tuning, model, split).predictions)
    results: dict[str, Any] = {}
    files: dict[str, durable.Content] = {}
    for name, split in tuning.splits.items():
        predictions = tuning.task.average(predictions_by_split[name])
        files |= tuning.task.files(name, predictions, split.examples)
        if split.windows.targets is not None:
            scores = tuning.task.score(predictions, split.examples)
            prefix = f"ensemble_{result_name(name)}"
            results |= {f"{prefix}_{metric}": score.value for metric, score in scores.items()}
            tuning.say(f"ensemble of {len(finished)} seeds  {name}: {describe_scores(scores)}")
    durable.commit_directory(folder.ensemble.path, files)
    return results
