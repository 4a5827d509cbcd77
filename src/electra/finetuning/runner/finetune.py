"""Runs a fine-tuning: trains all seeds, summarises their scores and saves a model.

artifacts/finetuning.py lists the files. Nothing is written before the data, model and settings have been
read and checked. A finished seed is not trained again. Several processes may fine-tune in one folder: they
divide the seeds (foundation/work.py), and each writes the results when all are finished.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from typing_extensions import override

from electra.artifacts.finetuning import FinetuningFolder, SeedFolder
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
from electra.finetuning.runner.saved_model import load_seed, save_model, task_source
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
from electra.finetuning.runner.train_seed import train_seed
from electra.finetuning.settings import Settings
from electra.foundation import durable, seeds
from electra.foundation.errors import ElectraError, Interrupted
from electra.foundation.extensions import HEADS, TASKS
from electra.foundation.machine import set_threads, versions
from electra.foundation.options import as_path
from electra.foundation.progress import Say, quiet
from electra.foundation.signals import Stop
from electra.foundation.terminal_text import plural
from electra.foundation.work import Piece, run_pieces
from electra.training.checkpoint import on_host

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
    folder = FinetuningFolder(as_path(settings.out))
    settings = with_recorded_defaults(settings, folder)
    threads, thread_note = recorded_threads(folder) if folder.exists() else None, ""
    if may_use_cpu := settings.device in ("auto", "cpu"):
        set_threads(settings.threads, threads)
    dataset = read_dataset(settings, choose_task(settings))
    loaded = load(source_of(model), load_head(settings.head).starts_from)
    if settings.search:
        split_for_search(dataset)  # raises DataError if there are too few examples
    resolved = resolve(settings, dataset, loaded.config, encoder_pooling(loaded))
    if folder.exists():  # older versions recorded no columns, and gave a pair to every head as one input
        recorded = folder.record.get("settings", {})
        resolved = replace(
            resolved,
            separate_texts=recorded.get("separate_texts", False),
            read_columns=tuple(recorded.get("read_columns", ())),
        )
    prepared, notes = prepare(resolved, dataset, loaded)
    teacher, unlabelled = open_teacher(prepared, len(dataset.splits["train"][0].texts))
    for split, examples in dataset.splits.items():
        if split != "train":
            notes += note_leaks(split, examples, unlabelled, "texts without labels")
    with_other_encoder = with_baseline_model(settings, dataset)
    record = make_record(model, prepared, dataset, teacher)
    with folder.session(record, say=say, stop=stop, shared=True) as session:
        session.share()
        threads = recorded_threads(folder)
        if may_use_cpu:  # another process may have recorded its number in the meantime
            set_threads(settings.threads, threads)
        if threads not in (None, torch.get_num_threads()):
            thread_note = f"resumed with {torch.get_num_threads()} instead of {threads} threads"
            thread_note += ": not bit-identical"
        without_teacher = prepared
        if teacher is not None:
            session.say("labelling the training texts with the teacher")
            prepared, note = with_soft_labels(prepared, dataset.splits["train"], unlabelled, teacher)
            notes.append(note)
        start_lines = (describe_start(model, prepared), describe_defaults(settings, dataset, loaded.config))
        for note in filter(None, (thread_note, *start_lines, *describe_labels(dataset), *notes)):
            session.say(note)

        def run(pieces: Iterator[Piece]) -> None:
            run_pieces(pieces, say=session.say, stop=session.stopping, ended=_raise)

        try:
            if settings.search:
                run(iter([_search(settings, prepared, dataset, folder)]))
                prepared = prepared.with_settings(**folder.read_search()["chosen"])
            run(_pieces(prepared, without_teacher, dataset, folder, with_other_encoder))
            with session.exclusive():
                results = finish(model, prepared, dataset, folder, notes, session.say)
        except Interrupted:
            session.interrupt()
        for line in (headline(results, name) for name in prepared.task.metrics):
            session.say(line)
        for line in compare_with_baselines(results):
            session.say(line)
        return results


def _raise(piece: Piece, error: ElectraError | None) -> None:
    if error is not None:
        raise error


@dataclass(frozen=True)
class _Part(Piece):
    """A piece that is finished when `finished()` says so."""

    finished: Callable[[], bool] = lambda: False

    @override
    def is_finished(self) -> bool:
        return self.finished()


def _search(settings: Settings, prepared: Finetuning, dataset: Dataset, folder: FinetuningFolder) -> _Part:
    """Returns the search. Another budget extends a finished one, unless a seed was begun after it."""

    def is_finished() -> bool:
        record, has_seeds = folder.read_search(), bool(folder.seeds()) or folder.seed_in_progress()
        return "chosen" in record and (has_seeds or record["budget"] == settings.search)

    arguments = (settings, prepared, dataset, folder)
    return _Part("search", folder.trial("all"), "", search, arguments, is_finished)


def _pieces(
    prepared: Finetuning,
    without_teacher: Finetuning,
    dataset: Dataset,
    folder: FinetuningFolder,
    with_other_encoder: Finetuning | None,
) -> Iterator[Piece]:
    """Yields the baselines and the seeds; each seed also from random weights, if requested."""

    def measure(say: Say, stop: Stop) -> None:
        measure_all(without_teacher, dataset, folder, with_other_encoder, say)

    def has_baselines() -> bool:
        return not baselines_needed(without_teacher, dataset, folder)

    def is_intact(seed: SeedFolder) -> bool:
        return seed.exists() and durable.verify_directory(seed.path) is None

    yield _Part("baselines", folder.trial("none").with_name("baselines"), "", measure, (), has_baselines)
    settings = prepared.settings
    requested = range(settings.seed, settings.seed + settings.seeds)
    numbers = sorted({*requested, *(number for number, _ in folder.seeds())})  # the summary includes both
    runs = [("", folder, prepared)]
    if settings.untrained_baseline or folder.untrained.seeds():
        untrained = prepared.with_settings(init="random", untrained_baseline=False)
        runs.append(("untrained ", folder.untrained, untrained))
    for prefix, out, work in runs:
        for number in numbers:
            seed, arguments = out.seed(number), (work, out, number, prefix)
            name = f"{prefix}seed {number}"
            yield _Part(name, seed.path, seed.RECORD, run_seed, arguments, partial(is_intact, seed))


def recorded_threads(folder: FinetuningFolder) -> int | None:
    """Returns the number of threads that a fine-tuning started with; None if it is not recorded.

    Raises RunFolderError if finetune.json is missing or damaged.
    """
    threads: int | None = folder.record.get("environment", {}).get("threads")
    return threads


def finish(  # noqa: PLR0917
    model: str,
    prepared: Finetuning,
    dataset: Dataset,
    folder: FinetuningFolder,
    notes: Sequence[str],
    say: Say,
) -> dict[str, Any]:
    """Writes and returns the results of all finished seeds, and saves the model of one."""
    finished, untrained = finished_seeds(folder), finished_seeds(folder.untrained)
    results = summarise(model, prepared, dataset, finished, notes)
    if baselines := folder.read_baselines():
        results["baselines"] = baselines
    if prepared.settings.search and (record := folder.read_search()):
        results["search"] = record
    if untrained:
        results["untrained"] = scores_over_seeds(untrained, prepared.task.metrics)
    if prepared.settings.ensemble or folder.ensemble.path.exists():  # it may lack the newest seeds
        results |= run_ensemble(prepared, folder, finished, say)
    kept_seed = next(seed for seed in finished if seed.seed == results["kept_seed"])
    save_model(prepared, folder.model, kept_seed, results, say)
    rows = read_records(kept_seed.folder.table("dev").read_bytes())
    dev_records = join_gold(rows, prepared.splits["dev"].examples, prepared.task)
    durable.commit_file(folder.dev, format_records(dev_records, "jsonl"))
    durable.commit_json(folder.results, results)
    return results


def make_record(
    model: str, prepared: Finetuning, dataset: Dataset, teacher: Predictor | None = None
) -> dict[str, Any]:
    """Returns the contents of finetune.json; a resumed run must agree in `settings` and `identity`."""
    start, task, settings = prepared.start, prepared.task, prepared.settings
    is_pretrained = settings.init == "pretrained"
    identity = {
        "task": f"{task.name} version {task.version}",
        "labels": list(task.label_names),
        "weights": digest(exported_weights(start.encoder, None)) if is_pretrained else str(start.config),
        "tokenizer": start.tokenizer.digest,
        "data": dataset.files | unlabelled_digest(settings),
        "precision": prepared.precision,
        "seed_scheme": seeds.SCHEME,
        **({"teacher": teacher_digest(teacher)} if teacher else {}),
        **TASKS.identity(settings.task),
        **HEADS.identity(settings.head),
    }
    environment = {
        **versions("electra", "torch", "numpy", "tokenizers"),
        "platform": platform.platform(),
        "device": str(prepared.device),
        "threads": torch.get_num_threads(),
        "data": data_paths(settings),
    }
    return {
        "model": model,
        "task": task_source(settings.task, task),
        "settings": settings.recorded(),
        "identity": identity,
        "environment": environment,
    }


def data_paths(settings: Settings) -> dict[str, Any]:
    """Returns the absolute paths of the data, by the setting that names them, for information only."""

    def absolute(value: Any) -> Any:
        if isinstance(value, tuple):
            return [absolute(path) for path in value]
        path = Path(value).expanduser()
        return str(path.resolve()) if isinstance(value, Path) or path.exists() else value  # or a hub name

    return {name: absolute(value) for name in PATH_SETTINGS if (value := getattr(settings, name))}


def describe_start(model: str, prepared: Finetuning) -> str:
    """Returns the line that a run reports first: task, data, model, steps and hardware."""
    settings, threads = prepared.settings, torch.get_num_threads()
    start = model if settings.init == "pretrained" else f"random initialization in the shape of {model}"
    sizes = ", ".join(f"{len(split.examples)} {name}" for name, split in prepared.splits.items())
    steps = f"{plural(prepared.total_steps, 'step')} of {settings.batch_size}"
    rates = f"learning rate {settings.learning_rate:g}, layer decay {settings.layer_decay:g}"
    if settings.search:
        steps, rates = f"batches of {settings.batch_size}", f"settings to be searched, {settings.search}"
    machine = f"{prepared.device}, {prepared.precision}, {plural(threads, 'thread')}"
    inputs = plural(len(prepared.train), "training input")
    return f"{prepared.task.name}: {inputs}, {sizes}; {start}; {steps}, {rates}; {machine}"


def finished_seeds(folder: FinetuningFolder) -> list[FinishedSeed]:
    """Returns the results of the finished seeds, in order."""
    return [FinishedSeed(number, seed, seed.record) for number, seed in folder.seeds()]


def run_seed(
    prepared: Finetuning, folder: FinetuningFolder, number: int, prefix: str = "", *, say: Say, stop: Stop
) -> None:
    """Trains a seed from its last checkpoint or from the start, and writes its folder."""
    prepared = replace(prepared, say=lambda line: say(f"{prefix}{line}"), stopping=stop)
    seed_folder, task = folder.seed(number), prepared.task
    durable.recover(seed_folder.path)
    if seed_folder.path.exists():
        if (problem := durable.verify_directory(seed_folder.path)) is None:
            return
        prepared.say(f"{seed_folder} is damaged ({problem}): training seed {number} again")
    checkpoints = folder.checkpoints(number)
    model, state = train_seed(prepared, number, checkpoints)
    calibration = calibrate(prepared, model) if prepared.settings.calibrate else None
    evaluations = {name: evaluate(prepared, model, split) for name, split in prepared.splits.items()}
    if calibration:
        evaluations["dev"] = replace(evaluations["dev"], loss=calibration.loss)
        prepared.say(f"seed {number}  {calibration.describe()}")
    for name, evaluation in evaluations.items():
        if evaluation.scores:
            prepared.say(f"seed {number}  {name}: {describe_scores(evaluation.scores)}")
    results = {
        "seed": number,
        "steps": state.step,
        "seconds": round(state.seconds, 3),
        "train_loss": state.losses[-1][1] if state.losses else None,
        "losses": state.losses,
        "epochs": state.epochs,
        "temperature": calibration.temperature if calibration else None,
        "threshold": calibration.threshold if calibration else None,
        "eval": evaluations["dev"].record(),
        "others": {name: e.record() for name, e in evaluations.items() if name != "dev" and e.scores},
    }
    files: dict[str, durable.Content] = {seed_folder.results.name: durable.to_json(results)}
    for name, evaluation in evaluations.items():
        files |= task.files(name, evaluation.predictions, prepared.splits[name].examples)
    files[seed_folder.weights.name] = save(on_host(model.state_dict()))
    durable.commit_directory(seed_folder.path, files)
    if checkpoints.exists():
        durable.remove_directory(checkpoints)


def summarise(
    model: str, prepared: Finetuning, dataset: Dataset, finished: Sequence[FinishedSeed], notes: Sequence[str]
) -> dict[str, Any]:
    """Returns the contents of all_results.json except baselines, search, untrained seeds and ensemble."""
    settings, task = prepared.settings, prepared.task
    sizes = {result_name(name): len(split) for name, split in dataset.splits.items()}
    counts = {name: count_labels(task, examples) for name, examples in dataset.splits.items()}
    labels = {name: of_split for name, of_split in counts.items() if of_split}
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
        **({"labels": labels} if labels else {}),
        **{f"{name}_version": version for name, version in versions("electra", "torch").items()},
        **{name: getattr(settings, name) for name in IN_RESULTS},
        "precision": prepared.precision,
    }


def run_ensemble(
    prepared: Finetuning, folder: FinetuningFolder, finished: Sequence[FinishedSeed], say: Say
) -> dict[str, Any]:
    """Writes the averaged predictions of all seeds, and returns their scores by `ensemble_SPLIT_METRIC`."""
    by_seed: dict[str, list[list[Any]]] = {name: [] for name in prepared.splits}
    for seed in finished:
        model = load_seed(prepared, seed)
        for name, split in prepared.splits.items():
            by_seed[name].append(evaluate(prepared, model, split).predictions)
    results: dict[str, Any] = {}
    files: dict[str, durable.Content] = {}
    for name, split in prepared.splits.items():
        predictions = prepared.task.average(by_seed[name])
        files |= prepared.task.files(name, predictions, split.examples)
        if split.windows.targets is not None:
            scores = prepared.task.score(predictions, split.examples)
            prefix = f"ensemble_{result_name(name)}"
            results |= {f"{prefix}_{metric}": score.value for metric, score in scores.items()}
            say(f"ensemble of {len(finished)} seeds  {name}: {describe_scores(scores)}")
    durable.commit_directory(folder.ensemble.path, files)
    return results
