"""Writes the report of a pre-training run: the result first, then curves, metrics, examples and the recipe.

Every number comes from the run's files. What they do not contain becomes a sentence, so that a run in
progress has a report, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.ledger import Event
from electra.artifacts.run import RunFolder
from electra.pages.compare import comparison
from electra.pages.glossary import AUDIT, METRICS, PLOTTED, Metric, humanize
from electra.pages.measures import Measure, Plot, plot_figures
from electra.pages.page import (
    Block,
    Columns,
    Examples,
    Facts,
    Figures,
    Fold,
    Number,
    Page,
    Section,
    Table,
    Text,
    publish,
    verbatim,
)
from electra.pages.read import RunRecord, read_run

_LOSS_TITLES = {"mlm": "Generator loss", "rtd": "Discriminator loss"}
_STATES = {
    "finished": "Finished",
    "stopped": "Stopped early",
    "in progress": "In progress, or its process was killed",
}
_REFERENCE_LINES: Mapping[str, tuple[str, str | float]] = {  # metric -> label and level of its reference line
    "discriminator_loss": ("base rate", "base_rate_entropy"),
    "gain": ("base rate", 0.0),
    "auc": ("chance", 0.5),
    "average_precision": ("chance (base rate)", "base_rate"),
}
_MIN_GAIN, _MIN_AUC = 0.005, 0.55  # in nats per token; below both, a discriminator has learned nothing
_PRIMARY = ("auc", "mlm_accuracy", "generator_accuracy")  # the first that exists is shown in large type


def write_report(run: Path, out: Path | None = None, compare: Sequence[Path] = (), reload: int = 0) -> Path:
    """Writes the report of a run (RUN/report.html, or `out`) and its figures; returns the page's path.

    A browser reloads the page every `reload` seconds (0: never). Raises RunFolderError if `run` or one of
    `compare` is not a run folder.
    """
    run, out = Path(run), Path(out) if out else RunFolder(Path(run)).page
    others = dict.fromkeys(other for other in map(Path, compare) if other.resolve() != run.resolve())
    page = run_page(read_run(run), [read_run(other) for other in others], reload)
    # For a run in a read-only folder, only the report is written, to `out`.
    return publish(page, out, run if os.access(run, os.W_OK) else None)


def run_page(run: RunRecord, others: Sequence[RunRecord] = (), reload: int = 0) -> Page:
    """Returns the page of a run, compared with others."""
    examples = Section(
        "Worked examples",
        [Examples(run.examples) if run.examples else quiet_text("The run has no worked examples yet.")],
        "Held-out sentences: some tokens were masked and filled in by the generator, and the discriminator"
        " scored every token.",
    )
    alarms = [event for event in run.ledger.events if event.name == "collapse"]
    return Page(
        run.name,
        [
            Section("The run in numbers", _numbers(run)),
            comparison([run, *others]) if others else None,
            _held_out_curves(run),
            _metrics(run),
            examples,
            _training_curves(run),
            _audit(run),
            _events(run),
            _recipe(run),
        ],
        kicker=f"electra \u00b7 pre-training run \u00b7 {_STATES[run.status].lower()}",
        summary=verdict(run),
        opening=[
            *(
                Text(f"Step {event.step:,}: {event.message or 'collapse alarm'}", "warning")
                for event in alarms[-1:]
            ),
            *map(quiet_text, run.notes),
        ],
        reload=reload,
    )


def quiet_text(text: str) -> Text:
    """Returns a paragraph in quiet type."""
    return Text(text, "quiet")


def verdict(run: RunRecord) -> str:
    """Returns the result of the last held-out evaluation in plain words."""
    final = run.final
    if final is None:
        return (
            "No held-out evaluation yet: only the training curves are available."
            if run.ledger.train
            else "The run has logged nothing yet."
        )
    metrics = final.values
    gain, auc = metrics.get("gain"), metrics.get("auc")
    if gain is not None and auc is not None:
        ranks = f"scores a replaced word above an original one {times(auc)} (chance: 50)"
        better = "better" if gain >= 0 else "worse"
        against = f"its probabilities are {abs(gain):.3f} nats per token {better} than the base rate"
        if max(gain / _MIN_GAIN, auc / _MIN_AUC) < 1:
            cannot = "cannot tell replaced words from original ones"
            return f"The discriminator {cannot}: it {ranks}, and {against}."
        return f"The discriminator {ranks}; {against}."
    loss, accuracy = (
        metrics.get(f"mlm_{name}", metrics.get(f"generator_{name}")) for name in ("loss", "accuracy")
    )
    if "gain" in metrics or "auc" in metrics:
        return "The held-out metrics of the discriminator are undefined, as happens if no token was replaced."
    if loss is not None and accuracy is not None:
        return (
            f"The model predicts {accuracy:.1%} of the masked tokens in held-out text; its loss is {loss:.2f}"
            " nats per masked token."
        )
    return "The last held-out evaluation has none of the usual metrics; all are listed below."


def times(share: float) -> str:
    """Returns a probability as a frequency: "85 times in 100". Only exactly 1 becomes "100 times in 100"."""
    rounded = round(100 * share)
    if rounded == 100 > 100 * share:
        return "more than 99 times in 100"
    return f"{rounded} times in 100"


def _numbers(run: RunRecord) -> list[Block]:
    metrics = run.final.values if run.final else {}
    results = {
        key: (METRICS[key].title, Number(metrics[key], "score"), _remark(key, metrics))
        for key in (
            "auc",
            "gain",
            "average_precision",
            "mlm_accuracy",
            "generator_loss",
            "generator_accuracy",
        )
        if key in metrics
    }
    primary = next((key for key in _PRIMARY if key in results), None)
    large = [results.pop(primary)] if primary else []
    last = run.last
    shape, shape_note = RunFolder.describe_shape(run.recipe)
    facts: list[tuple[str, Number | str | None, str]] = [
        ("Status", _STATES[run.status], ""),
        ("Recipe", run.setting("environment.recipe", "identity.recipe"), ""),
        ("Objective", run.objective, ""),
        ("Model", shape or None, shape_note),
        ("Steps", Number(last.step if last else None), f"of {run.total_steps:,}" if run.total_steps else ""),
        ("Tokens seen", Number(last.tokens if last else None, "large"), ""),
        ("Training FLOPs", Number(last.flops if last else None, "power"), ""),
        ("Training time", Number(last.seconds if last else None, "seconds"), "in updates"),
        ("Tokens per second", Number(run.tokens_per_s, "large"), "median"),
    ]
    known = [fact for fact in facts if getattr(fact[1], "value", fact[1]) is not None]
    return [*([Facts(large, large=True)] if large else []), Facts([*results.values(), *known])]


def _remark(key: str, metrics: Mapping[str, float | None]) -> str:
    baseline = METRICS[key].baseline(metrics)
    return "" if baseline is None else f"{'chance' if key == 'auc' else 'base rate'}: {baseline:.3g}"


def _held_out_curves(run: RunRecord) -> Section:
    lead = "Measured on text that is never trained on, always with the same masks."
    return Section("Held-out curves", [_plots(run, _held_out_plots(run))], lead + _about_marks(run))


def _training_curves(run: RunRecord) -> Section:
    lead = "Faint: every logged step. Strong: the mean around it."
    rates = [run.setting(f"{section}.mask_fraction") for section in ("objective", "evaluation")]
    if all(rates) and rates[0] != rates[1]:
        lead += (
            f" Training masks {rates[0]} of the tokens, evaluation {rates[1]}: the losses differ in scale."
        )
    plots = _plots(run, _training_plots(run))
    return Section(
        "Training curves", [Fold("Losses, gradient norm, speed", [plots])], lead + _about_marks(run)
    )


def _marks(run: RunRecord) -> list[Event]:
    return [event for event in run.ledger.events if event.name in ("resumed", "collapse")]


def _about_marks(run: RunRecord) -> str:
    return " Vertical lines: the run was resumed, or the collapse alarm went off (see Events)." * bool(
        _marks(run)
    )


def _plots(run: RunRecord, plots: Sequence[Plot]) -> Figures:
    empty = "There is nothing to draw yet."
    return plot_figures(
        plots, ("tokens", "step", "flops"), _marks(run), [*run.ledger.train, *run.ledger.evals], empty
    )


def _held_out_plots(run: RunRecord) -> list[Plot]:
    plots = []
    for key in PLOTTED:
        measures = [Measure(run, "eval", key, "held out", color=1)]
        if key in _REFERENCE_LINES:
            label, level = _REFERENCE_LINES[key]
            level_arguments: dict[str, Any] = (
                {"key": level} if isinstance(level, str) else {"key": key, "level": level}
            )
            measures.append(Measure(run, "eval", label=label, style="reference", **level_arguments))
        plots.append(Plot(key, METRICS[key].title, METRICS[key].meaning, measures))
    return plots


def _training_plots(run: RunRecord) -> list[Plot]:
    losses = {
        f"losses.{name}": (
            f"{_LOSS_TITLES.get(name, name)} in training",
            "In nats per token on which it is measured.",
        )
        for name in sorted(run.loss_names, key=lambda name: name != "rtd")
    }
    shown = {
        **losses,
        "loss": ("Total loss", "The weighted sum of the losses, which the optimizer minimises."),
        "gradient_norm": ("Gradient norm", "Before clipping. Growing spikes are a warning sign."),
        "learning_rate": ("Learning rate", "The schedule as it was applied."),
        "tokens_per_s": (
            "Throughput",
            "Tokens per second during updates. Dips mean that the machine was busy.",
        ),
    }
    return [
        Plot(
            key,
            title,
            note,
            [Measure(run, "train", key, title.lower(), color=0, smoothed=key != "learning_rate")],
        )
        for key, (title, note) in shown.items()
    ]


def _metrics(run: RunRecord) -> Section:
    if run.final is None:
        return Section(
            "Held-out metrics", [quiet_text("The run has not been evaluated on held-out text yet.")]
        )
    values = run.final.values
    names = [*(key for key in METRICS if key in values), *(key for key in values if key not in METRICS)]
    rows = []
    for key in names:
        metric = METRICS.get(key, Metric(humanize(key), ""))
        baseline = Number(metric.baseline(values), "score")
        rows.append((metric.title, Number(values[key], "score"), baseline, metric.meaning))
    lead = f"The last evaluation, at step {run.final.step:,}, on documents that were never trained on."
    columns = ("Metric", "Value", "Base rate only", "Meaning")
    return Section("Held-out metrics", [Table(columns, rows, noted=True)], lead)


def _audit(run: RunRecord) -> Section:
    lead = "What happened to the corpus. Everything that was dropped is counted here."
    if not run.audit:
        return Section("Data audit", [quiet_text("No audit in the run folder.")])
    counts: list[tuple[object, ...]] = []
    tables: list[Block] = []
    for key in [*(key for key in AUDIT if key in run.audit), *(key for key in run.audit if key not in AUDIT)]:
        value, (title, meaning) = run.audit[key], AUDIT.get(key, (humanize(key), ""))
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            columns = list(dict.fromkeys(str(name) for item in value for name in item))
            rows = [[_counted(name, item.get(name)) for name in columns] for item in value]
            tables.append(Table([humanize(name) for name in columns], rows, title))
        elif isinstance(value, Mapping):
            counts += [
                (f"{title}, {inner}", _counted("share" if key == "padding" else inner, entry), meaning)
                for inner, entry in value.items()
            ]
        else:
            counts.append((title, _counted(key, value), meaning))
    blocks = [Table(("", "Count", "Meaning"), counts, noted=True), *tables]
    return Section("Data audit", [Fold("Documents, words and tokens", blocks)], lead)


def _recipe(run: RunRecord) -> Section:
    lead = "The contents of run.toml: every setting, the shapes of the networks, and the environment."
    if not run.recipe:
        return Section("Recipe and environment", [quiet_text("The recipe of this run is not known.")])
    values = {**run.recipe, "environment": run.environment, "identity": run.identity}
    sections = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    top_level = {key: value for key, value in values.items() if key not in sections}
    tables = [Table.pairs(table, title) for title, table in {"": top_level, **sections}.items() if table]
    return Section("Recipe and environment", [Fold("All settings", [Columns(tables)])], lead)


def _events(run: RunRecord) -> Section:
    saved = [event for event in run.ledger.events if event.name == "checkpoint"]
    rows = [
        (Number(each.step), each.name, each.message)
        for each in run.ledger.events
        if each.name != "checkpoint"
    ]
    blocks: list[Block] = [
        Table(("Step", "Event", "Details"), rows) if rows else quiet_text("The run recorded no events.")
    ]
    if saved:
        plural, last_step = "s" * (len(saved) > 1), saved[-1].step
        blocks.append(quiet_text(f"{len(saved)} checkpoint{plural} written, the last at step {last_step:,}."))
    return Section("Events", blocks)


def _counted(key: str, value: Any) -> object:
    """Returns a value of the audit: counts in full, rates as percentages."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(value, "percent" if key.endswith(("rate", "share", "fraction")) else "plain")
    return None if value is None else verbatim(value)
