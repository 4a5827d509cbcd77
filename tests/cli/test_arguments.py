"""A command line becomes a command: switches, sections, short names, help, and what is wrong in one line."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import electra
from electra.commands.detect import Detect
from electra.commands.finetune import Finetune
from electra.commands.framework.main import COMMANDS, class_of, main, summary
from electra.commands.framework.parser import parse
from electra.commands.prepare import Prepare
from electra.commands.pretrain import Pretrain
from electra.data.text_settings import TokenizerConfig
from electra.foundation.errors import ConfigError
from electra.training.recipe import TrainingSection

RUN = ["texts/", "--out", "run", "--budget", "5steps"]
TUNING = ["m", "--task", "cola", "--data", "d", "--out", "o"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--tokenizer.no-lowercase"], {"tokenizer.lowercase": False}),
        (["--no-lowercase"], {"tokenizer.lowercase": False}),
        (["--lowercase"], {"tokenizer.lowercase": True}),
        ([], {}),
        (["--learning_rate=1e-3"], {"training.learning_rate": 1e-3}),
        (["--training.batch-size", "4", "--batch-size", "8"], {"training.batch_size": 8}),
        (["--tokenizer", "x"], {"tokenizer.source": "x"}),
        (
            ["--objective", "mlm", "--objective.mask-fraction", "0.2"],
            {"objective.name": "mlm", "objective.mask_fraction": 0.2},
        ),
    ],
)
def test_only_typed_settings_are_overrides_under_any_of_their_names(words: list[str], expected: dict[str, Any]) -> None:
    assert dict(parse(Pretrain, [*RUN, *words])[0].overrides or {}) == expected


def test_options_of_sections_are_flat_where_a_command_has_no_recipe() -> None:
    words = ["texts/", "--out", "store", "--tokenizer.vocab-size", "60", "--data.unit", "line"]
    made, _ = parse(Prepare, words)
    assert (made.vocab_size, made.unit) == (60, "line")
    assert inspect.signature(electra.prepare).parameters["vocab_size"].default == TokenizerConfig.vocab_size


def test_words_are_values_texts_or_several_sources() -> None:
    made, dry = parse(Pretrain, ["--corpus", "a", "b", "--out", "run", "--dry-run"])
    assert made.data == ("a", "b") and dry
    assert parse(Pretrain, ["a", "b", "--out", "run"])[0].data == ("a", "b")
    tuning, _ = parse(Finetune, [*TUNING, "--text-column", "a", "--text-column", "b", "--columns", "x", "y"])
    assert (tuning.text_column, tuning.columns) == (("a", "b"), ("x", "y"))
    found, _ = parse(Detect, ["model", "--json", "- a text", "--threshold", "-1e9"])
    assert (found.texts, found.json, found.threshold) == (("- a text",), True, -1e9)
    assert parse(Detect, ["model", "-"])[0].texts == ("-",)
    assert parse(Finetune, [*TUNING, "--stride", "None"])[0].stride is None


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--epochs", "abc"], "--epochs: 'abc'"),
        (["--batch-size", "1.5"], "--batch-size: '1.5'"),
        (["--pooling", "x"], "--pooling: 'x'.*max"),
        (["--dev"], "--dev: "),
        (["--epoch", "1"], "--epoch.*--epochs"),
        (["more"], "more"),
        (["--multi-label", "maybe"], "maybe"),
        (["--multi-label=maybe"], "--multi-label"),
        (["--no-baseline"], "--no-baselines"),
    ],
)
def test_a_wrong_option_is_named_in_one_line(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["finetune", *TUNING, *words]) == 2
    error = capsys.readouterr().err
    assert re.search(named, error) and error.count("\n") == 1 and "electra finetune --help" in error


def test_a_name_in_two_sections_wants_its_section() -> None:
    with pytest.raises(ConfigError, match=r"--objective\.mask-fraction or --evaluation\.mask-fraction"):
        parse(Pretrain, [*RUN, "--objective", "mlm", "--mask-fraction", "0.2"])


def test_python_shows_every_option_with_its_type_and_default() -> None:
    signature = inspect.signature(electra.finetune)
    epochs, init = signature.parameters["epochs"], signature.parameters["init"]
    assert next(iter(signature.parameters)) == "model"
    assert epochs.default is None and epochs.annotation == "float | None"
    assert init.default == "pretrained"
    assert signature.parameters["task"].default is inspect.Parameter.empty
    assert "epochs: Passes over the training data" in (electra.finetune.__doc__ or "")
    with pytest.raises(ConfigError, match=r"epochs.*many"):
        electra.finetune("m", task="cola", data="d", out="o", epochs="many")


TYPED = """
import electra
reveal_type(electra.finetune)
electra.finetune("m", task="pair", data="d", out="o", epochs=3)
electra.finetune("m", task="pair", data="d", out="o", epoch=3)
electra.pretrain("d", out="o", budget=3)
"""


@pytest.mark.slow  # mypy reads all that electra imports
def test_a_type_checker_knows_every_option(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(TYPED)
    words = ["-m", "mypy", "--follow-imports", "silent", str(tmp_path / "user.py")]
    said = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False).stdout
    assert "user.py:5: error" in said and "user.py:6: error" in said and "user.py:4: error" not in said
    assert "FineTuned" in said and "class_weights" in said


def test_help_shows_the_values_of_the_recipe_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", "--recipe", "tiny", "--help"]) == 0
    tiny = capsys.readouterr().out
    assert main(["pretrain", "--help"]) == 0
    usual = capsys.readouterr().out
    assert tiny != usual and f"(default: {TrainingSection.seed})" in usual
    assert "--training.bias-correction, --training.no-bias-correction" in usual


def test_help_is_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing stands under two headings."""
    assert main(["finetune", "--help"]) == 0
    page = capsys.readouterr().out
    groups = re.split(r"\n\n(?=\w[^\n]*:\n)", page)
    listed = [re.findall(r"^  (--[\w-]+)", group, re.M) for group in groups]
    flags = [flag for group in listed for flag in group]
    assert len(groups) > 6 and len(flags) == len(set(flags)) > 30
    assert max(map(len, listed)) < 15


HEAVY = {"torch", "numpy", "tokenizers", "transformers", "pyarrow", "rich", "multiprocessing", "socket"}
MODULES = """
import sys
from electra.commands.framework.main import main
main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["", "pretrain", "distil", "serve"])
def test_help_imports_few_modules(command: str) -> None:
    words = [sys.executable, "-c", MODULES, *command.split(), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    modules = set(done.stderr.split())
    assert done.stdout and not modules & HEAVY and (command or "argparse" not in modules)
    assert not any(name.startswith(("electra.artifacts", "electra.exchange")) for name in modules)
    imported = {name for name in modules if name.startswith("electra.commands.")}
    rooms = {name.split(".")[2] for name in imported}
    assert command or rooms == {"framework"}, "files are read, not imported"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_overview_says_what_the_commands_declare(command: str) -> None:
    assert summary(command) == (inspect.getdoc(class_of(command)) or "").splitlines()[0]
