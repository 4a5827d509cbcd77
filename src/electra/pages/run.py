"""The report of a pre-training run: what was done, what came of it, and how to read it, on one page.

Every number is taken from the run's own files; what they do not hold is said in a sentence, so a run in
progress reports too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.ledger import Axis
from electra.artifacts.run import RunFolder
from electra.pages.compare import comparison
from electra.pages.glossary import AUDIT, METRICS, Metric, humanize
from electra.pages.measures import Measure, Plot, views
from electra.pages.page import (
    Block,
    Columns,
    Examples,
    Facts,
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
    "in progress": "In progress, or ended without a word",
}
# Gain (nats per token) and AUC below which a discriminator is at the base rate.
_KNOWS_SOMETHING, _RANKS_SOMETHING = 0.005, 0.55


def write_report(run: Path, out: Path | None = None, compare: Sequence[Path] = (), reload: int = 0) -> Path:
    """Write the report of `run` (its report.html, or `out`) and its figures (RUN/figures/*.svg); return the
    page's path.

    reload: seconds after which a browser reads the page again (0: never).
    """
    run, out = Path(run), Path(out) if out else RunFolder(Path(run)).page
    others = dict.fromkeys(other for other in map(Path, compare) if other.resolve() != run.resolve())
    page = run_page(read_run(run), [read_run(other) for other in others], reload)
    # Somebody else's run can be reported elsewhere without being written to.
    return publish(page, out, run if os.access(run, os.W_OK) else None)


def run_page(run: RunRecord, others: Sequence[RunRecord] = (), reload: int = 0) -> Page:
    examples = Section(
        "Worked examples",
        [Examples(run.examples) if run.examples else quiet("The run has written no worked examples yet.")],
        "Masked, filled in by the generator, and judged token by token by the discriminator.",
    )
    alarms = [event for event in run.events if event.name == "collapse"]
    return Page(
        run.name,
        [
            examples if run.examples else None,  # what the headline means, before any number
            comparison([run, *others]) if others else None,
            Section("The run in numbers", _numbers(run)),
            _metrics(run),
            *_curves(run),
            None if run.examples else examples,
            _audit(run),
            _events(run),
            _recipe(run),
        ],
        kicker=f"electra \u00b7 pre-training run \u00b7 {_STATES[run.status].lower()}",
        summary=verdict(run),
        opening=[
            *(
                Text(f"Step {one.step:,}: {one.message or 'collapse alarm'}", "warning")
                for one in alarms[-1:]
            ),
            *map(quiet, run.notes),
        ],
        reload=reload,
    )


def quiet(text: str) -> Text:
    return Text(text, "quiet")


def verdict(run: RunRecord) -> str:
    """What came of the run, in plain words, from its last held-out evaluation."""
    final = run.final
    if final is None:
        return (
            "No held-out evaluation yet: the training curves are all there is to judge by."
            if run.train
            else "The run has logged nothing yet."
        )
    metrics = final.values
    gain, auc = metrics.get("gain"), metrics.get("auc")
    if gain is not None and auc is not None:
        if max(gain / _KNOWS_SOMETHING, auc / _RANKS_SOMETHING) < 1:
            return (
                "It cannot tell replaced words from original ones: it ranks the replaced one higher"
                f" {times(auc)}, and chance does so 50 times. Gain over the base rate: {gain:z.3f} nats per"
                " token."
            )
        ranks = f"It ranks a replaced word above an original one {times(auc)}, where chance does so 50 times"
        if gain >= _KNOWS_SOMETHING:
            return f"{ranks}. Its probabilities beat the base rate by {gain:z.3f} nats per token."
        return f"{ranks}; but its probabilities gain only {gain:z.3f} nats per token over the base rate."
    loss, accuracy = (
        metrics.get(f"mlm_{what}", metrics.get(f"generator_{what}")) for what in ("loss", "accuracy")
    )
    if "gain" in metrics or "auc" in metrics:
        return (
            "The discriminator cannot be judged: its held-out metrics are undefined, as when no token was"
            " replaced."
        )
    if loss is not None and accuracy is not None:
        return (
            f"The model guesses {accuracy:.1%} of the masked tokens of held-out text, at a loss of {loss:.2f}"
            " nats per masked token."
        )
    return (
        "The last held-out evaluation holds none of the metrics this report knows; they are listed below as"
        " they are."
    )


def times(share: float) -> str:
    """A share as people count: "85 times in 100". What is not always is never rounded to always."""
    whole = round(100 * share)
    if whole == 100 > 100 * share:
        return "more than 99 times in 100"
    return f"{whole} times in 100"


def _numbers(run: RunRecord) -> list[Block]:
    metrics = run.final.values if run.final else {}
    results = [
        (METRICS[key].title, Number(metrics[key], "score"), _remark(key, metrics))
        for key in ("gain", "auc", "average_precision", "generator_loss", "generator_accuracy")
        if key in metrics
    ]
    last = run.last
    shape, named = RunFolder.shape(run.recipe)
    facts: list[tuple[str, Number | str | None, str]] = [
        ("Status", _STATES[run.status], ""),
        ("Recipe", run.setting("environment.recipe", "identity.recipe"), ""),
        ("Objective", run.objective, ""),
        ("Model", shape or None, named),
        ("Steps", Number(last.step if last else None), f"of {run.total_steps:,}" if run.total_steps else ""),
        ("Tokens seen", Number(last.tokens if last else None, "large"), ""),
        ("Training FLOPs", Number(last.flops if last else None, "power"), ""),
        ("Wall time", Number(last.seconds if last else None, "seconds"), "spent in updates"),
        ("Tokens per second", Number(run.tokens_per_s, "large"), "median"),
    ]
    known = [fact for fact in facts if getattr(fact[1], "value", fact[1]) is not None]
    return [*([Facts(results, large=True)] if results else []), Facts(known)]


def _remark(key: str, metrics: Mapping[str, float | None]) -> str:
    ignorant = METRICS[key].ignorant(metrics)
    return "" if ignorant is None else f"{'chance' if key == 'auc' else 'base rate alone'}: {ignorant:.3g}"


def _curves(run: RunRecord) -> list[Section]:
    learned = "On text that is never trained on, at the same mask rate and with the same masks throughout."
    process = "Faint: every logged step. Strong: the mean around it."
    rates = [run.setting(f"{section}.mask_fraction") for section in ("objective", "evaluation")]
    if all(rates) and rates[0] != rates[1]:
        process += (
            f" The run masks {rates[0]} of the tokens and is evaluated at {rates[1]}: the two losses are not"
            " on one scale."
        )
    marks = [event for event in run.events if event.name in ("resumed", "collapse")]
    marked = (
        " Vertical lines: the run was resumed, or the collapse alarm went off (see Events)." if marks else ""
    )
    axes: tuple[Axis, ...] = ("tokens", "step", "flops")
    points = [*run.train, *run.evals]
    empty = "The run has not got this far: there is nothing to draw."
    return [
        Section(
            "Held-out curves", [views(_held_out_plots(run), axes, marks, points, empty)], learned + marked
        ),
        Section(
            "Training curves", [views(_training_plots(run), axes, marks, points, empty)], process + marked
        ),
    ]


def _held_out_plots(run: RunRecord) -> list[Plot]:
    def plot(key: str, note: str, *reference: Any) -> Plot:
        measures = [Measure(run, "eval", key, "held out", color=1)]
        if reference:
            level, label = reference
            at = {"key": level} if isinstance(level, str) else {"key": key, "level": level}
            measures.append(Measure(run, "eval", label=label, style="reference", **at))
        return Plot(key, METRICS[key].title, note, measures)

    return [
        plot(
            "discriminator_loss",
            "Nats per token. Only what is below the dotted line has been learned.",
            "base_rate_entropy",
            "knows only the base rate",
        ),
        plot(
            "gain",
            "Nats per token: the distance between the two lines of the discriminator loss.",
            0.0,
            "base rate",
        ),
        plot("auc", "How often a replaced token is ranked above an original one.", 0.5, "chance"),
        plot(
            "average_precision",
            "Area under the precision-recall curve of replaced tokens.",
            "base_rate",
            "chance: the base rate",
        ),
        plot(
            "generator_loss", "Nats per masked token. A long flat stretch is the plateau of word frequencies."
        ),
        plot("generator_accuracy", "Share of masked tokens guessed right."),
        plot("mlm_loss", "Nats per token behind [MASK]: to compare full-size masked language models by."),
    ]


def _training_plots(run: RunRecord) -> list[Plot]:
    losses = {
        f"losses.{name}": (f"{_LOSS_TITLES.get(name, name)} in training", "Nats per token it is measured on.")
        for name in sorted(run.loss_names, key=lambda name: name != "rtd")
    }
    shown = {
        **losses,
        "loss": ("Total loss", "What the optimizer lowers: the weighted sum of the losses."),
        "gradient_norm": ("Gradient norm", "Before clipping. Spikes that grow announce trouble."),
        "learning_rate": ("Learning rate", "The schedule as it was applied."),
        "tokens_per_s": ("Throughput", "Tokens per second of updates. Dips are a busy machine."),
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
        return Section("Held-out metrics", [quiet("The run has not been evaluated on held-out text yet.")])
    values = run.final.values
    names = [*(key for key in METRICS if key in values), *(key for key in values if key not in METRICS)]
    rows = []
    for key in names:
        metric = METRICS.get(key, Metric(humanize(key), ""))
        baseline = Number(metric.ignorant(values), "score")
        rows.append((metric.title, Number(values[key], "score"), baseline, metric.meaning))
    lead = f"The last evaluation, at step {run.final.step:,}, on documents that were never trained on."
    columns = ("Metric", "Value", "Knowing only the base rate", "What it says")
    return Section("Held-out metrics", [Table(columns, rows, noted=True)], lead)


def _audit(run: RunRecord) -> Section:
    lead = "What became of the corpus on its way to tokens: nothing is dropped without being counted here."
    if not run.audit:
        return Section(
            "Data audit", [quiet("No audit lies in the run folder: the text is not described here.")]
        )
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
    return Section("Data audit", [Table(("", "Count", "What it is"), counts, noted=True), *tables], lead)


def _recipe(run: RunRecord) -> Section:
    lead = "The recipe with nothing left open, the shapes of the networks, and the environment: run.toml."
    if not run.recipe:
        return Section("Recipe and environment", [quiet("The recipe of this run is not known.")])
    values = {**run.recipe, "environment": run.environment, "identity": run.identity}
    loose = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    named = {"": loose, **{key: value for key, value in values.items() if key not in loose}}
    tables = [Table.pairs(table, title) for title, table in named.items() if table]
    return Section("Recipe and environment", [Columns(tables)], lead)


def _events(run: RunRecord) -> Section:
    saved = [event for event in run.events if event.name == "checkpoint"]
    rows = [(Number(one.step), one.name, one.message) for one in run.events if one.name != "checkpoint"]
    blocks: list[Block] = [
        Table(("Step", "Event", "What happened"), rows) if rows else quiet("The run recorded no events.")
    ]
    if saved:
        plural, last = "s" * (len(saved) > 1), saved[-1].step
        blocks.append(quiet(f"{len(saved)} checkpoint{plural} written, the last at step {last:,}."))
    return Section("Events", blocks)


def _counted(key: str, value: Any) -> object:
    """An audit's value: counts in full, rates as percentages."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(value, "percent" if key.endswith(("rate", "share", "fraction")) else "plain")
    return None if value is None else verbatim(value)
