"""A command line becomes a command: switches in every spelling, sections, what is wrong in one line."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

import electra
from electra.commands.detect import Detect
from electra.commands.finetune import Finetune
from electra.commands.framework.help import summary
from electra.commands.framework.main import class_of, commands, main
from electra.commands.framework.parser import parse
from electra.commands.prepare import Prepare
from electra.commands.pretrain import Pretrain
from electra.data.settings import TokenizerConfig
from electra.finetuning.settings import Settings
from electra.foundation.errors import ConfigError
from electra.training.recipe import TrainingSection

RUN = ["texts/", "--out", "run", "--budget", "5steps"]


def overrides(*words: str) -> dict[str, object]:
    return dict(parse(Pretrain, [*RUN, *words])[0].overrides or {})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--tokenizer.lowercase", "False"], False),
        (["--tokenizer.lowercase=false"], False),
        (["--tokenizer.no-lowercase"], False),
        (["--no-lowercase"], False),
        (["--tokenizer.lowercase", "True"], True),
        (["--lowercase"], True),
        ([], None),
    ],
)
def test_a_switch_in_every_spelling(words: list[str], expected: bool | None) -> None:
    assert overrides(*words).get("tokenizer.lowercase") is expected


def test_only_typed_settings_are_overrides_under_any_of_their_names() -> None:
    assert overrides("--learning_rate=1e-3", "--training.batch_size", "8", "--tokenizer", "x") == {
        "training.learning_rate": 1e-3,
        "training.batch_size": 8,
        "tokenizer.source": "x",
    }
    assert overrides("--objective", "mlm", "--objective.mask-fraction", "0.2") == {
        "objective.name": "mlm",
        "objective.mask_fraction": 0.2,
    }


def test_options_of_sections_are_flat_where_a_command_has_no_recipe() -> None:
    words = ["texts/", "--out", "store", "--tokenizer.vocab-size", "60", "--data.unit", "line"]
    made, _ = parse(Prepare, words)
    assert (made.vocab_size, made.unit) == (60, "line")
    assert inspect.signature(electra.prepare).parameters["vocab_size"].default == TokenizerConfig.vocab_size


@pytest.mark.parametrize("settings", [{"unit": "line", "vocab_size": 60}, {"heldout": 0.1}])
def test_prepare_takes_settings_as_overrides_too(settings: dict[str, Any]) -> None:
    sections = {"vocab_size": "tokenizer", "unit": "data", "heldout": "data"}
    dotted = {f"{sections[name]}.{name}": value for name, value in settings.items()}
    flat, nested = Prepare("t", out="o", **settings), Prepare("t", out="o", overrides=dotted)
    assert flat == replace(nested, overrides=None, **settings)
    assert Prepare("t", out="o", overrides={"tokenizer.source": "tiny-en"}).tokenizer == "tiny-en"


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"data.units": "line"}, "data.units"),
        ({"data.unit": "page"}, "data.unit"),
        ({"training.steps": 3}, "training.steps"),
        ({"data.unit": "line"}, "data.unit"),
        (5, "overrides"),
    ],
)
def test_wrong_overrides_of_prepare_are_named(overrides: Any, field: str) -> None:
    unit = {"unit": "blank-line"} if overrides == {"data.unit": "line"} else {}
    with pytest.raises(ConfigError) as caught:
        electra.prepare("t", out="o", overrides=overrides, **unit)  # type: ignore[arg-type]
    assert field in (caught.value.where, caught.value.key)


def test_several_values_end_at_the_next_option() -> None:
    made, dry = parse(Pretrain, ["--corpus", "a", "b", "--out", "run", "--dry-run"])
    assert made.data == ("a", "b") and dry
    assert parse(Pretrain, ["a", "b", "--out", "run"])[0].data == ("a", "b")


def test_no_other_word_is_taken_for_an_answer() -> None:
    made, _ = parse(Detect, ["model", "True", "--json"])
    assert (made.texts, made.json) == ("True", True)
    made, _ = parse(Detect, ["model", "--json", "- a text", "--threshold", "-1"])
    assert (made.texts, made.threshold) == ("- a text", -1)
    with pytest.raises(ConfigError):
        parse(Detect, ["model", "a text", "--json", "maybe"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--epochs", "abc"], "--epochs: 'abc' is not a number"),
        (["--batch-size", "1.5"], "--batch-size: '1.5' is not a whole number"),
        (["--pooling", "x"], "--pooling: 'x' is not one of cls, mean, max, last"),
        (["--search"], "--search: "),
        (["--lr", "1"], "Did you mean --learning-rate?"),
        (["--max-grad-norm", "1"], "Did you mean --clip?"),
        (["--max-seq-length", "1"], "Did you mean --max-length?"),
        (["--epoch", "1"], "Did you mean --epochs?"),
        (["--epochs", "1", "--epochs", "2"], "--epochs:"),
        (["more"], "unexpected argument 'more'"),
        (["--no-ensembl"], "Did you mean --no-ensemble?"),
    ],
)
def test_a_wrong_option_is_named_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["finetune", "m", "--task", "cola", "--data", "d", "--out", "o", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and "electra finetune --help" in error


def test_missing_arguments_are_named_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", "texts/"]) == 2
    assert "needs --out. For example: electra pretrain" in capsys.readouterr().err
    assert main(["pretrain", "--out", "run"]) == 2
    assert "electra pretrain texts/" in capsys.readouterr().err


def test_python_shows_every_option_with_its_type_and_default() -> None:
    signature = inspect.signature(electra.finetune)
    assert next(iter(signature.parameters)) == "model" and list(signature.parameters)[-1] == "progress"
    epochs, init = signature.parameters["epochs"], signature.parameters["init"]
    assert epochs.default is None and float in get_args(epochs.annotation)
    assert init.default == "pretrained" and get_args(init.annotation) == ("pretrained", "random")
    assert signature.parameters["task"].default is inspect.Parameter.empty
    assert "epochs: Passes over the training data" in (electra.finetune.__doc__ or "")


def test_python_refuses_a_wrong_type_by_name() -> None:
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
    assert "no-clip-separately" not in usual
    assert "--training.bias-correction, --training.no-bias-correction" in usual


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (["--floors"], "baselines", True),
        (["--no-floors"], "baselines", False),
        (["--random-twin"], "untrained_baseline", True),
        (["--also", "a.csv", "--also", "b.csv"], "extra_eval", (Path("a.csv"), Path("b.csv"))),
        (["--keep", "median"], "keep_seed", "median"),
        (["--apart"], "train_separately", True),
    ],
)
def test_names_of_the_last_release_work_with_a_note(
    old: list[str],
    new: str,
    value: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made: list[Finetune] = []
    monkeypatch.setattr(Finetune, "main", lambda self: made.append(self) or 0)
    assert main(["finetune", "m", "--task", "cola", "--data", "d", "--out", "o", *old]) == 0
    assert getattr(made[0].part(Settings), new) == value
    assert capsys.readouterr().err.startswith(f"note: {old[0]} ")


def test_help_is_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing stands under two headings, and what reproduces the paper stands apart."""
    assert main(["finetune", "--help"]) == 0
    page = capsys.readouterr().out
    groups = re.split(r"\n\n(?=[A-Z][^\n]*:\n)", page)
    listed = [re.findall(r"^  (--[\w-]+)", group, re.M) for group in groups]
    flags = [flag for group in listed for flag in group]
    assert len(groups) > 6 and len(flags) == len(set(flags)) > 40
    assert ["--reference-decay"] in listed and max(map(len, listed)) < 15


