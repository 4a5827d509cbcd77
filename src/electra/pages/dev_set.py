"""Shows how well the saved model of a fine-tuning predicts the dev set.

There are sections for the scores of each label with the confusion matrix, the calibration, and the most
confident errors with their texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from electra.pages.figures import Figure, Series
from electra.pages.page import Block, Figures, Fold, Number, Section, Table, Text

Record = Mapping[str, Any]
MAX_LABELS = 12  # in a confusion matrix
MAX_ROWS = 25  # in a table of errors
MAX_TEXT = 400  # characters shown of a text
MAX_CELL = 60  # characters shown of a value in another column
OWN_COLUMNS = {"id", "text", "word", "gold", "predicted", "probability", "null_odds"}
BINS = 10  # intervals of probability, for the calibration


def sections(records: Sequence[Record], labels: Mapping[str, Mapping[str, int]]) -> list[Section]:
    """Returns the sections for predictions; empty if none of them has a gold label or number.

    `labels` holds, by split and label, the number of examples.
    """
    rows = [record for record in records if record.get("gold") is not None]
    if not rows:
        return []
    if all(isinstance(record["gold"], float | int) for record in rows):
        return [Section("Largest errors", [_largest_errors(rows)], "Predictions of the saved model on dev.")]
    if not all(isinstance(record["gold"], str) for record in rows):
        return []
    scored = [record for record in rows if isinstance(record.get("probability"), float)]
    sections = [Section("Labels", _labels(rows, labels), "Predictions of the saved model on dev.")]
    if scored:
        lead = "How well predicted probabilities match the fraction of predictions that are right."
        sections.append(Section("Calibration", _calibration(scored), lead))
        lead = "Wrong predictions of the saved model on dev, the most confident first."
        sections.append(Section("Errors", [_errors(scored)], lead))
    return sections


def _labels(rows: Sequence[Record], counts: Mapping[str, Mapping[str, int]]) -> list[Block]:
    gold = Counter(record["gold"] for record in rows)
    predicted = Counter(record["predicted"] for record in rows)
    right = Counter(record["gold"] for record in rows if record["gold"] == record["predicted"])
    names = [name for name in counts.get("train", {}) if name in gold or name in predicted]
    names += sorted({*gold, *predicted} - {*names})
    records = [
        {
            "label": name,
            "in train": counts.get("train", {}).get(name, 0),
            "in dev": gold[name],
            "predicted": predicted[name],
            "precision": right[name] / predicted[name] if predicted[name] else None,
            "recall": right[name] / gold[name] if gold[name] else None,
            "F1": 2 * right[name] / (predicted[name] + gold[name]),
        }
        for name in names
    ]
    count_columns = [(name, name, "plain") for name in ("in train", "in dev", "predicted")]
    score_columns = [(name, name, "score") for name in ("precision", "recall", "F1")]
    return [Table.of(records, ("label", "label"), *count_columns, *score_columns), *_confusion(rows, names)]


def _confusion(rows: Sequence[Record], names: Sequence[str]) -> list[Block]:
    pairs = Counter((record["gold"], record["predicted"]) for record in rows)
    if len(names) <= MAX_LABELS:
        cells = [(gold, *(Number(pairs[gold, predicted]) for predicted in names)) for gold in names]
        gold_counts = Counter(record["gold"] for record in rows)
        series = [
            Series(
                gold,
                names,
                [pairs[gold, label] / gold_counts[gold] if gold_counts[gold] else None for label in names],
            )
            for gold in names
        ]
        note = "Of the examples with each label (row), the share predicted as each label (column)."
        figure = Figure("confusion", "Confusion", note, series, "matrix", x="predicted", y_range=(0.0, 1.0))
        table = Table(("label \\ predicted", *names), cells)
        return [Figures.of(figure), Fold("Numbers of examples", [table])]
    confusions = [(pair, count) for pair, count in pairs.most_common() if pair[0] != pair[1]][:MAX_ROWS]
    caption = f"The {len(confusions)} most frequent confusions of {len(names)} labels."
    return [Table(("label", "predicted", "examples"), [(*p, Number(n)) for p, n in confusions], caption)]


def _calibration(scored: Sequence[Record]) -> list[Block]:
    bins: dict[int, list[Record]] = {}
    for record in scored:
        bins.setdefault(min(int(record["probability"] * BINS), BINS - 1), []).append(record)
    rows: list[Sequence[object]] = []
    points: list[tuple[float, float]] = []
    calibration_error = 0.0
    for i, members in sorted(bins.items()):
        mean = sum(record["probability"] for record in members) / len(members)
        accuracy = sum(record["gold"] == record["predicted"] for record in members) / len(members)
        calibration_error += abs(mean - accuracy) * len(members) / len(scored)
        points.append((mean, accuracy))
        span = f"{i / BINS:.1f} to {(i + 1) / BINS:.1f}"
        rows.append((span, Number(len(members)), Number(mean, "percent"), Number(accuracy, "percent")))
    bins_used = "1 bin" if len(rows) == 1 else f"{len(rows)} bins"
    series = [
        Series("right", [mean for mean, _ in points], [accuracy for _, accuracy in points]),
        Series("perfectly calibrated", [0, 1], [0, 1], style="reference"),
    ]
    note = "Below the dotted line, the model is more confident than it is right."
    figure = Figure("calibration", "Calibration", note, series, x="mean probability", y="right")
    table = Table(("probability", "predictions", "mean probability", "right"), rows)
    return [
        Figures.of(figure),
        Text(f"Expected calibration error over {bins_used}: {calibration_error:.3f}.", "quiet"),
        Fold("Numbers of predictions", [table]),
    ]


def _errors(scored: Sequence[Record]) -> Block:
    errors = sorted((r for r in scored if r["gold"] != r["predicted"]), key=lambda r: -r["probability"])
    if not errors:
        return Text("None.")
    rows = [(r["gold"], r["predicted"], Number(r["probability"], "score"), _shown(r)) for r in errors]
    caption = f"{min(MAX_ROWS, len(errors))} of {len(errors)} errors in {len(scored)} predictions"
    return Table(("label", "predicted", "probability", "text"), rows[:MAX_ROWS], caption, noted=True)


def _largest_errors(records: Sequence[Record]) -> Block:
    ranked = sorted(records, key=lambda r: -abs(r["predicted"] - r["gold"]))[:MAX_ROWS]
    rows = [(Number(r["gold"]), Number(r["predicted"]), _shown(r)) for r in ranked]
    return Table(("label", "predicted", "text"), rows, noted=True)


def _shown(record: Record) -> str:
    """Returns the text, with the other columns of the user's row below it."""
    text = _short(record.get("text", ""), MAX_TEXT)
    rest = {
        name: value for name, value in record.items() if name not in OWN_COLUMNS and not name.startswith("p(")
    }
    details = " \u00b7 ".join(f"{name}: {_short(value, MAX_CELL)}" for name, value in rest.items())
    return Markup('{}<br><span class="none">{}</span>').format(text, details) if details else text


def _short(value: object, limit: int) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
