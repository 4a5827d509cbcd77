"""A probe's result in one sentence: its first headline number beside the best floor that its record holds.

A floor needs no training: chance, a rule without a network, or fresh weights. It is looked for where the
number itself stands, in a figure's references and series and in a table's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

DESCRIBED = frozenset({"attention", "bias", "calibration", "geometry", "layer_similarity"})
"""Probes whose numbers say what a model is like, not how good it is."""
_UNTRAINED = "untrained"
_FLOORS = frozenset(
    {
        _UNTRAINED,
        "chance",
        "word overlap",
        "each word's usual answer",
        "the commonest answer",
        "number of tokens in the word",
    }
)


class Verdict(NamedTuple):
    standing: str
    """"above", "not above" or "below" the floor; "" where there is nothing to be above."""
    sentence: str


def verdict(record: Mapping[str, Any]) -> Verdict | None:
    """Of a record with its tables and figures filled in; None where it has no headline number."""
    found = next(((name, one) for name, one in record["headline"].items() if value_of(one) is not None), None)
    if found is None:
        return None
    (name, one), model = found, record["models"][0]["name"]
    value, floors = value_of(one), dict(_floors(record, name, one))
    described = record["probe"] in DESCRIBED
    said = f"{name[0].upper()}{name[1:]}: {value:z.3f}{ends_of(one)} for {model}"
    if described:
        other = floors.get(_UNTRAINED)
        return Verdict("", f"{said}." if other is None else f"{said}; {other:z.3f} for fresh weights.")
    if not floors:
        return Verdict("", f"{said}. The record holds no floor for it.")
    best = max(floors, key=floors.__getitem__)
    low, high = (value if end is None else end for end in _interval(one))
    standing = "above" if low > floors[best] else "below" if high < floors[best] else "not above"
    called = {"none": "no gain", _UNTRAINED: "fresh weights"}.get(best, best)
    return Verdict(standing, f"{said}, {standing} the floor of {floors[best]:z.3f} ({called}).")


def _floors(record: Mapping[str, Any], name: str, one: Any) -> Iterator[tuple[str, float]]:
    best = "best" in name or "strongest" in name  # chosen among depths, so the floor may choose, too
    value, chance = value_of(one), value_of(record["headline"].get(f"chance: {name}"))
    if chance is not None:
        yield "chance", chance
    beside = [figure for figure in record["figures"] if any(value in own["y"] for own in figure["series"])]
    for figure in beside:
        place = next(own["x"][own["y"].index(value)] for own in figure["series"] if value in own["y"])
        for other in figure["series"]:
            known = {x: y for x, y in zip(other["x"], other["y"], strict=True) if y is not None}
            if not known:
                continue
            if other["style"] == "reference":
                yield other["label"], known.get(place, max(known.values()))
            elif other["label"] in _FLOORS and (best or place in known):
                yield other["label"], max(known.values()) if best else known[place]
    for table in record["tables"]:
        column = next((row.index(one) for row in table["rows"] if one in row), 0)
        for row in table["rows"] if column else ():
            if row[0] in _FLOORS and value_of(row[column]) is not None:
                yield row[0], value_of(row[column])
    if not beside and chance is None:  # a mean over what is drawn: its chance is that of the parts
        for figure in record["figures"]:
            for other in figure["series"]:
                if other["label"] == "chance" and len(set(other["y"])) == 1:
                    yield "chance", other["y"][0]


def value_of(one: Any) -> Any:
    return one.get("value") if isinstance(one, Mapping) else one if isinstance(one, float) else None


def _interval(one: Any) -> tuple[Any, Any]:
    return (one.get("low"), one.get("high")) if isinstance(one, Mapping) else (None, None)


def ends_of(one: Any) -> str:
    low, high = _interval(one)
    return "" if low is None or high is None else f" [{low:z.3f}, {high:z.3f}]"
