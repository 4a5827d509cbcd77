"""The core without the laboratory and serving: every module can be imported, and its tests pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_imports import CORE, ROOMS, ROOT, SOURCE

ABOVE = [room for room in ROOMS if room not in {*CORE, "testing", "__init__", "__main__"}]
TESTS = [
    "tests/data/test_batches.py",
    "tests/data/test_tokenizer.py",
    "tests/model",
    "tests/objectives/test_rtd.py",
    "tests/objectives/test_contract.py",
    "tests/training/test_optimizer.py",
    "tests/interop/test_huggingface.py",
    "tests/finetuning/test_metrics.py",
    "tests/finetuning/test_task_contract.py",
]
IMPORT = """
import importlib, pkgutil, sys
import electra
for room in sys.argv[1:]:
    package = importlib.import_module(f"electra.{room}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:  # a library that not everybody has
            if missing.name.startswith("electra"):
                raise
print(electra.__file__)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which electra is a copy that lacks everything above the core."""
    folder = tmp_path_factory.mktemp("core")
    shutil.copytree(SOURCE, folder / "electra", ignore=shutil.ignore_patterns("__pycache__"))
    for room in ABOVE:
        shutil.rmtree(folder / "electra" / room)
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.mark.slow
def test_every_core_module_imports_without_the_upper_layers(alone: dict[str, str]) -> None:
    output = subprocess.run(
        [sys.executable, "-c", IMPORT, *CORE], env=alone, capture_output=True, text=True, check=False
    )
    assert output.returncode == 0, output.stderr
    assert Path(output.stdout.strip()).is_relative_to(alone["PYTHONPATH"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_core_tests_pass_without_the_upper_layers(alone: dict[str, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not cuda",
    ]
    output = subprocess.run(
        [*command, *TESTS], env=alone, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert output.returncode == 0, output.stdout[-4000:]
