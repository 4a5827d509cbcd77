"""The file names of our folders are spelled in the package artifacts and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "electra"
FILES = re.compile(
    r"(^|/)(run\.toml|metrics(\.cut)?\.jsonl|log\.txt|(audit|examples|score)\.json|(report|analysis)\.html|state\.json"
    r"|(store|shard)\.json|(train|heldout)?\.(ds|docs)(\.index)?|(model|head|optimizer|best)\.safetensors|config\.json"
    r"|pytorch_model\.bin|tokenizer(_config)?\.json|special_tokens_map\.json|vocab\.txt|README\.md|finetune\.json"
    r"|(all_)?results\.json|study\.json|evaluation\.(json|tsv|html)|.*\.probe\.json)$"
)
FOLDERS = {
    "checkpoints", "discriminator", "generator", "store", "tokenizer", "figures", "seeds", "model",
    "arms", "tasks", "probes",
}  # fmt: skip


def spelled(path: Path) -> Iterator[str]:
    """File names among the string constants; folder names only where a path is made: `out / "model"`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and FILES.search(node.value):
            yield f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            right = node.right
            if isinstance(right, ast.Constant) and str(right.value).partition("/")[0] in FOLDERS:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}: / {right.value!r}"


OTHERS = {"artifacts", "testing"}  # testing makes damaged and foreign files


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


@pytest.mark.slow
def test_file_names_are_spelled_only_in_artifacts() -> None:
    elsewhere = [path for path in sorted(SOURCE.rglob("*.py")) if room_of(path) not in OTHERS]
    others = re.compile(r"data/table_files\.py:\d+: state\.json")  # a file of the library `datasets`
    assert not [actual for path in elsewhere for actual in spelled(path) if not others.fullmatch(actual)]


def test_artifacts_spell_file_names() -> None:
    inside = [actual for path in (SOURCE / "artifacts").glob("*.py") for actual in spelled(path)]
    assert len(inside) > 40
