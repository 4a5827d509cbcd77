"""The page of a pre-training run: the result first, then curves, metrics, examples and the recipe.

A run may be in progress, killed or resumed: files that are written at its end may be missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from markupsafe import Markup

from electra.artifacts.ledger import Ledger, finite_or_none
from electra.artifacts.network_names import EXPORTED, network_tables
from electra.artifacts.run_files import RunFolder
from electra.foundation import durable
from electra.foundation.config import flatten
from electra.foundation.errors import RunFolderError
from electra.foundation.terminal_text import plural, when
from electra.pages.figures import Figure, Series, smooth
from electra.pages.metric_titles import METRICS, PLOTTED, baseline, meaning, meaning_of_curve, title
from electra.pages.page import Number, Page, PageTable, Section, publish

DEFAULT_THRESHOLD = 0.5  # the P(replaced) from which tokens are marked if a run has no evaluation
MIN_GAIN, MIN_AUC = 0.005, 0.55  # in nats per token; below both, a discriminator has learned nothing
FACTS = ("auc", "gain", "average_precision", "mlm_accuracy", "generator_loss", "generator_accuracy")
TRAINING = ("loss", "gradient_norm", "learning_rate", "tokens_per_s")


@dataclass(frozen=True)
class RunRecord:
    """What a run folder records."""

    path: Path
    recipe: Mapping[str, Any]
    ledger: Ledger
    audit: Mapping[str, Any]
    examples: Sequence[Any]

    @property
    def final(self) -> Mapping[str, Any]:
        """The metrics of the last held-out evaluation; empty if there is none."""
        return self.ledger.evals[-1].values if self.ledger.evals else {}

    def setting(self, dotted: str) -> Any:
        """Returns the value of a setting by its dotted name; None if it is not set."""
        return dict(flatten(self.recipe)).get(dotted)


def read_run(path: Path) -> RunRecord:
    """Reads a run folder, ended or not; RunFolderError or ConfigError if it is none, or damaged."""
    folder = RunFolder.open(path)
    audit = durable.read_json(folder.audit, RunFolderError) if folder.audit.is_file() else {}
    examples = durable.read_json(folder.examples, RunFolderError) if folder.examples.is_file() else []
    return RunRecord(path, folder.record, folder.ledger(), audit, examples)


def write_page(run: Path) -> Path:
    """Writes the page of a run and returns its path."""
    return publish(page(read_run(run)), RunFolder(run).page)


def page(run: RunRecord) -> Page:
    """Returns the page of a run."""
    alarms = [event for event in run.ledger.events if event.name == "collapse"]
    command = str(run.setting("environment.command") or "")  # older runs have no other record of it
    settings = [PageTable.pairs("Data audit", run.audit), PageTable.pairs("All settings", run.recipe)]
    return Page(
        run.path.resolve().name,
        verdict(run),
        [_held_out(run), _examples(run), _training(run), Section("Data and recipe", tables=settings)],
        kicker=f"electra pretrain \u00b7 {run.ledger.status(RunFolder.steps_of(run.recipe))}",
        facts=list(_facts(run)),
        warnings=[f"Step {event.step:,}: {event.message or 'collapse'}" for event in alarms[-1:]],
        notes=run.ledger.notes,
        commands=RunFolder(run.path).commands or ([f"electra {command}"] if command else []),
    )


def verdict(run: RunRecord) -> str:
    """Returns the result of the last held-out evaluation in plain words."""
    values = run.final
    if not run.ledger.evals:
        known = "only the training curves are available" if run.ledger.train else "nothing was logged yet"
        return f"No held-out evaluation yet: {known}."
    gain, auc = values.get("gain"), values.get("auc")
    if gain is not None and auc is not None:
        share = "more than 99" if 0.995 <= auc < 1 else f"{100 * auc:.0f}"
        ranks = f"scores a replaced word above an original one {share} times in 100 (chance: 50)"
        better = "better" if gain >= 0 else "worse"
        against = f"its probabilities are {abs(gain):.3f} nats per token {better} than the base rate"
        longer = when(gain < 0, f" More training may help: electra extend {run.path} --budget 1h")
        if gain < MIN_GAIN and auc < MIN_AUC:
            fails = "cannot tell replaced words from original ones"
            return f"The discriminator {fails}: it {ranks}, and {against}.{longer}"
        return f"The discriminator {ranks}; {against}.{longer}"
    loss = values.get("mlm_loss", values.get("generator_loss"))
    accuracy = values.get("mlm_accuracy", values.get("generator_accuracy"))
    if loss is None or accuracy is None:
        return "The last held-out evaluation has none of the usual metrics; all are listed below."
    predicts = f"predicts {accuracy:.1%} of the masked tokens in held-out text"
    return f"The model {predicts}; its loss is {loss:.2f} nats per masked token."


def _facts(run: RunRecord) -> Iterator[tuple[object, ...]]:
    for key in FACTS:
        if key in run.final:
            level = baseline(key, run.final)
            name = "chance" if key == "auc" else "base rate"
            yield title(key), Number(run.final[key]), "" if level is None else f"{name}: {level:.3g}"
    named = {"Recipe": run.setting("environment.recipe"), "Objective": run.setting("objective.name")}
    yield from ((name, str(value)) for name, value in named.items() if value)
    shapes = network_tables(run.recipe)
    if main := next((shapes[name] for name in EXPORTED if name in shapes), None):
        layers = plural(main["num_layers"], "layer")
        yield "Model", f"{layers} of {main['hidden_size']}", f"vocabulary {main['vocab_size']:,}"
    points = [*run.ledger.train[-1:], *run.ledger.evals[-1:]]
    if last := max(points, key=lambda point: point.step, default=None):
        total, speeds = RunFolder.steps_of(run.recipe), run.ledger.curve("train", "tokens_per_s").y
        yield "Steps", Number(last.step, ""), f"of {total:,}" if total else ""
        yield "Tokens seen", Number(last.tokens, "large")
        yield "Training FLOPs", Number(last.flops, ".2e")
        yield "Training time", Number(last.seconds, "time"), "in updates"
        yield "Tokens per second", Number(median(speeds) if speeds else None, "large"), "median"


def _held_out(run: RunRecord) -> Section:
    if not run.ledger.evals:
        return Section("Held-out metrics", "The run has not been evaluated on held-out text yet.")
    values = run.final
    keys = [*(key for key in METRICS if key in values), *(key for key in values if key not in METRICS)]
    rows = [(title(key), Number(values[key]), Number(baseline(key, values)), meaning(key)) for key in keys]
    table = PageTable(("Metric", "Value", "Base rate only", "Meaning"), rows, noted=True)
    lead = "On text that is never trained on, always with the same masks. The table has the last evaluation,"
    lead += f" at step {run.ledger.evals[-1].step:,}."
    points = [point for point in run.ledger.evals if point.tokens is not None]
    x, curves = [point.tokens for point in points], []
    for key in PLOTTED:  # each beside its baseline, which may move
        label, levels = "chance" if key == "auc" else "base rate", [baseline(key, p.values) for p in points]
        series = [Series("held out", x, [point.values.get(key) for point in points])]
        series.append(Series(label, x, levels, style="reference"))
        curves.append(Figure(key, title(key), meaning_of_curve(key, series[0].y), series, axis="tokens"))
    return Section("Held-out metrics", lead, figures=curves, tables=[table])


def _training(run: RunRecord) -> Section:
    losses = dict.fromkeys(k for point in run.ledger.train for k in point.values if k.startswith("losses."))
    figures = []
    for key in [*losses, *TRAINING]:
        curve = run.ledger.curve("train", key, "tokens")
        series = [Series(key, *curve, color=0)]
        if len(curve.y) >= 40 and key != "learning_rate":
            series = [Series(key, *curve, style="faint", color=0), Series("mean", *smooth(curve), color=0)]
        figures.append(Figure(key, title(key.replace("losses.", "loss: ")), "", series, axis="tokens"))
    lead = "Faint: every logged step. Strong: the mean around it."
    ours, theirs = run.setting("objective.mask_fraction"), run.setting("evaluation.mask_fraction")
    if ours and theirs and ours != theirs:
        lead += f" Training masks {ours} of the tokens, evaluation {theirs}: the losses differ in scale."
    return Section("Training", lead, figures=figures)


def _examples(run: RunRecord) -> Section:
    threshold = run.final.get("best_f1_threshold") or DEFAULT_THRESHOLD
    sentences = []
    for item in run.examples:
        rows = item.get("rows") if isinstance(item, Mapping) else None
        if isinstance(rows, list):
            tokens = (token(row, threshold) for row in rows if isinstance(row, Mapping))
            sentences.append(Markup('<span class="sentence">{}</span>').format(Markup(" ").join(tokens)))
    lead = "Held-out sentences: the generator filled in masked tokens. Small: the original."
    if "auc" in run.final:
        lead += (
            " Darker: higher P(replaced). Solid line: replaced and marked, as P(replaced) reaches"
            f" {threshold:.2g}. Dashed: replaced, not marked. Dotted box: original, marked."
        )
    return Section("Worked examples", lead if sentences else "The run has no worked examples yet.", sentences)


def token(row: Mapping[str, Any], threshold: float) -> Markup:
    """Returns a token shaded by P(replaced), with its outcome shown by underlining, too."""
    p = finite_or_none(row.get("p_replaced"))
    original, replaced = str(row.get("original") or ""), row.get("label") == "replaced"
    outcome = ""
    if p is not None and p >= threshold:
        outcome = "caught" if replaced else "alarm"
    elif p is not None and replaced:
        outcome = "missed"
    was = Markup("<small> {}</small>").format(original) if replaced else ""
    score = "" if p is None else f"P(replaced) {p:.3f}"
    html = Markup('<span class="token {}" style="--p:{:.2f}" title="{}">{}{}</span>')
    return html.format(outcome, min(1, max(0, p or 0)), score, str(row.get("generated") or original), was)
