"""What a run that starts from trained weights takes from the recipe."""

from dataclasses import replace
from pathlib import Path

import pytest

from electra.artifacts.run_files import RunFolder
from electra.commands.framework.main import main
from electra.commands.prepare import prepare
from electra.commands.pretrain import pretrain
from electra.foundation.errors import ConfigError
from electra.model.sizes import SIZES as SHAPES
from electra.model.sizes import discriminator_config
from electra.training import estimate
from electra.training.assemble import SHARE_OF_RATE, open_request, preview_lines, with_shape
from electra.training.request import Request, TrainingText, compose


def test_trained_weights_continue_at_a_share_of_the_rate(tmp_path: Path) -> None:
    given = compose("tiny", {"training.generator_learning_rate": 1e-3}, "5steps")
    request = Request(given, TrainingText(store="store"), tmp_path / "new", "tiny-en", source="tiny")
    recipe, _ = open_request(request)
    rate = given.training.learning_rate * SHARE_OF_RATE
    assert recipe.training.learning_rate == pytest.approx(rate)
    assert recipe.training.generator_learning_rate == pytest.approx(1e-3 * SHARE_OF_RATE)
    RunFolder(tmp_path).write_record({"training": {"learning_rate": 5e-4}})  # begun by an older version
    recipe, _ = open_request(replace(request, out=tmp_path))
    assert (recipe.training.learning_rate, recipe.training.generator_learning_rate) == (5e-4, 1e-3)


def test_a_chosen_rate_is_not_touched(tmp_path: Path) -> None:
    mine, own = tmp_path / "mine.toml", tmp_path / "own.toml"
    mine.write_text('[model]\nsize = "tiny"\n')
    own.write_text("[training]\nlearning_rate = 1e-3\n")
    rate = ("training.learning_rate",)
    for source, given, is_set in (
        ("tiny", (), False),
        ("tiny", rate, True),
        (mine, (), False),
        (own, (), True),
    ):
        recipe = compose(source, dict.fromkeys(given, 3e-3), "5steps")
        out, text = tmp_path / "new", TrainingText(store="store")
        settled, _ = open_request(Request(recipe, text, out, "tiny-en", source=str(source), given=given))
        assert (settled.training.learning_rate == recipe.training.learning_rate) == is_set, source


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--init", "tiny-en", "--layers", "3"],
            "--model.layers: has no effect: the run starts from a model",
        ),
        (["--init", "tiny-en", "--model.size", "small"], "--model.size: has no effect"),
        (["--init", "tiny-en", "--encoder", "electra"], "--model.encoder: has no effect"),
        (["--init", "tiny-en", "--vocab-size", "300"], "encoded with the tokenizer of tiny-en"),
        (["--tokenizer.source", "tiny-en", "--no-lowercase"], "--tokenizer.lowercase: has no effect"),
        (["--hidden-size", "77"], "77 cannot be divided into attention heads"),
        (["--model.size", "huge"], "no size named 'huge'"),
    ],
)
def test_settings_without_effect_are_refused_before_anything_is_written(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("some words\n" * 50)
    out = tmp_path / "out"
    assert main(["pretrain", str(tmp_path / "text.txt"), "--out", str(out), "--steps", "2", *words]) == 2
    assert message in capsys.readouterr().err and not out.exists()


def test_the_shape_of_the_model_may_be_repeated() -> None:
    shape = SHAPES["tiny"]
    config = discriminator_config(shape, "electra", vocab_size=50, dropout=0.0, attention_dropout=0.0, pad_id=0)
    settings = {"model.layers": shape.num_layers, "model.hidden_size": shape.hidden_size}
    given = compose("tiny", settings, "5steps")
    assert with_shape(given, config, tuple(settings)).model.size == "tiny"
    with pytest.raises(ConfigError, match="has no effect"):
        with_shape(compose("tiny", {"model.layers": 1}, "5steps"), config, ("model.layers",))
    assert with_shape(compose("tiny", {"model.layers": 1}, "5steps"), config, ()).model.layers is None


def test_settings_that_a_prepared_store_does_not_have_are_refused(tmp_path: Path, no_figures: None) -> None:
    store, texts = tmp_path / "store", tmp_path / "texts.txt"
    texts.write_text("".join(f"text {number} of several words\n" for number in range(60)))
    prepare(texts, out=store, vocab_size=60, unit="line")
    for name, value in {"tokenizer.vocab_size": 61, "data.heldout": 0.2}.items():
        with pytest.raises(ConfigError, match="has no effect: the text is already prepared"):
            pretrain(store, out=tmp_path / "run", overrides={name: value, "training.steps": 1})
    assert not (tmp_path / "run").exists()
    same = {"tokenizer.vocab_size": 60, "tokenizer.kind": "wordpiece", "training.steps": 1}
    pretrain(store, out=tmp_path / "run", recipe="tiny", overrides=same)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Text to plan with; nothing is timed for long."""
    monkeypatch.setattr(estimate.measure, "__defaults__", (0.01,))  # seconds
    lines = [f"the chef cooked meal number {line % 97} of {line} for the guests" for line in range(600)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return tmp_path / "text.txt"


DRY = ["--training.length", "16", "--training.batch-size", "4", "--dry-run", "--out", "none"]
CASES = {
    "as the recipe says": ("--budget 50steps", "updates        50 (0.0 M tokens,"),
    "too little": ("--budget 50steps", "expect little better than chance"),
    "enough": ("--budget 9e6steps --recipe tiny --layers 1", "tokens per parameter"),
    "a budget, instead of the recipe's steps": (
        "--recipe paper-small --layers 1 --budget 50steps",
        "updates        50 (",
    ),
    "a time": ("--budget 3h", "time           3 h ("),
    "a start": ("--init tiny-en --recipe continue --budget 9steps", "layers         8 x 128, encoder modern"),
}


@pytest.mark.parametrize(("words", "told"), CASES.values(), ids=CASES)
def test_a_dry_run_says_what_it_costs_and_writes_nothing(
    words: str, told: str, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(corpus.parent)
    assert main(["pretrain", str(corpus), *DRY, *words.split()]) == 0
    assert told in capsys.readouterr().out
    assert list(corpus.parent.iterdir()) == [corpus]


@pytest.mark.parametrize(("budget", "size"), [("100000steps", "mini"), ("30000steps", "tiny"), ("900steps", "")])
def test_a_budget_too_small_names_the_size_that_fits(budget: str, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate.measure, "__defaults__", (0.01,))  # seconds
    shape = {"model.size": "small", "training.length": 16, "training.batch_size": 4}
    lines = preview_lines(compose("tiny", shape, budget), 100, 10**9)
    [told] = [line for line in lines if "expect little better than chance" in line]
    assert told.partition("--model.size ")[2] == size
