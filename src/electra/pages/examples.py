"""Worked examples as the table Original | Masked | Generated | Label | P(replaced), under the sentence the
discriminator saw.

What happened to a token is told by colour and by a mark, so it survives grey print and colour blindness.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from electra.pages.page import Block, Fold, Text
from electra.pages.read import Example, ExampleRow

_THRESHOLD = 0.5
_MEANINGS = {
    "caught": "replaced, and P(replaced) is 0.5 or more",
    "missed": "replaced, but P(replaced) is less than 0.5",
    "alarm": "original, but P(replaced) is 0.5 or more",
}
_OPEN_ROWS = 32  # longer tables start closed
_SHOWN = 3  # further examples stand behind a line to click on: they come first on the page


def worked_examples(examples: Sequence[Example]) -> list[Block]:
    if not examples:
        return [Text("The run has written no worked examples yet.", "quiet")]
    blocks: list[Block] = []
    if any(row.p_replaced is not None for example in examples for row in example.rows):
        blocks.append(_legend())
    shown = [_worked(example, opened=number == 0) for number, example in enumerate(examples)]
    blocks += [block for one in shown[:_SHOWN] for block in one]
    if more := [block for one in shown[_SHOWN:] for block in one]:
        blocks.append(Fold(f"{len(shown) - _SHOWN} more", more))
    return blocks


def _worked(example: Example, opened: bool) -> list[Block]:
    source = [Markup('<p class="source">{}</p>').format(example.text)] if example.text else []
    title, short = f"Token by token ({len(example.rows)})", len(example.rows) <= _OPEN_ROWS
    return [*source, _sentence(example), Fold(title, [_table(example)], open=opened and short)]


def _outcome(row: ExampleRow) -> str:
    flagged = row.p_replaced is not None and row.p_replaced >= _THRESHOLD
    if row.label == "replaced":
        return "" if row.p_replaced is None else "caught" if flagged else "missed"
    return "alarm" if flagged else ""


def _legend() -> Markup:
    items = Markup("").join(
        Markup('<span><span class="token {}">token</span> {}</span>').format(outcome, meaning)
        for outcome, meaning in _MEANINGS.items()
    )
    return Markup('<p class="legend">{}<span>the deeper the shade, the higher P(replaced)</span></p>').format(
        items
    )


def _sentence(example: Example) -> Markup:
    """The corrupted sentence as the discriminator read it, shaded by P(replaced)."""
    tokens = []
    for row in example.rows:
        shown = row.generated if row.generated is not None else row.original
        continued = " joined" if shown.startswith("##") else ""
        said = f"P(replaced) {row.p_replaced:.3f}" if row.p_replaced is not None else ""
        title = f"{row.original} -> {shown}. {said}" if row.label == "replaced" else said
        tokens.append(
            Markup('<span class="token {}{}" style="--p:{:.2f}" title="{}">{}</span>').format(
                _outcome(row), continued, row.p_replaced or 0.0, title, shown.removeprefix("##")
            )
        )
    return Markup('<p class="sentence">{}</p>').format(Markup(" ").join(tokens))


def _table(example: Example) -> Markup:
    head = Markup(
        "<tr><th>Original</th><th>Masked</th><th>Generated</th><th>Label</th><th"
        ' class="n">P(replaced)</th></tr>'
    )
    return Markup(
        '<div class="scroll"><table class="example"><thead>{}</thead><tbody>{}</tbody></table></div>'
    ).format(head, Markup("\n").join(_row(row) for row in example.rows))


def _row(row: ExampleRow) -> Markup:
    masked: str | Markup | None = row.masked
    if row.masked == row.original:
        masked = Markup('<span class="same">{}</span>').format(row.masked)
    cells = [
        Markup('<td class="code">{}</td>').format(_or_dash(row.original)),
        Markup('<td class="code">{}</td>').format(_or_dash(masked)),
        Markup('<td class="code">{}</td>').format(_or_dash(row.generated)),
        Markup("<td>{}</td>").format(_or_dash(row.label)),
        Markup('<td class="n">{}</td>').format(
            _or_dash(None if row.p_replaced is None else _bar(row.p_replaced))
        ),
    ]
    kind = "replaced" if row.label == "replaced" else "original"
    return Markup('<tr class="{}">{}</tr>').format(kind, Markup("").join(cells))


def _bar(p: float) -> Markup:
    width = 100 * min(1.0, max(0.0, p))
    return Markup(
        '<span class="bar"><i style="width:{:.1f}%"></i></span><data value="{}">{:.3f}</data>'
    ).format(width, repr(p), p)


def _or_dash(value: str | Markup | None) -> str | Markup:
    return Markup('<span class="none">&ndash;</span>') if value is None else value