HEAVY = {"torch", "numpy", "tokenizers", "transformers", "pyarrow", "rich", "multiprocessing", "socket"}
COUNTED = """
import sys
from electra.commands.framework.help import summary
from electra.commands.framework.main import class_of, commands, main
before = len(sys.modules)
main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
"""


def modules_of_help(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *words, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout
    return set(done.stderr.split())


def test_the_overview_reads_the_commands_without_importing_them() -> None:
    modules = modules_of_help()
    assert not modules & HEAVY
    assert {name for name in modules if name.startswith("electra.commands.")} == {
        "electra.commands.framework",
        "electra.commands.framework.help",
        "electra.commands.framework.main",
        "electra.commands.framework.command",
        "electra.commands.framework.display",
        "electra.commands.framework.renames",
        "electra.commands.framework.output",
    }


@pytest.mark.parametrize("command", ["pretrain", "distil", "serve"])
def test_help_of_a_command_imports_few_modules(command: str) -> None:
    modules = modules_of_help(command)
    assert not modules & HEAVY and "argparse" not in modules
    assert not any(name.startswith(("electra.artifacts", "electra.exchange")) for name in modules)
    assert sum(name.startswith("electra") for name in modules) < 40


@pytest.mark.parametrize("command", commands())
def test_the_overview_says_what_the_commands_declare(command: str) -> None:
    file = commands()[command]
    declared = class_of(file)
    assert summary(file) == (declared.GROUP, (inspect.getdoc(declared) or "").splitlines()[0])


def test_help_of_a_command_has_two_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "finetune"]) == 0
    words = capsys.readouterr().out
    assert main(["finetune", "--help"]) == 0 and words == capsys.readouterr().out
    assert main(["help", "finetun"]) == 2 and "unknown command 'finetun'" in capsys.readouterr().err
