"""All seeds of a fine-tuning: the output folder, the numbers over seeds, the saved model.

    OUT/  finetune.json      settings, what identifies the run, what it ran on
          log.txt
          seeds/seed-0/      results.json, dev.tsv and test.tsv (predictions), model.safetensors: whole or
          absent
          checkpoints/       of the seed in work
          model/             the chosen seed's model as a Hugging Face folder; where transformers has no class
          for its head, the encoder's,
                             with head.safetensors beside the encoder's weights
          ensemble/          predictions averaged over the seeds, where asked for
          all_results.json   the numbers, written last

Nothing is written before data, model and settings have been read and found good. A finished seed is never
done again.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from electra import durable, seeds
from electra.artifacts.session import refuse_differences, refuse_strangers
from electra.config import differences
from electra.errors import ConfigError, RunFolderError
from electra.finetuning.dataset import Dataset, choose_task, read_dataset
from electra.finetuning.features import Tokens
from electra.finetuning.heads import FineTuned, choose_pooling, exportable
from electra.finetuning.metrics import summary
from electra.finetuning.settings import (
    HARMLESS,
    HEAD,
    RECORD,
    Settings,
    default_layer_decay,
    default_learning_rate,
)
from electra.finetuning.trainer import (
    Evaluation,
    Job,
    Stopped,
    build_model,
    describe,
    evaluate,
    steps_of,
    train_seed,
)
from electra.interop.card import Card
from electra.interop.huggingface import digest, weights_of, write_model
from electra.interop.load import Loaded, load
from electra.model.precision import pick_device, pick_precision
from electra.model.sizes import EncoderConfig

RESULTS = "all_results.json"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Finished:
    """One seed's results."""

    seed: int
    folder: Path
    results: dict[str, Any]


def finetune(
    model: str, settings: Settings, say: Say, stop: Callable[[], bool] = lambda: False
) -> dict[str, Any] | None:
    """Fine-tune and evaluate each seed; the contents of all_results.json. None when asked to stop before the
    end.
    """
    task = choose_task(settings)
    dataset = read_dataset(settings, task)
    loaded = load(Path(model) / "model" if (Path(model) / RECORD).is_file() else model, "encoder")
    settings = resolve(settings, dataset, loaded.config)
    job, notes = prepare(settings, dataset, loaded, say, stop)
    refuse_strangers(
        settings.out, RECORD, "a fine-tuning"
    )  # before a lock is left in a folder of other things
    with durable.lock(settings.out):
        record = make_record(model, job, dataset, loaded)
        refuse_changes(settings.out, record)
        if not (settings.out / RECORD).exists():
            durable.commit_json(settings.out / RECORD, record)
        job = replace(job, say=logging_to(settings.out / "log.txt", say))
        for note in (describe_job(model, job), *notes):
            job.say(note)
        try:
            finished = [run_seed(job, seed) for seed in seeds_of(settings)]
        except Stopped:
            job.say("stopped; the same command continues from here")
            return None
        results = summarise(model, job, dataset, finished, notes)
        if settings.ensemble or (settings.out / "ensemble").exists():  # an earlier one is of fewer seeds
            results |= ensemble(job, finished)
        chosen = next(one for one in finished if one.seed == results["kept_seed"])
        save_model(job, loaded, chosen, results)
        durable.commit_json(settings.out / RESULTS, results)
        for name in job.task.metrics:
            job.say(headline(results, name))
        return results


def resolve(settings: Settings, dataset: Dataset, config: EncoderConfig) -> Settings:
    """The settings with nothing left open, by the task and the model's size."""
    if settings.max_length is not None and settings.max_length > config.max_positions:
        fix = f"Use at most {config.max_positions}"
        raise ConfigError(
            f"{settings.max_length} tokens are more than the model's positions", where="--max-length", fix=fix
        )
    return replace(
        settings,
        epochs=settings.epochs or dataset.task.epochs,
        learning_rate=settings.learning_rate or default_learning_rate(config.hidden_size),
        layer_decay=settings.layer_decay or default_layer_decay(config.hidden_size),
        pooling=choose_pooling(settings.pooling, dataset.task.head, settings.head, config.architecture),
        max_length=settings.max_length or min(dataset.task.max_length, config.max_positions),
    )


