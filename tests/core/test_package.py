"""The wheel of `make dist` contains the package and no tests, and works without extras."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import driven
import pytest

from electra.commands.framework.main import COMMANDS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.package
NEEDED = ["py.typed", "training/recipes/budget-tiny.toml"]
MODELS = ROOT / "src" / "electra" / "inference" / "models"
NEEDED += [f"inference/models/{path.relative_to(MODELS)}" for path in MODELS.rglob("*") if path.is_file()]
NEEDED += ["pages/page.html.j2", "pages/metric_titles.toml", "laboratory/ablation/studies/objectives.toml"]


def newest(pattern: str) -> Path:
    [output] = (ROOT / "dist").glob(pattern)
    return output


def test_the_wheel_contains_the_package_and_no_tests() -> None:
    names = zipfile.ZipFile(newest("*.whl")).namelist()
    assert [name for name in NEEDED if f"electra/{name}" not in names] == []
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"electra", "electra_encoder"}


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_the_installed_wheel_detects_shows_help_and_trains(pattern: str, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        quiet = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(words, cwd=tmp_path, env=quiet, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    run(sys.executable, "-m", "venv", "fresh")
    python, electra = str(tmp_path / "fresh/bin/python"), str(tmp_path / "fresh/bin/electra")
    run(python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(newest(pattern)))
    version = run(electra, "--version").split()[1]
    assert run(python, "-c", "import electra; print(electra.__version__)").strip() == version
    assert version in newest("*.whl").name
    assert "seven" in run(electra, "detect", "tiny-en", "--scorer", "language-model", "The capital of France is seven.")
    for verb in COMMANDS:
        run(electra, verb, "--help")
    driven.write_corpus(tmp_path / "text.txt")
    settings = [word for pair in (driven.SETTINGS | {"--training.steps": "4"}).items() for word in pair]
    settings += ["--tokenizer.vocab-size", "90"]
    settings += ["--data.unit", "line", "--data.heldout", "0.1", "--corpus", "text.txt", "--out", "run"]
    run(electra, "pretrain", *settings)
    assert (tmp_path / "run" / "discriminator" / "model.safetensors").is_file()
