"""Runs a fine-tuning: reads the data, fits the baselines, trains the seeds, saves the results and a model.

artifacts/finetuning_files.py lists the files. Nothing is written before the data, model and settings have
been read and checked. A finished seed is not trained again.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save

from electra.artifacts.finetuning_files import (
    FinetuningFolder,
    SeedFolder,
    best_baseline,
    best_epoch,
    verdict,
)
from electra.artifacts.session import Session
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import Loaded, load
from electra.exchange.weight_names import TUNED
from electra.exchange.weights import digest
from electra.finetuning.score import baselines
from electra.finetuning.score.choose_head import choose_head
from electra.finetuning.score.evaluate import describe_scores, evaluate, predict, score
from electra.finetuning.score.metrics import summary
from electra.finetuning.score.records import format_records, is_wrong, join_gold, read_records
from electra.finetuning.settings import Settings
from electra.finetuning.train.calibrate import calibrate
from electra.finetuning.train.dataset import (
    Dataset,
    choose_task,
    count_labels,
    describe_labels,
    read_dataset,
)
from electra.finetuning.train.one_seed import build_model, check_head, train_seed
from electra.finetuning.train.prepared import (
    Finetuning,
    encoder_pooling,
    prepare,
    resolve,
    with_recorded_defaults,
)
from electra.finetuning.train.saved_model import save_model, task_source
from electra.foundation import durable, seeds
from electra.foundation.errors import Interrupted
from electra.foundation.extensions import HEADS, TASKS, explained
from electra.foundation.machine import versions
from electra.foundation.options import as_path
from electra.foundation.progress import Say, doing, quiet
from electra.foundation.terminal_text import plural, when
from electra.foundation.threads import give_back_memory, set_threads
from electra.training.checkpoint import on_host

PATH_SETTINGS = ("data", "dev", "test", "extra_eval")
IN_RESULTS = ("epochs", "batch_size", "learning_rate", "layer_decay", "max_length", "head", "pooling")


def finetune(
    model: str, settings: Settings, say: Say = quiet, stop: Callable[[], bool] | None = None
) -> dict[str, Any]:
    """Fine-tunes and evaluates each seed, and returns the contents of all_results.json; resumes.

    `stop` is called after each step; if it returns True, the state is saved and training stops. None: the
    signals SIGINT, SIGTERM and SIGUSR1 do that.

    Raises:
        Interrupted: a stop was requested.
        RunFolderError: the folder contains something else, or a fine-tuning with other settings.
        ElectraError: the data, the model or the settings are invalid, or a loss is not finite.
    """
    with explained(HEADS, settings.head):
        return _finetune(model, settings, say, stop)


def _finetune(model: str, settings: Settings, say: Say, stop: Callable[[], bool] | None) -> dict[str, Any]:
    folder = FinetuningFolder(as_path(settings.out))
    recorded = folder.record if folder.exists() else {}
    settings = with_recorded_defaults(settings, recorded)
    threads, thread_note = recorded.get("environment", {}).get("threads"), ""
    if settings.device in ("auto", "cpu"):
        set_threads(settings.threads, threads)
    if threads not in (None, now := torch.get_num_threads()):
        thread_note = f"resumed with {now} instead of {threads} threads: not bit-identical"
    doing("reading the data")
    dataset = read_dataset(settings, choose_task(settings))
    doing(f"loading {model}")
    tuned = FinetuningFolder(Path(model))  # whose encoder is used
    loaded = load(tuned.model.path if tuned.exists() else model, "encoder")
    prepared, notes = prepare_all(settings, dataset, loaded, recorded)
    if HEADS.identity(prepared.settings.head):
        check_head(prepared)
    with folder.session(say=say, stop=stop) as session:  # locked before the first training
        names = ("choice", "choice_seconds")
        of_choice: dict[str, Any] = {name: recorded[name] for name in names if name in recorded}
        if not recorded:
            chosen, of_choice = run_choice(settings, dataset, loaded, session)
            if chosen.head != settings.head:
                prepared, notes = prepare_all(chosen, dataset, loaded, {})
        notes += of_choice.get("choice", [])
        session.begin(make_record(model, prepared, dataset) | of_choice)
        lines = (thread_note, describe_start(model, prepared), *describe_labels(dataset), *notes)
        for line in filter(None, lines):
            session.say(line)
        prepared = replace(prepared, say=session.say, stopping=session.stopping)
        requested = range(settings.seed, settings.seed + settings.seeds)
        for number in sorted({*requested, *(number for number, _ in folder.seeds())}):
            try:
                run_seed(prepared, folder, number)
            except Interrupted:
                session.interrupt()
            give_back_memory()
            if settings.baselines and baselines.apply_to(dataset, settings):
                baselines.measure_all(dataset, prepared, folder)
            give_back_memory()
        doing("saving the model")
        results = finish(model, prepared, dataset, folder, notes)
        for line in describe_results(results, prepared.task.metrics):
            session.say(line)
        return results


def run_choice(
    settings: Settings, dataset: Dataset, loaded: Loaded, session: Session
) -> tuple[Settings, dict[str, Any]]:
    """Returns the settings with the head that is chosen, and what the record says of the choice."""
    began = time.monotonic()
    try:
        chosen, notes = choose_head(settings, dataset, loaded, session.stopping, session.say)
    except Interrupted:
        session.interrupt()
    seconds = round(time.monotonic() - began, 3)
    return chosen, {"choice": notes, "choice_seconds": seconds} if notes else {}


def prepare_all(
    settings: Settings, dataset: Dataset, loaded: Loaded, recorded: Mapping[str, Any]
) -> tuple[Finetuning, list[str]]:
    """Resolves the settings and tokenises the data; `recorded` is the record of a resumed run, else {}."""
    resolved = resolve(settings, dataset, loaded.config, encoder_pooling(loaded))
    if recorded:  # older versions recorded no columns, and gave a pair to every head as one input
        known = recorded.get("settings", {})
        columns, separate = tuple(known.get("read_columns", ())), known.get("separate_texts", False)
        resolved = replace(resolved, separate_texts=separate, read_columns=columns)
    doing("tokenizing")
    prepared, notes = prepare(resolved, dataset, loaded)
    if loaded.kind in TUNED:
        labels = f" for {', '.join(loaded.labels[:5])}{when(len(loaded.labels) > 5, ', ...')}"
        notes.insert(0, f"the model's head{labels * bool(loaded.labels)} is replaced by a new one")
    return prepared, notes


def make_record(model: str, prepared: Finetuning, dataset: Dataset) -> dict[str, Any]:
    """Returns the contents of finetune.json; a resumed run must agree in `settings` and `identity`."""
    start, task, settings = prepared.start, prepared.task, prepared.settings
    is_pretrained = settings.init == "pretrained"
    identity = {
        "task": f"{task.name} version {task.version}",
        "labels": list(task.label_names),
        "weights": digest(exported_weights(start.encoder, None)) if is_pretrained else str(start.config),
        "tokenizer": start.tokenizer.digest,
        "data": dataset.files,
        "precision": prepared.precision,
        "seed_scheme": seeds.SCHEME,
        **TASKS.identity(settings.task),
        **HEADS.identity(settings.head),
    }
    environment = {
        **versions("electra", "torch", "numpy", "tokenizers"),
        "platform": platform.platform(),
        "device": str(prepared.device),
        "threads": torch.get_num_threads(),
        "data": {name: _absolute(value) for name in PATH_SETTINGS if (value := getattr(settings, name))},
    }
    return {
        "model": model,
        "task": task_source(settings.task, task),
        "settings": settings.recorded(),
        "identity": identity,
        "environment": environment,
    }


def _absolute(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_absolute(path) for path in value]
    return str(value.expanduser().resolve() if isinstance(value, Path) else value)  # or rows from Python


def describe_start(model: str, prepared: Finetuning) -> str:
    """Returns the line that a run reports first: task, data, model, steps and hardware."""
    settings, threads = prepared.settings, plural(torch.get_num_threads(), "thread")
    start = when(settings.init == "random", "random initialization in the shape of ") + model
    sizes = ", ".join(f"{len(split.examples)} {name}" for name, split in prepared.splits.items())
    steps = f"{plural(prepared.total_steps, 'step')} of {settings.batch_size} ({settings.epochs:g} epochs)"
    names = ("learning_rate", "layer_decay", "dropout", "max_length")
    values = ", ".join(f"{name.replace('_', ' ')} {getattr(settings, name):g}" for name in names)
    parts = (start, f"{steps}, {values}", f"{prepared.device}, {prepared.precision}, {threads}")
    inputs = plural(len(prepared.train), "training input")
    return f"{prepared.task.name}: {inputs}, {sizes}; {'; '.join(parts)}"


def run_seed(prepared: Finetuning, folder: FinetuningFolder, number: int) -> None:
    """Trains a seed from its last checkpoint or the start, and writes its folder, unless it is finished."""
    seed_folder, task = folder.seed(number), prepared.task
    durable.recover(seed_folder.path)
    if seed_folder.path.exists():
        if (problem := durable.verify_directory(seed_folder.path)) is None:
            return
        prepared.say(f"{seed_folder} is damaged ({problem}): training seed {number} again")
    if prepared.stopping():
        raise Interrupted(folder.path)
    checkpoints = folder.checkpoints(number)
    model, state = train_seed(prepared, number, checkpoints)
    give_back_memory()
    doing(f"seed {number}: scoring dev")
    outputs, loss = predict(prepared, model, prepared.splits["dev"])
    temperature = None
    if prepared.settings.calibrate:
        temperature, loss = calibrate(prepared, model, outputs, loss)
    outputs = [output / np.float32(temperature or 1) for output in outputs]
    evaluations = {
        name: score(prepared, split, outputs, loss) if name == "dev" else evaluate(prepared, model, split)
        for name, split in prepared.splits.items()
    }
    note = f"  (temperature {temperature:.3f}, chosen on dev)" if temperature else ""
    if len(state.epochs) > 1:
        note += "  (the best epoch on dev)"
    for name, evaluation in evaluations.items():
        if evaluation.scores:
            prepared.say(f"seed {number}  {name}: {describe_scores(evaluation.scores)}{note}")
            note = ""
    results = {
        "seed": number,
        "steps": state.step,
        "seconds": round(state.seconds, 3),
        "train_loss": state.losses[-1][1] if state.losses else None,
        "losses": state.losses,
        "epochs": state.epochs,
        "temperature": temperature,
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


def finish(
    model: str, prepared: Finetuning, dataset: Dataset, folder: FinetuningFolder, notes: Sequence[str]
) -> dict[str, Any]:
    """Writes and returns the results of all finished seeds, and saves the model of the best one on dev."""
    settings, task, record = prepared.settings, prepared.task, folder.record
    finished = {number: with_all_scores(prepared, seed) for number, seed in folder.seeds()}
    epochs_on_dev = max(len(record.get("epochs", ())) for record in finished.values())
    dev_scores = {number: record["eval"][task.metrics[0]] for number, record in finished.items()}
    # Undefined scores are worst; of equal ones, the lowest seed is best.
    best = max(dev_scores, key=lambda n: (dev_scores[n] is not None, dev_scores[n] or 0.0, -n))
    counts = {name: count_labels(task, examples) for name, examples in dataset.splits.items()}
    labels = {name: of_split for name, of_split in counts.items() if of_split}
    seconds = sum(seed["seconds"] for seed in finished.values()) + record.get("choice_seconds", 0.0)
    results = {
        "task": task.name,
        "task_version": task.version,
        "model": model,
        "init": settings.init,
        **scores_over_seeds(list(finished.values()), task.metrics),
        "train_loss": summary([seed["train_loss"] for seed in finished.values()])["mean"],
        **{f"{baselines.result_name(name)}_samples": len(split) for name, split in dataset.splits.items()},
        "steps": finished[best]["steps"],
        "seconds": round(seconds, 3),
        "seeds": list(finished),
        "primary_metric": task.metrics[0],
        "kept_seed": best,
        "dev_texts": dataset.num_dev_texts,
        **({"epochs_on_dev": epochs_on_dev} if epochs_on_dev > 1 else {}),
        "notes": list(notes),
        **({"labels": labels} if labels else {}),
        **{f"{name}_version": version for name, version in versions("electra", "torch").items()},
        **{name: getattr(settings, name) for name in IN_RESULTS},
        "precision": prepared.precision,
    }
    tables = {number: read_records(seed.table("dev").read_bytes()) for number, seed in folder.seeds()}
    dev = {number: join_gold(rows, dataset.splits["dev"], task) for number, rows in tables.items()}
    chosen = best_epoch(results)
    if chosen:
        results["notes"].append(f"dev: the scores are of the {chosen}, so they are too high; test has no such bias")
    if known := baselines.read(folder):
        right = [[not is_wrong(row) for row in rows] for rows in dev.values()]
        baselines.compare(known, () if chosen else right, dataset.dev_keys)
        results["baselines"] = known
    save_model(prepared, folder.model, folder.seed(best), finished[best], results)
    durable.commit_file(folder.dev, format_records(dev[best], "jsonl"))
    durable.commit_json(folder.results, results)
    return results


def with_all_scores(prepared: Finetuning, seed: SeedFolder) -> dict[str, Any]:
    """Returns the results of a seed; metrics that an older version lacked are computed now."""
    record = seed.record
    known = {"dev": record["eval"], **record["others"]}
    if all(name in scores for scores in known.values() for name in prepared.task.metrics):
        return record
    model = build_model(prepared, record["seed"])
    model.load_state_dict(load_file(seed.weights))
    for name, scores in known.items():
        new = evaluate(prepared, model, prepared.splits[name]).record()
        reasons = new["reasons"] | scores["reasons"]
        scores |= {**new, **scores, "reasons": reasons}
    return record


def scores_over_seeds(finished: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> dict[str, Any]:
    """Returns statistics of results.json: `eval_f1` (mean), `_sd`, `_median`, `_by_seed`, `_reason`."""
    statistics: dict[str, Any] = {}
    by_seed = [{"eval": seed["eval"], **seed["others"]} for seed in finished]
    for split, first in by_seed[0].items():
        for name in (name for name in ("loss", *metrics) if name in first):
            values, key = [scores[split].get(name) for scores in by_seed], f"{split}_{name}"
            of_seeds = summary(values)
            statistics |= {key: of_seeds["mean"], f"{key}_sd": of_seeds["sd"]}
            statistics |= {f"{key}_median": of_seeds["median"], f"{key}_by_seed": values}
            if of_seeds["mean"] is None:
                statistics[f"{key}_reason"] = first["reasons"].get(name) or "not defined for every seed"
    return statistics


def describe_results(results: Mapping[str, Any], metrics: Sequence[str]) -> Iterator[str]:
    """Yields a line with the dev score of each metric, and a comparison with the best baseline."""
    parts = []
    for metric in metrics:
        mean, count = results[f"eval_{metric}"], len(results["seeds"])
        if mean is None:
            parts.append(f"{metric} undefined ({results[f'eval_{metric}_reason']})")
        else:
            sd, median = results.get(f"eval_{metric}_sd"), results.get(f"eval_{metric}_median")
            spread = f" (sd {sd:.4f}, median {median:.4f})" if count > 1 else ""
            parts.append(f"{metric} {mean:.4f}{spread}")
    seeds_note = f", means of {len(results['seeds'])} seeds" if len(results["seeds"]) > 1 else ""
    chosen = best_epoch(results)
    yield f"dev{seeds_note}: {', '.join(parts)}" + (f" ({chosen})" if chosen else "")
    key = f"eval_{results['primary_metric']}"
    if best := best_baseline(results):
        scores = {name: scores[key] for name, scores in results["baselines"].items()}
        listed = ", ".join(f"{name} {value:.4f}" for name, value in scores.items() if value is not None)
        yield f"dev {results['primary_metric']} of the baselines: {listed}"
        is_beaten = results[key] is not None and results[key] > best[1]
        is_frozen = best[0] == baselines.FROZEN_ENCODER
        advice = when(is_frozen and not is_beaten, " --head frozen trains that model in seconds.")
        yield f"{verdict(results)}{advice}"