def prepare(
    settings: Settings, dataset: Dataset, loaded: Loaded, say: Say, stop: Callable[[], bool]
) -> tuple[Job, list[str]]:
    """Tokenise once for all seeds. Also returns what was done to the data, to be told."""
    assert settings.max_length is not None
    tokens, task, notes = Tokens(loaded.tokenizer), dataset.task, list(dataset.notes)
    windows = {}
    for split, examples in {"train": dataset.train, "dev": dataset.dev, **dataset.others}.items():
        windows[split] = task.featurize(examples, tokens, settings.max_length, train=split == "train")
        if cut := windows[split].truncated:
            notes.append(
                f"{split}: {cut} of {len(examples)} examples are longer than {settings.max_length} tokens and"
                " were cut"
            )
        notes += [f"{split}: {note}" for note in windows[split].notes]
    device = pick_device(settings.device)
    job = Job(
        settings=settings,
        task=task,
        config=loaded.config,
        encoder_weights=loaded.encoder.state_dict(),
        pad=tokens.pad,
        train=windows["train"],
        dev=windows["dev"],
        dev_examples=dataset.dev,
        others={split: (windows[split], examples) for split, examples in dataset.others.items()},
        device=device,
        precision=pick_precision(settings.precision, device),
        say=say,
        stop=stop,
    )
    return job, notes


def make_record(model: str, job: Job, dataset: Dataset, loaded: Loaded) -> dict[str, Any]:
    """What finetune.json holds: `settings` and `identity` must agree when a run is continued."""
    settings = {
        name: value
        for name, value in asdict(job.settings).items()
        if name not in HARMLESS and name not in ("task", "precision")
    }
    identity = {
        "task": f"{job.task.name} version {job.task.version}",
        "labels": list(job.task.label_names),
        "weights": (
            digest(weights_of(loaded.encoder, None))
            if job.settings.init == "pretrained"
            else str(loaded.config)
        ),
        "tokenizer": loaded.tokenizer.digest,
        "data": dataset.files,
        "precision": job.precision,
        "seed_scheme": seeds.SCHEME,
    }
    return {
        "model": model,
        "task": job.task.name,
        "settings": settings,
        "identity": identity,
        "environment": environment(job),
    }


def environment(job: Job) -> dict[str, Any]:
    versions = {
        name: importlib.metadata.version(name) for name in ("electra", "torch", "numpy", "tokenizers")
    }
    return {
        **versions,
        "platform": platform.platform(),
        "device": str(job.device),
        "threads": torch.get_num_threads(),
    }


def refuse_changes(out: Path, record: dict[str, Any]) -> None:
    """A folder goes on with the settings, data and model it began with, or not at all."""
    path = out / RECORD
    if not path.exists():
        return
    old, new = durable.read_json(path, RunFolderError), json.loads(json.dumps(record))
    changed = [
        entry for part in ("settings", "identity") for entry in differences(old.get(part, {}), new[part])
    ]
    refuse_differences(out, "fine-tuning", changed)


