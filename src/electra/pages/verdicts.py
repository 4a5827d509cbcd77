"""Sums up a probe in one sentence: its first headline number, compared with the best baseline in its record.

A baseline needs no training: chance, a rule without a network, or random initialization. Baselines are taken
from where the number itself is: the references and series of a figure, and the rows of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

DESCRIPTIVE_PROBES = frozenset({"attention", "bias", "calibration", "geometry", "layer_similarity"})
"""Probes whose numbers describe a model but do not say how good it is."""
_UNTRAINED = "untrained"
_BASELINES = frozenset(
    {
        _UNTRAINED,
        "chance",
        "word overlap",
        "each word's most frequent label",
        "the most frequent label",
        "each word's usual answer",  # the names of these two in records of the last release
        "the commonest answer",
        "number of tokens in the word",
    }
)


class Verdict(NamedTuple):
    """The result of a probe."""

    standing: str
    """"above", "not above" or "below" the baseline; empty if there is none."""
    sentence: str


def verdict(record: Mapping[str, Any]) -> Verdict | None:
    """Returns the verdict on a record with filled tables and figures; None without a headline number."""
    known = ((name, each) for name, each in record["headline"].items() if value_of(each) is not None)
    name, number = next(known, ("", None))
    if number is None:
        return None
    value, baselines = value_of(number), dict(_baselines(record, name, number))
    model = record["models"][0]["name"]
    result = f"{name[0].upper()}{name[1:]}: {value:z.3f}{format_interval(number)} for {model}"
    if record["probe"] in DESCRIPTIVE_PROBES:
        untrained = baselines.get(_UNTRAINED)
        return Verdict(
            "",
            f"{result}." if untrained is None else f"{result}; {untrained:z.3f} for random initialization.",
        )
    if not baselines:
        return Verdict("", f"{result}. No baseline was recorded.")
    best = max(baselines, key=baselines.__getitem__)
    low, high = (value if end is None else end for end in _interval(number))
    standing = "above" if low > baselines[best] else "below" if high < baselines[best] else "not above"
    label = {"none": "no gain", _UNTRAINED: "random initialization"}.get(best, best)
    return Verdict(standing, f"{result}, {standing} the baseline of {baselines[best]:z.3f} ({label}).")


def _baselines(record: Mapping[str, Any], name: str, number: Any) -> Iterator[tuple[str, float]]:
    is_best = "best" in name or "strongest" in name  # of all depths; the baseline's best counts, too
    value, chance = value_of(number), value_of(record["headline"].get(f"chance: {name}"))
    if chance is not None:
        yield "chance", chance
    figures = [
        figure for figure in record["figures"] if any(value in series["y"] for series in figure["series"])
    ]
    for figure in figures:
        position = next(
            series["x"][series["y"].index(value)] for series in figure["series"] if value in series["y"]
        )
        for other in figure["series"]:
            known = {x: y for x, y in zip(other["x"], other["y"], strict=True) if y is not None}
            if not known:
                continue
            if other["style"] == "reference":
                yield other["label"], known.get(position, max(known.values()))
            elif other["label"] in _BASELINES and (is_best or position in known):
                yield other["label"], max(known.values()) if is_best else known[position]
    for table in record["tables"]:
        column = next((row.index(number) for row in table["rows"] if number in row), 0)
        for row in table["rows"] if column else ():
            if row[0] in _BASELINES and value_of(row[column]) is not None:
                yield row[0], value_of(row[column])
    if not figures and chance is None:  # the mean of the values in a figure has the same chance level
        for figure in record["figures"]:
            for other in figure["series"]:
                if other["label"] == "chance" and len(set(other["y"])) == 1:
                    yield "chance", other["y"][0]


def value_of(number: Any) -> Any:
    """Returns the value of a number with or without an interval; None if it has none."""
    if isinstance(number, Mapping):
        return number.get("value")
    return number if isinstance(number, float) else None


def _interval(number: Any) -> tuple[Any, Any]:
    return (number.get("low"), number.get("high")) if isinstance(number, Mapping) else (None, None)


def format_interval(number: Any) -> str:
    """Returns the interval of a number as text, " [0.812, 0.845]"; empty if it has none."""
    low, high = _interval(number)
    return "" if low is None or high is None else f" [{low:z.3f}, {high:z.3f}]"
