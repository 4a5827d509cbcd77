"""The rooms' import directions, the rule against unsafe calls, and quick starts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "electra"
LEAVES = {"errors", "seeds", "machine", "durable", "signals", "config", "extensions"}
MAY_IMPORT: dict[str, set[str]] = {  # room -> rooms; leaves are open to all
    "errors": set(),
    "seeds": set(),
    "machine": set(),
    "durable": set(),
    "signals": set(),
    "config": set(),
    "extensions": set(),
    "artifacts": set(),
    "data": set(),
    "model": set(),
    "labelled": {"data"},
    "objectives": {"model", "data"},
    "training": {"objectives", "model", "data"},
    "interop": {"model", "data"},
    "finetuning": {"labelled", "training", "model", "data", "interop"},
    "analysis": {"labelled", "objectives", "model", "data", "interop"},
    "ablation": {"labelled", "training", "finetuning", "objectives", "interop", "model", "data"},
    "evaluation": {"labelled", "finetuning", "analysis", "interop", "training", "model", "data"},
    "report": set(),
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = (
                [node.module or ""]
                if node.module != "electra"
                else [f"electra.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("electra.")}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_rooms_import_only_what_the_house_allows(path: Path) -> None:
    room = room_of(path)
    if room in ("cli", "testing", "__main__", "__init__"):
        return
    open_to_all = LEAVES if room in LEAVES else LEAVES | {"artifacts"}
    assert imported_rooms(path) <= MAY_IMPORT[room] | open_to_all | {room}


FORBIDDEN = (
    "import pickle",
    "allow_pickle=True",
    "shell=True",
    "extractall(",
    "trust_remote_code",
    "yaml.load",
)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_unsafe_and_nothing_heavy_at_import(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [word for word in FORBIDDEN if word in text]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "print"), f"{path}:{node.lineno}"
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "load"
            and isinstance(node.value, ast.Name)
            and node.value.id == "torch"
        ):
            assert path.relative_to(SOURCE) == Path("interop/load.py"), f"{path}:{node.lineno}: torch.load"


QUICK = """
import sys
from electra.cli.main import main
for verb in ("", "pretrain", "prepare", "finetune", "detect", "report", "ablate"):
    arguments = [verb, "--help"] if verb else ["--help"]
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = ended.code
    assert not code, (arguments, code)
heavy = {"torch", "transformers", "sklearn", "scipy", "matplotlib", "datasets", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""


def test_help_needs_no_torch() -> None:
    ended = subprocess.run([sys.executable, "-c", QUICK], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
