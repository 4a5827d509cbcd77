"""The page of a fine-tuning: the verdict, scores over seeds, labels on dev, loss curves and settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from electra.artifacts.finetuning_files import FinetuningFolder, best_baseline, best_epoch, verdict
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.foundation.terminal_text import when
from electra.pages.figures import Figure, Series
from electra.pages.metric_titles import clip_interval
from electra.pages.page import Number, Page, PageTable, Section, publish

BY_SEED = "_by_seed"  # the suffix of keys whose values are one score per seed
Record = Mapping[str, Any]


def write_page(path: Path) -> Path:
    """Writes the page of a fine-tuning, finished or not, and returns its path; RunFolderError if damaged."""
    folder = FinetuningFolder.open(path)
    record, environment = folder.record, folder.record.get("environment", {})
    results = folder.read_results() if folder.results.is_file() else {}
    settings = {"labels": record.get("identity", {}).get("labels"), **record.get("settings", {})}
    tables = [PageTable.pairs("Settings", settings), PageTable.pairs("Environment", environment)]
    lines = []
    for number, seed in folder.seeds():
        of_seed = durable.read_object(seed.results, RunFolderError, fix="Rerun electra finetune")
        losses = of_seed.get("losses", ())
        lines.append(Series(f"seed {number}", [step for step, _ in losses], [loss for _, loss in losses]))
    lead = "Mean since the previous point."
    figure = Figure("loss", "Training loss", lead, lines, x="step", y="training loss")
    source = record.get("model", "a model")
    if settings.get("init") == "random":
        source = f"random initialization in the shape of {source}"
    summary = f"Fine-tuned from {source}. Not finished: rerun the command to resume."
    if results:
        summary = f"{verdict(results)} Fine-tuned from {source}.".strip()
    page = Page(
        f"{record.get('task', 'fine-tuning')}: {folder.path.resolve().name}",
        summary,
        [
            Section("Scores", tables=[_scores(results) if results else None]),
            labels_section(folder.read_dev(), results.get("labels", {})) if results else None,
            Section("Training", figures=[figure], tables=tables),
        ],
        kicker="electra finetune",
        facts=_facts(results) if results else (),
        notes=list(map(str, results.get("notes", ()))),
        commands=folder.commands,
    )
    return publish(page, folder.page)


def _facts(results: Record) -> list[tuple[object, ...]]:
    name, count = str(results.get("primary_metric")), len(results.get("seeds", ()))
    sd, best = results.get(f"eval_{name}_sd"), best_baseline(results)
    spread = f"mean of {count} seeds, sd {sd:.3f}" if sd is not None else "one seed"
    if chosen := best_epoch(results):
        spread += f", {chosen}"
    return [
        (f"dev {name.replace('_', ' ')}", Number(results.get(f"eval_{name}")), spread),
        *([(best[0], Number(best[1]), "best baseline")] if best else []),
        ("trained on", Number(results.get("train_samples"), ""), "examples"),
        ("scored on", Number(results.get("eval_samples"), ""), "examples"),
        ("time", Number(results.get("seconds"), "time"), "in training"),
    ]


def _scores(results: Record) -> PageTable:
    baselines, rows = results.get("baselines", {}), []
    for key, values in results.items():
        name = key.removesuffix(BY_SEED)
        split, _, metric = name.partition("_")
        if name == key or (metric == "loss" and all(value is None for value in values)):
            continue  # no held-out loss: the task's loss compares the rows of a training batch
        low, high = clip_interval(metric, *interval(values))
        by_seed = ", ".join("undefined" if value is None else f"{value:.4f}" for value in values)
        about = ("dev" if split == "eval" else split, metric.replace("_", " "))
        score = Number(results.get(name), ".3f", low, high)
        rows.append((*about, score, *(Number(other.get(name)) for other in baselines.values()), by_seed))
    caption = when(results.get("seeds", ())[1:], "With 95 % intervals of the mean over seeds")
    return PageTable(("split", "metric", "mean", *baselines, "each seed"), rows, caption)


def interval(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Returns the 95 % interval of the mean over seeds (Student's t); (None, None) if it is undefined."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(known) < len(values):
        return None, None
    from scipy.stats import t

    half_width = float(t.ppf(0.975, len(known) - 1)) * stdev(known) / len(known) ** 0.5
    return mean(known) - half_width, mean(known) + half_width


def labels_section(records: Sequence[Record], labels: Mapping[str, Record]) -> Section | None:
    """Returns the section on the saved model's predictions of labels on dev: None without gold labels.

    `labels` holds, by split and label, the number of examples.
    """
    rows = [record for record in records if record.get("gold") is not None]
    if not rows or not all(isinstance(record["gold"], str) for record in rows):
        return None
    train = labels.get("train", {})
    gold = Counter(record["gold"] for record in rows)
    predicted = Counter(record["predicted"] for record in rows)
    right = Counter(record["gold"] for record in rows if record["gold"] == record["predicted"])
    names = [*train, *sorted({*gold, *predicted} - {*train})]
    table = []
    for name in names:
        counts = train.get(name, 0), gold[name], predicted[name]
        of = predicted[name], gold[name], (predicted[name] + gold[name]) / 2
        shares = [Number(right[name] / total if total else None) for total in of]
        table.append((name, *(Number(count, "") for count in counts), *shares))
    columns = ("label", "in train", "in dev", "predicted", "precision", "recall", "F1")
    wrong = len(rows) - right.total()
    lead = f"{wrong} of {len(rows)} predictions on dev are wrong; mistakes() in Python returns them."
    return Section("Labels", lead, tables=[PageTable(columns, table)])
