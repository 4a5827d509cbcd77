"""What the kept model of a fine-tuning makes of the dev set: each label's score, what is taken for what, how
far its probabilities can be trusted, and its surest mistakes with their texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from electra.pages.page import Block, Number, Section, Table, Text

Record = Mapping[str, Any]
MOST_LABELS = 12  # in a confusion matrix
MISTAKES = 25
LONGEST = 400  # characters of a text that are shown
WIDEST = 60  # characters of a further column
# columns that are not the user's
OURS = {"id", "text", "word", "gold", "predicted", "probability", "null_odds"}
BINS = 10


def sections(records: Sequence[Record], labels: Mapping[str, Mapping[str, int]]) -> list[Section]:
    """Of answers with gold and predicted labels, or of numbers; `labels`: split -> label -> count."""
    told = [record for record in records if record.get("gold") is not None]
    if not told:
        return []
    if all(isinstance(record["gold"], float | int) for record in told):
        return [Section("Largest errors", [_errors(told)], "Of the kept model, on dev.")]
    if not all(isinstance(record["gold"], str) for record in told):
        return []
    sure = [record for record in told if isinstance(record.get("probability"), float)]
    made = [Section("Labels", _labels(told, labels), "Of the kept model, on dev.")]
    if sure:
        lead = "Of the answers given with such a probability, how many are right."
        made.append(Section("Calibration", _calibration(sure), lead))
        lead = "What the kept model gets wrong on dev, the surest first."
        made.append(Section("Mistakes", [_mistakes(sure)], lead))
    return made


def _labels(told: Sequence[Record], counts: Mapping[str, Mapping[str, int]]) -> list[Block]:
    there = Counter(record["gold"] for record in told)
    said = Counter(record["predicted"] for record in told)
    right = Counter(record["gold"] for record in told if record["gold"] == record["predicted"])
    names = [name for name in counts.get("train", {}) if name in there or name in said]
    names += sorted({*there, *said} - {*names})
    rows = [
        {
            "label": name,
            "trained on": counts.get("train", {}).get(name, 0),
            "in dev": there[name],
            "predicted": said[name],
            "precision": right[name] / said[name] if said[name] else None,
            "recall": right[name] / there[name] if there[name] else None,
            "F1": 2 * right[name] / (said[name] + there[name]),
        }
        for name in names
    ]
    counted = [(name, name, "plain") for name in ("trained on", "in dev", "predicted")]
    scored = [(name, name, "score") for name in ("precision", "recall", "F1")]
    return [Table.of(rows, ("label", "label"), *counted, *scored), _confusion(told, names)]


def _confusion(told: Sequence[Record], names: Sequence[str]) -> Block:
    pairs = Counter((record["gold"], record["predicted"]) for record in told)
    if len(names) <= MOST_LABELS:
        rows = [(gold, *(Number(pairs[gold, said]) for said in names)) for gold in names]
        return Table(("label \\ predicted", *names), rows)
    wrong = [(pair, count) for pair, count in pairs.most_common() if pair[0] != pair[1]][:MISTAKES]
    caption = f"The {len(wrong)} most frequent confusions of {len(names)} labels."
    return Table(("label", "predicted", "examples"), [(*p, Number(n)) for p, n in wrong], caption)


def _calibration(sure: Sequence[Record]) -> list[Block]:
    bins: dict[int, list[Record]] = {}
    for record in sure:
        bins.setdefault(min(int(record["probability"] * BINS), BINS - 1), []).append(record)
    rows: list[Sequence[object]] = []
    error = 0.0
    for number, members in sorted(bins.items()):
        mean = sum(record["probability"] for record in members) / len(members)
        right = sum(record["gold"] == record["predicted"] for record in members) / len(members)
        error += abs(mean - right) * len(members) / len(sure)
        span = f"{number / BINS:.1f} to {(number + 1) / BINS:.1f}"
        rows.append((span, Number(len(members)), Number(mean, "percent"), Number(right, "percent")))
    over = "this one bin" if len(rows) == 1 else f"these {len(rows)} bins"
    table = Table(("probability", "answers", "on average", "right"), rows)
    return [table, Text(f"Expected calibration error, over {over}: {error:.3f}.", "quiet")]


def _mistakes(sure: Sequence[Record]) -> Block:
    wrong = sorted((r for r in sure if r["gold"] != r["predicted"]), key=lambda r: -r["probability"])
    if not wrong:
        return Text("None.")
    rows = [(r["gold"], r["predicted"], Number(r["probability"], "score"), _shown(r)) for r in wrong]
    caption = f"{min(MISTAKES, len(wrong))} of {len(wrong)} mistakes in {len(sure)} answers"
    return Table(("label", "predicted", "probability", "text"), rows[:MISTAKES], caption, noted=True)


def _errors(told: Sequence[Record]) -> Block:
    ranked = sorted(told, key=lambda r: -abs(r["predicted"] - r["gold"]))[:MISTAKES]
    rows = [(Number(r["gold"]), Number(r["predicted"]), _shown(r)) for r in ranked]
    return Table(("label", "predicted", "text"), rows, noted=True)


def _shown(record: Record) -> str:
    """The text, and below it what else the user's row says."""
    text = _short(record.get("text", ""), LONGEST)
    rest = {name: value for name, value in record.items() if name not in OURS and not name.startswith("p(")}
    told = " \u00b7 ".join(f"{name}: {_short(value, WIDEST)}" for name, value in rest.items())
    return Markup('{}<br><span class="none">{}</span>').format(text, told) if told else text


def _short(value: object, most: int) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= most else f"{text[:most]}..."
