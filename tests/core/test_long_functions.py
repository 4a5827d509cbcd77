"""Functions are short enough to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "electra"
LONGEST = 60  # lines
LONG = {  # one sequence of steps each, which parts would hide
    "training/assemble.py": {"build_run", "start"},
    "objectives/parts/vocabulary.py": {"forward"},
    "finetuning/train/dataset.py": {"read_dataset"},
    "finetuning/train/saved_model.py": {"save_model"},
}


def test_functions_are_short_but_for_a_few() -> None:
    for path in SOURCE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        long = {each.name for each in functions if (each.end_lineno or 0) - each.lineno >= LONGEST}
        assert long == LONG.get(str(path.relative_to(SOURCE)), set())