def logging_to(path: Path, say: Say) -> Say:
    """Say a line, and keep it in the log."""

    def both(line: str) -> None:
        with durable.explain_disk_errors(path), open(path, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
        say(line)

    return both


def describe_job(model: str, job: Job) -> str:
    settings = job.settings
    start = model if settings.init == "pretrained" else f"fresh weights in the shape of {model}"
    _, total = steps_of(job)
    others = "".join(f", {len(examples)} {split}" for split, (_, examples) in job.others.items())
    return (
        f"{job.task.name}: {len(job.train)} training inputs, {len(job.dev_examples)} dev{others}; {start};"
        f" {total} steps of {settings.batch_size}, learning rate {settings.learning_rate:g}, layer decay"
        f" {settings.layer_decay:g}; {job.device}, {job.precision}, {torch.get_num_threads()} threads"
    )


def seeds_of(settings: Settings) -> list[int]:
    """Those asked for, and those that an earlier command has finished here: none is left out of
    the summary.
    """
    earlier = [
        int(path.name.removeprefix("seed-"))
        for path in (settings.out / "seeds").glob("seed-*")
        if path.name[5:].isdecimal()
    ]
    return sorted({*range(settings.seed, settings.seed + settings.seeds), *earlier})


def run_seed(job: Job, seed: int) -> Finished:
    """One seed from wherever it stands: finished, interrupted or not begun."""
    out = job.settings.out
    folder = out / "seeds" / f"seed-{seed}"
    durable.sweep(folder.parent)
    if folder.exists() and (problem := durable.verify_directory(folder)) is None:
        return Finished(seed, folder, durable.read_json(folder / "results.json", RunFolderError))
    if folder.exists():
        job.say(f"{folder} is damaged ({problem}): doing seed {seed} again")
    checkpoints = out / "checkpoints" / f"seed-{seed}"
    model, progress = train_seed(job, seed, checkpoints)
    dev = evaluate(job, model, job.dev, job.dev_examples)
    others = {split: evaluate(job, model, *found) for split, found in job.others.items()}
    for split, evaluation in {"dev": dev, **others}.items():
        if evaluation.scores:
            job.say(f"seed {seed}  {split}: {describe(evaluation.scores)}")
    results = {
        "seed": seed,
        "steps": progress.step,
        "seconds": round(progress.seconds, 3),
        "train_loss": progress.losses[-1][1],
        "losses": progress.losses,
        "epochs": progress.epochs,
        "eval": _scores(dev),
        "others": {split: _scores(evaluation) for split, evaluation in others.items() if evaluation.scores},
    }
    files: dict[str, durable.Content] = {
        "results.json": durable.to_json(results),
        **job.task.files("dev", dev.predictions, job.dev_examples),
        "model.safetensors": save(
            {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
        ),
    }
    for split, evaluation in others.items():
        files |= job.task.files(split, evaluation.predictions, job.others[split][1])
    durable.commit_directory(folder, files)
    if checkpoints.exists():
        durable.remove_directory(checkpoints)
    return Finished(seed, folder, results)


def _scores(evaluation: Evaluation) -> dict[str, Any]:
    values = {name: score.value for name, score in evaluation.scores.items()}
    reasons = {name: score.reason for name, score in evaluation.scores.items() if score.value is None}
    return {"loss": evaluation.loss, **values, "reasons": reasons}


def summarise(
    model: str, job: Job, dataset: Dataset, finished: Sequence[Finished], notes: Sequence[str]
) -> dict[str, Any]:
    """The contents of all_results.json."""
    primary = job.task.metrics[0]
    results: dict[str, Any] = {
        "task": job.task.name,
        "task_version": job.task.version,
        "model": model,
        "init": job.settings.init,
    }
    scored = [{"eval": one.results["eval"], **one.results["others"]} for one in finished]
    for split, first in scored[0].items():
        for name in (name for name in ("loss", *job.task.metrics) if name in first):
            results |= _over_seeds(
                f"{split}_{name}", [one[split].get(name) for one in scored], first["reasons"].get(name, "")
            )
    results |= {
        "train_loss": summary([one.results["train_loss"] for one in finished])["mean"],
        "train_samples": len(dataset.train),
        "eval_samples": len(dataset.dev),
        **{f"{split}_samples": len(examples) for split, examples in dataset.others.items()},
        "steps": finished[0].results["steps"],
        "seconds": round(sum(one.results["seconds"] for one in finished), 3),
        "seeds": [one.seed for one in finished],
        "primary_metric": primary,
        "kept_seed": choose(finished, primary, job.settings.keep).seed,
        "notes": list(notes),
        **{
            f"{name}_version": value
            for name, value in environment(job).items()
            if name in ("electra", "torch")
        },
        **{
            name: getattr(job.settings, name)
            for name in (
                "epochs",
                "batch_size",
                "learning_rate",
                "layer_decay",
                "max_length",
                "head",
                "pooling",
            )
        },
        "precision": job.precision,
    }
    return results


def ensemble(job: Job, finished: Sequence[Finished]) -> dict[str, Any]:
    """OUT/ensemble: the predictions of all seeds as one. Returns its scores."""
    splits = {"dev": (job.dev, job.dev_examples), **job.others}
    found: dict[str, list[list[Any]]] = {split: [] for split in splits}
    for one in finished:
        model = build_model(job, one.seed)
        model.load_state_dict(load_file(one.folder / "model.safetensors"))
        for split, (windows, examples) in splits.items():
            found[split].append(evaluate(job, model, windows, examples).predictions)
    results: dict[str, Any] = {}
    files: dict[str, durable.Content] = {}
    for split, (windows, examples) in splits.items():
        predictions = job.task.average(found[split])
        files |= job.task.files(split, predictions, examples)
        if windows.targets is not None:
            scores = job.task.score(predictions, examples)
            results |= {
                f"ensemble_{'eval' if split == 'dev' else split}_{name}": score.value
                for name, score in scores.items()
            }
            job.say(f"ensemble of {len(finished)} seeds  {split}: {describe(scores)}")
    durable.commit_directory(job.settings.out / "ensemble", files)
    return results


def headline(results: dict[str, Any], name: str) -> str:
    number = results[f"eval_{name}"]
    if number is None:
        return f"dev {name}: not defined ({results[f'eval_{name}_reason']})"
    if len(results["seeds"]) == 1:
        return f"dev {name}: {number:.4f}"
    sd, median = results[f"eval_{name}_sd"], results[f"eval_{name}_median"]
    return (
        f"dev {name}: {number:.4f}, the mean of {len(results['seeds'])} seeds; sd {sd:.4f}, median"
        f" {median:.4f}"
    )


def _over_seeds(name: str, values: Sequence[float | None], reason: str) -> dict[str, Any]:
    """Flat keys, as scripts around transformers read them: the plain name is the mean."""
    numbers = summary(values)
    flat: dict[str, Any] = {
        name: numbers["mean"],
        f"{name}_sd": numbers["sd"],
        f"{name}_median": numbers["median"],
    }
    flat[f"{name}_by_seed"] = list(values)
    return (
        flat
        if numbers["mean"] is not None
        else flat | {f"{name}_reason": reason or "not defined for every seed"}
    )


def choose(finished: Sequence[Finished], primary: str, keep: str) -> Finished:
    """The best seed by the primary metric, or the one in the middle (of an even number: the lower). Undefined
    counts as lowest.
    """
    ranked = sorted(
        finished,
        key=lambda one: (
            one.results["eval"][primary] is not None,
            one.results["eval"][primary] or 0.0,
            -one.seed,
        ),
    )
    return ranked[-1] if keep == "best" else ranked[(len(ranked) - 1) // 2]


def save_model(job: Job, loaded: Loaded, chosen: Finished, results: dict[str, Any]) -> None:
    """OUT/model: the chosen seed as a folder that transformers loads. A head that it has no class for is a
    further file there.
    """
    settings, name = job.settings, job.task.name
    whole = exportable(job.task.head, settings.head, job.config.architecture)
    model = build_model(job, chosen.seed)
    model.load_state_dict(load_file(chosen.folder / "model.safetensors"))
    finish_head(model, job)
    count = len(results["seeds"])
    card = Card(
        name=f"{Path(results['model']).name}-{name}",
        kind=job.task.head if whole else "encoder",
        training={
            "task": name,
            "examples": results["train_samples"],
            "epochs": settings.epochs,
            "seed": chosen.seed,
        },
        metrics={
            metric: value
            for metric in job.task.metrics
            if (value := chosen.results["eval"][metric]) is not None
        },
        measured_on=(
            f"the dev set of {name} ({results['eval_samples']} examples; the {settings.keep} of {count}"
            f" seed{'s'[: count > 1]})"
        ),
    )
    head = {name: value.detach().cpu().contiguous() for name, value in model.head.state_dict().items()}
    write_model(
        settings.out / "model",
        model.encoder,
        model.head if whole else None,
        kind=card.kind,
        labels=job.task.label_names,
        tokenizer=loaded.tokenizer,
        card=card,
        values=config_values(job, chosen.results["eval"]),
        further={} if whole else {HEAD: save(head)},
    )
    if not whole:
        job.say(
            f"transformers has no class with a {settings.head} head: it loads model/ as an encoder; electra"
            f" predict also reads {HEAD} there"
        )


def config_values(job: Job, scores: Mapping[str, Any]) -> dict[str, Any]:
    """What config.json holds beyond the encoder's shape and the labels. `scores`: the saved
    model's, on dev.
    """
    pooled = job.config.architecture == "modern" and job.task.head == "classifier"
    return job.task.config_values(scores) | ({"classifier_pooling": job.settings.pooling} if pooled else {})


@torch.no_grad()
def finish_head(model: FineTuned, job: Job) -> None:
    """Put the scale of a regression's numbers into the last layer, so that the saved model answers in the
    data's unit.
    """
    factor, offset = job.task.output_scale()
    model.head.output.weight.mul_(factor)
    model.head.output.bias.mul_(factor).add_(offset)
