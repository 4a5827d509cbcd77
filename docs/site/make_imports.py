"""Draw docs/pictures/imports.svg: which room imports which, read from the code.

    python docs/site/make_imports.py

A room stands above all that it imports, so every arrow points down; a circle of imports is an error. Arrows
that follow from others are faint.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, PICTURE = ROOT / "src" / "electra", ROOT / "docs" / "pictures" / "imports.svg"
WIDTH, ROW, BOX, HEIGHT, TOP = 760, 78, 116, 32, 24
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1b1f24; text-anchor: middle; dominant-baseline: central; }
.note { font-size: 12px; fill: #59636e; text-anchor: start; }
.room { fill: #ffffff; stroke: #59636e; } .core { fill: #eef4fb; }
.line { fill: none; stroke: #0969da; stroke-width: 1.4; } .implied { stroke: #8c959f; stroke-opacity: .35; }
marker path { fill: #0969da; } .end { stroke: #8c959f; stroke-dasharray: 5 4; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .note { fill: #9198a1; } .room { fill: #161b22; stroke: #9198a1; }
  .core { fill: #14243a; }
  .line { stroke: #58a6ff; } .implied { stroke: #7d8590; } marker path { fill: #58a6ff; }
}
"""


@cache
def imports() -> dict[str, set[str]]:
    """Room -> the rooms that it imports."""
    rooms = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file())
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for room in rooms:
        for file in sorted((SOURCE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                for name in names:
                    package, _, rest = name.partition(".")
                    other = rest.partition(".")[0]
                    if package == "electra" and other in found and other != room:
                        found[room].add(other)
    return found


def core() -> list[str]:
    """The rooms that docs/architecture.md counts to the core."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("the core ends here")[0]
    return re.findall(r"^\| `(\w+)/` \|", text, re.M)


def levels(rooms: Mapping[str, set[str]], lowest: list[str]) -> dict[str, int]:
    """How high each room stands. Raises CycleError where rooms import each other."""
    height: dict[str, int] = {}
    for room in TopologicalSorter(rooms).static_order():
        height[room] = 1 + max((height[other] for other in rooms[room]), default=-1)
    above = 1 + max(height[room] for room in lowest)
    return {room: level if room in lowest else max(level, above) for room, level in height.items()}


def implied(rooms: Mapping[str, set[str]], room: str, other: str) -> bool:
    """Whether a further way of imports leads from `room` to `other`."""
    todo, seen = [each for each in rooms[room] if each != other], set()
    while todo:
        if (each := todo.pop()) == other:
            return True
        todo += [further for further in rooms[each] if not (further in seen or seen.add(further))]
    return False


def draw() -> str:
    """Return the text of the picture."""
    rooms, lowest = imports(), core()
    height = levels(rooms, lowest)
    rows: dict[int, list[str]] = {}
    for room, level in sorted(height.items(), key=lambda each: (-len(rooms[each[0]]), each)):
        rows.setdefault(level, []).append(room)
    most = max(rows)
    place = {
        room: (WIDTH * (i + 1) // (len(row) + 1), TOP + (most - level) * ROW)
        for level, row in rows.items()
        for i, room in enumerate(row)
    }
    lines, boxes = [], []
    for room, others in sorted(rooms.items()):
        for other in sorted(others):
            (x, y), (to, end) = place[room], place[other]
            y, end = y + HEIGHT // 2, end - HEIGHT // 2 - 6
            kind = "line implied" if implied(rooms, room, other) else "line"
            curve = f"M{x} {y}C{x} {y + (end - y) * 3 // 4} {to} {end - ROW // 2} {to} {end}"
            arrow = "" if "implied" in kind else ' marker-end="url(#head)"'
            title = f"<title>{room} imports {other}</title>"
            lines.append((kind, f'<path class="{kind}" d="{curve}"{arrow}>{title}</path>'))
    for room, (x, y) in sorted(place.items()):
        kind = "room core" if room in lowest else "room"
        box = f'x="{x - BOX // 2}" y="{y - HEIGHT // 2}" width="{BOX}" height="{HEIGHT}" rx="6"'
        boxes.append(f'<rect class="{kind}" {box}/><text x="{x}" y="{y}">{escape(room)}</text>')
    alt = "The packages of electra; each imports only packages below it"
    size = f'viewBox="0 0 {WIDTH} {TOP * 2 + most * ROW}" role="img" aria-label="{alt}"'
    head = 'id="head" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    border = TOP + (most - max(height[room] for room in lowest)) * ROW - ROW // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f"<style>{STYLE}</style>",
        f'<defs><marker {head}><path d="M0 0L8 4L0 8z"/></marker></defs>',
        f'<path class="end" d="M0 {border}H{WIDTH}"/>',
        f'<text class="note" x="4" y="{border + 12}">the core</text>',
        *(line for _, line in sorted(lines, reverse=True)),
        *boxes,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    sys.stdout.write(f"{PICTURE}\n")
