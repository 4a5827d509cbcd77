"""Draw docs/pictures/hour.svg (what an hour buys) and electra.svg (the networks of a training step).

    python docs/site/make_drawings.py

Both follow the reader's light or dark scheme.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURES = Path(__file__).parents[1] / "pictures"
RECORD = "results/what-an-hour-buys"
STYLE = """<style>
.page { fill: #ffffff; } text { font: 14px system-ui, sans-serif; fill: #1b1f24; }
.note { font-size: 12px; fill: #59636e; } .middle { text-anchor: middle; } .end { text-anchor: end; }
.bold { font-weight: 600; } .code { font-family: ui-monospace, monospace; font-size: 13px; }
.grid { stroke: #d0d7de; } .span { stroke: #8c959f; stroke-width: 2; }
.none { fill: #ffffff; stroke: #59636e; stroke-width: 2; } .mlm { fill: #bf8700; } .rtd { fill: #0969da; }
.box { fill: #f6f8fa; stroke: #59636e; } .generator { fill: #fff8e5; stroke: #bf8700; }
.discriminator { fill: #eef4fb; stroke: #0969da; } .changed { fill: #ffebe9; stroke: #cf222e; }
.line { fill: none; stroke: #59636e; stroke-width: 1.4; } .head { fill: #59636e; } .dashed { stroke-dasharray: 5 4; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; } text { fill: #e6edf3; } .note { fill: #9198a1; } .grid { stroke: #30363d; }
  .span { stroke: #7d8590; } .none { fill: #0d1117; stroke: #9198a1; } .mlm { fill: #d29922; } .rtd { fill: #58a6ff; }
  .box { fill: #161b22; stroke: #9198a1; } .generator { fill: #2b2410; stroke: #d29922; }
  .discriminator { fill: #14243a; stroke: #58a6ff; } .changed { fill: #3a1a1c; stroke: #f85149; }
  .line { stroke: #9198a1; } .head { fill: #9198a1; }
}
</style>"""
HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
)
HOUR = (  # task, score, without a network, budget-mlm, budget-tiny
    ("Part of speech", "accuracy", 83.2, 92.3, 92.3),
    ("Chunks", "F1", 69.2, 90.4, 90.1),
    ("Named entities, WikiANN", "F1", 8.4, 51.2, 49.1),
    ("Named entities, WNUT-17", "F1", 6.0, 21.5, 11.9),
    ("Grammatical errors", "F0.5", 13.0, 28.2, 31.4),
    ("Sentence pairs, STS-B", "Spearman", 75.8, 56.9, 77.2),
    ("GLUE average", "8 tasks", 60.1, 52.8, 59.0),
)


def page(width: int, height: int, label: str, body: list[str]) -> str:
    """A whole picture with its own background."""
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}">'
    )
    back = f'<rect class="page" width="{width}" height="{height}" rx="6"/>'
    return "\n".join([start, STYLE, HEAD, back, *body, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Words at a place."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def hour() -> str:
    """A row a task, a mark for each of three ways to solve it."""
    left, wide, top, row = 250, 470, 62, 38
    bottom = top + row * len(HOUR)

    def across(score: float) -> float:
        return left + wide * score / 100

    body = [
        text(
            12,
            24,
            "Test or dev score after an hour of one core, at most 3,000 labels, standard heads",
            "bold",
        )
    ]
    for score in range(0, 101, 20):
        x = across(score)
        body.append(f'<path class="grid" d="M{x:g} {top - 18}V{bottom - 8}"/>')
        body.append(text(x, bottom + 10, str(score), "note middle"))
    for number, (task, unit, none, mlm, rtd) in enumerate(HOUR):
        y = top + row * number + 4
        low, high = min(none, mlm, rtd), max(none, mlm, rtd)
        body.append(text(12, y + 1, task) + text(left - 14, y + 1, unit, "note end"))
        body.append(f'<path class="span" d="M{across(low):g} {y - 4}H{across(high):g}"/>')
        for kind, value in (("none", none), ("mlm", mlm), ("rtd", rtd)):
            # two marks at one place stand above each other
            shift = {"mlm": -4, "rtd": 4}.get(kind, 0) if abs(mlm - rtd) < 2.5 and kind != "none" else 0
            title = f"<title>{escape(task)}, {kind}: {value}</title>"
            body.append(f'<circle class="{kind}" cx="{across(value):g}" cy="{y - 4 + shift}" r="6">{title}</circle>')
    y = bottom + 34
    for x, kind, words in (
        (18, "none", "no network (most frequent tag; TF-IDF, overlap)"),
        (362, "mlm", "masked LM (budget-mlm)"),
        (552, "rtd", "RTD (budget-tiny)"),
    ):
        body.append(f'<circle class="{kind}" cx="{x}" cy="{y - 4}" r="6"/>' + text(x + 12, y + 1, words, "note"))
    return page(740, y + 18, "Scores of two encoders trained for an hour, and of baselines without a network", body)


def words(y: float, row: tuple[str, ...], marked: tuple[int, ...] = (), kind: str = "changed") -> list[str]:
    """A row of tokens in boxes."""
    made = []
    for number, word in enumerate(row):
        x = 150 + 112 * number
        made.append(
            f'<rect class="{kind if number in marked else "box"}" x="{x}" y="{y}" width="102" height="28" rx="5"/>'
            + text(x + 51, y + 19, word, "middle code")
        )
    return made


def electra() -> str:
    """One training step from top to bottom."""
    original = ("the", "chef", "cooked", "the", "meal")
    body = [
        text(12, 39, "text", "bold"),
        *words(20, original),
        text(12, 99, "masked", "bold"),
        text(12, 115, "50 % falling to 15 %", "note"),
        *words(80, ("[MASK]", "chef", "[MASK]", "the", "meal"), (0, 2), "generator"),
        '<rect class="generator" x="150" y="132" width="550" height="58" rx="6"/>',
        text(425, 155, "generator: a quarter of the width, softmax over the vocabulary", "middle bold"),
        text(425, 176, "loss 1: masked language modelling, at the masked positions", "middle note"),
        text(12, 237, "one sample", "bold"),
        text(12, 253, "no gradient here", "note"),
        *words(220, ("the", "chef", "ate", "the", "meal"), (2,)),
        '<rect class="discriminator" x="150" y="272" width="550" height="58" rx="6"/>',
        text(425, 295, "discriminator: the encoder that you keep", "middle bold"),
        text(425, 316, "loss 2, times 50: replaced or original, at every token", "middle note"),
        text(12, 377, "label", "bold"),
        *words(360, ("original", "original", "replaced", "original", "original"), (2,)),
        text(150, 410, "The generator guessed “the” correctly, so that token counts as original.", "note"),
    ]
    for start, end in ((48, 80), (108, 132), (190, 220), (248, 272), (330, 360)):
        body.append(f'<path class="line" marker-end="url(#head)" d="M425 {start}V{end - 1}"/>')
    body.append('<path class="line dashed" d="M700 161H722V301H700"/>')
    body.append(text(734, 228, "shared", "note") + text(734, 244, "embeddings", "note"))
    return page(812, 426, "One training step of replaced token detection, from text to labels", body)


def main() -> None:
    """Write both pictures."""
    (PICTURES / "hour.svg").write_text(hour(), encoding="utf-8")
    (PICTURES / "electra.svg").write_text(electra(), encoding="utf-8")


if __name__ == "__main__":
    main()
