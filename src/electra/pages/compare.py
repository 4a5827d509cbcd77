"""Compares runs: their held-out curves in shared figures, and their metrics at equal compute."""

from __future__ import annotations

from collections.abc import Sequence

from electra.artifacts.folder import distinct_names
from electra.artifacts.ledger import Axis, Point
from electra.pages.glossary import METRICS, PLOTTED
from electra.pages.measures import Measure, Plot, plot_figures
from electra.pages.page import Block, Number, Section, Table, Text
from electra.pages.read import RunRecord

_MUST_MATCH = (  # (setting, its description): held-out metrics are comparable only if these are equal
    ("identity.data", "their text"),
    ("identity.tokenizer", "their tokenizer"),
    ("evaluation.mask_fraction", "the held-out mask rate"),
)


def comparison(runs: Sequence[RunRecord]) -> Section:
    """Returns the section that compares the first run with the others."""
    names = distinct_names([run.path.resolve().parts for run in runs])
    blocks: list[Block] = []
    differing = [
        description
        for key, description in _MUST_MATCH
        if len({run.setting(key) for run in runs} - {None}) > 1
    ]
    if differing:
        blocks.append(
            Text(
                f"Caution: the runs differ in {' and '.join(differing)}, so their held-out metrics are not"
                " comparable.",
                "warning",
            )
        )
    plots = [
        Plot(
            f"compare {key}",
            METRICS[key].title,
            METRICS[key].meaning,
            [Measure(run, "eval", key, name) for run, name in zip(runs, names, strict=True)],
        )
        for key in PLOTTED
    ]
    blocks.append(plot_figures(plots, ("flops", "tokens")))
    by_flops = _evals_within_shared_budget(runs, "flops")
    by_tokens = _evals_within_shared_budget(runs, "tokens")
    if by_flops and by_flops == by_tokens:
        blocks.append(_table_or_note(names, by_flops, "At equal training FLOPs (and equal tokens)"))
    else:
        blocks += [
            _table_or_note(names, by_flops, "At equal training FLOPs"),
            _table_or_note(names, by_tokens, "At equal tokens seen"),
        ]
    blocks.append(_table(names, [run.final for run in runs], "The last evaluation of each run"))
    blocks += [
        Text(f"{name}: {note}", "quiet")
        for name, run in zip(names[1:], runs[1:], strict=True)
        for note in run.notes
    ]
    lead = (
        "A fair comparison needs equal compute: the tables show each run's last evaluation within the budget"
        " that all of them reached."
    )
    return Section("Comparison", blocks, lead)


def _evals_within_shared_budget(runs: Sequence[RunRecord], axis: Axis) -> list[Point | None]:
    """Returns each run's last evaluation within the budget that all reached (None if it has none so early).

    The list is empty if a run has no evaluation, because the budget is then unknown.
    """
    evals = [[point for point in run.ledger.evals if getattr(point, axis) is not None] for run in runs]
    if not all(evals):
        return []
    budget = min(getattr(points[-1], axis) for points in evals)
    return [
        next((point for point in reversed(points) if getattr(point, axis) <= budget), None)
        for points in evals
    ]


def _table_or_note(names: Sequence[str], points: Sequence[Point | None], caption: str) -> Block:
    if not points:
        return Text(f"{caption}: unknown, because a run has no held-out evaluation.", "quiet")
    return _table(names, points, caption)


def _table(names: Sequence[str], points: Sequence[Point | None], caption: str) -> Table:
    shown = [key for key in PLOTTED if any(point and point.values.get(key) is not None for point in points)]
    rows = [
        (
            name,
            Number(point.tokens if point else None, "large"),
            Number(point.flops if point else None, "power"),
            *(Number(point.values.get(key) if point else None, "score") for key in shown),
        )
        for name, point in zip(names, points, strict=True)
    ]
    return Table(("Run", "Tokens", "FLOPs", *(METRICS[key].title for key in shown)), rows, caption)
