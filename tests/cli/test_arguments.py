"""Switches may be spelled out, as recipes and other programs have them."""

from __future__ import annotations

import re

import pytest

from electra.commands.cli import detect, pretrain
from electra.commands.cli.arguments import parse
from electra.commands.cli.main import main
from electra.foundation.errors import ConfigError


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--tokenizer.lowercase", "False"], False),
        (["--tokenizer.lowercase=false"], False),
        (["--tokenizer.no-lowercase"], False),
        (["--tokenizer.lowercase", "True"], True),
        (["--tokenizer.lowercase"], True),
        ([], True),
    ],
)
def test_a_switch_in_every_spelling(argv: list[str], expected: bool) -> None:
    assert pretrain.parse([*argv, "--budget", "5steps"]).recipe.tokenizer.lowercase is expected


def test_switches_of_objectives_and_with_underscores() -> None:
    made = pretrain.parse(
        [
            "--objective.name",
            "rtd",
            "--objective.sampling_dropout",
            "False",
            "--training.bias_correction=False",
        ]
    ).recipe
    assert made.objective["sampling_dropout"] is False and made.training.bias_correction is False


def test_no_other_word_is_taken_for_an_answer() -> None:
    made = parse(detect.Arguments, ["model", "True", "--json"], verb="detect", description="")
    assert (made.text, made.json) == ("True", True)
    with pytest.raises(ConfigError):
        pretrain.parse(["--tokenizer.lowercase", "maybe"])


@pytest.mark.parametrize(
    ("verb", "shown"), [("detect", "MODEL [TEXT]"), ("predict", "MODEL FILE"), ("prepare", "CORPUS")]
)
def test_positional_arguments_are_called_by_their_names(
    verb: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert capsys.readouterr().out.splitlines()[0].endswith(shown)


def test_what_most_users_choose_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--objective.name", "mlm"]):
        with pytest.raises(SystemExit):
            main(["pretrain", *words, "--help"])
        first, *sections = re.split(r"(?m)^\W*(?:\w+ )?options\W*$", capsys.readouterr().out)[1:]
        for option in ("--model.size", "--objective.name"):
            assert option in first and option not in "".join(sections)
    made = pretrain.parse(["--model.size", "mini", "--objective.name", "mlm", "--budget", "5steps"]).recipe
    assert (made.model.size, made.objective["name"]) == ("mini", "mlm"), "after --help as before"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "abc"], "--epochs: 'abc' is not a number"),
        (["--clip", "x"], "--clip: 'x' is not a number"),
        (["--batch-size", "1.5"], "--batch-size: '1.5' is not a whole number"),
        (["--max-length", "x"], "--max-length: 'x' is not a whole number"),
        (["--keep", "worst"], "--keep: 'worst' is not one of best, median"),
        (["--pooling", "x"], "--pooling: 'x' is not one of cls, last, max, mean"),
        (["--search"], "--search needs a value"),
    ],
)
def test_a_wrong_value_is_named_in_plain_words(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["finetune", "m", "--task", "cola", "--data", "d", "--out", "o", *words]) == 2
    assert capsys.readouterr().err == f"error: {message}. See electra finetune --help\n"
