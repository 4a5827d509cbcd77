"""What a budget would buy: measured, written, and nothing trained."""

from __future__ import annotations

from pathlib import Path

import pytest

import electra
from electra.commands.framework.main import main
from electra.commands.parts.estimates import Plan, PlanOption, at_size, duration
from electra.commands.parts.recipes import compose
from electra.exchange.convert import export
from electra.exchange.load import load
from electra.exchange.longer import lengthen
from electra.foundation.errors import ConfigError, CorpusError
from electra.training.experience import expected, runs
from electra.training.recipe import make_recipe, read_recipe

SMALL = {
    "training.length": 16,
    "training.batch_size": 4,
    "model.dropout": 0.1,
}  # dropout: nothing is compiled


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for name in range(40):
        lines = [f"the chef cooked meal number {name} of {line} for the guests" for line in range(60)]
        (folder / f"{name}.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("electra.commands.parts.estimates.map_in_order", here)
    monkeypatch.setattr("electra.training.estimate.SECONDS", 0.01)


def here(make, arguments, items, processes, threads):  # type: ignore[no-untyped-def]
    """In this process."""
    yield from map(make(*arguments), items)


def test_a_plan_of_text_and_its_recipe(corpus: Path, tmp_path: Path) -> None:
    made = electra.plan(corpus, budget="200steps", sizes=("tiny", "mini"), overrides=SMALL, progress="quiet")
    assert made.vocab_size < 8192, "as many entries as the text supports"
    tiny, mini = made.options
    assert tiny.steps == mini.steps == 200 and tiny.tokens == 200 * 4 * 16
    assert tiny.epochs == pytest.approx(tiny.tokens / made.corpus_tokens)
    assert mini.cost.encoder_parameters > 3 * tiny.cost.encoder_parameters and mini.flops > 2 * tiny.flops
    assert made.best is tiny, "neither is fed"
    assert mini.recipe.training.learning_rate == tiny.recipe.training.learning_rate / 2
    recipe = made.write(tmp_path / "mine.toml")
    written = make_recipe(read_recipe(recipe))
    assert written.model.size == "tiny" and written.training.budget == "200steps"
    assert written.tokenizer.vocab_size == made.vocab_size
    assert made.write(recipe) == recipe, "the same once more is fine"
    with pytest.raises(ConfigError) as caught:
        made.write(recipe, mini)
    assert caught.value.where == str(recipe)
    store = electra.prepare(corpus, out=tmp_path / "store", vocab_size=made.vocab_size, progress="quiet")
    exact = store.tokens.train.num_tokens + store.tokens.heldout.num_tokens
    assert made.corpus_tokens == pytest.approx(exact, rel=0.05)
    assert electra.plan(store, budget="9steps", sizes=("tiny",), overrides=SMALL).corpus_tokens == (
        store.tokens.train.num_tokens
    )


def test_a_dry_run_writes_nothing(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--budget", "50steps", "--training.length", "16", "--training.batch-size", "4", "--dry-run"]
    flags += ["--out", str(tmp_path / "run")]
    assert main(["pretrain", "--corpus", str(corpus), *flags]) == 0
    said = capsys.readouterr().out
    assert 'budget = "50steps"' in said and "length = 16" in said
    assert "updates               50\n" in said and "memory" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_dry_run_starts_from_the_model_given(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for network in ("discriminator", "generator"):
        export(lengthen(load("tiny-en", network), 1024), tmp_path / "longer" / network, "tiny-en")  # type: ignore[arg-type]
    flags = [
        "--init",
        str(tmp_path / "longer"),
        "--recipe",
        "continue",
        "--training.length",
        "1024",
        "--dry-run",
    ]
    flags += ["--training.batch-size", "1", "--budget", "9steps", "--out", "none"]
    assert main(["pretrain", "--corpus", str(corpus), *flags]) == 0
    assert "1 x 1024\n" in capsys.readouterr().out


@pytest.mark.slow
def test_plan_recommends_a_size(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.toml"
    command = [
        "plan",
        str(corpus),
        "--budget",
        "2steps",
        "--sizes",
        "tiny",
        "--recipe",
        "tiny",
        "--out",
        str(out),
    ]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "tiny *" in said and f"electra pretrain {corpus} --recipe {out}" in said and out.exists()


def test_a_wrong_size_budget_or_corpus_is_named(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        electra.plan(corpus, budget="2h", sizes=("huge",))
    assert caught.value.key == "sizes" and "huge" in caught.value.what
    with pytest.raises(ConfigError, match="2 hours"):
        electra.plan(corpus, budget="2 hours")
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(CorpusError):
        electra.plan(tmp_path / "empty.txt", budget="2h", sizes=("tiny",))


@pytest.mark.slow
def test_the_purpose_chooses_the_recipe(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = {
        purpose: electra.plan(corpus, budget="9steps", purpose=purpose, sizes=("tiny",), overrides=SMALL)
        for purpose in (None, "pairs", "tags", "both")
    }
    names = {purpose: plan.best.recipe.objective["name"] for purpose, plan in made.items()}
    assert names == {None: "rtd", "pairs": "rtd", "tags": "mlm", "both": "rtd_mlm"}
    assert main(["plan", str(corpus), "--budget", "2steps", "--sizes", "tiny", "--purpose", "tags"]) == 0
    assert "--recipe budget-mlm --model.size tiny" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="Did you mean 'tags'"):
        electra.plan(corpus, budget="2h", purpose="tag")
    with pytest.raises(ConfigError) as caught:
        electra.plan(corpus, budget="2h", purpose="tags", recipe="tiny")
    assert caught.value.key == "purpose"


def test_the_largest_size_with_enough_tokens_is_best() -> None:
    def option(parameters: int, steps: int, epochs: float) -> PlanOption:
        from electra.training.estimate import Estimate

        sizes = {"layers": 1, "hidden_size": 8, "parameters": {}, "encoder_parameters": parameters}
        rest = {
            "seconds_per_update": 1.0,
            "flops_per_update": 1.0,
            "memory": 1,
            "disk": 1,
            "threads": 1,
            "rows": 1,
        }
        cost = Estimate(**sizes, **rest, tokens_per_update=100, device="cpu", precision="fp32")  # type: ignore[arg-type]
        return PlanOption(compose("tiny", {}), cost, steps, epochs, None)

    def best(*options: PlanOption) -> int:
        return Plan("", 1, 1, options, is_store=True).best.cost.encoder_parameters

    assert best(option(10, 10, 1), option(50, 10, 1), option(51, 10, 1)) == 50, "1,000 tokens feed 50"
    assert best(option(10, 10, 1), option(50, 10, 160)) == 10, "but not text that is read 160 times"
    assert best(option(100, 10, 1), option(60, 10, 1)) == 60


def test_the_learning_rate_follows_the_width() -> None:
    base = compose("budget-tiny", {})
    assert at_size(base, "mini", {}).training.learning_rate == base.training.learning_rate / 2
    chosen = {"training.learning_rate": 3e-3}
    assert at_size(compose("budget-tiny", chosen), "mini", chosen).training.learning_rate == 3e-3


def test_expected_scores_come_from_recorded_runs() -> None:
    found = expected("rtd", "modern", 4, 128, flops=1e14)
    assert found is not None and found.values["auc"] == (0.796, 0.806) and "AUC 0.796 to 0.806" in str(found)
    assert expected("rtd", "modern", 4, 128, flops=1e18) is None
    assert expected("rtd", "electra", 4, 128, flops=1e14) is None
    results = Path(__file__).parents[2] / "results"
    assert all((results / run["kept"]).is_dir() for run in runs()), "each has its record"


@pytest.mark.parametrize(
    ("seconds", "told"), [(90, "90 s"), (750, "12.5 min"), (9000, "2.5 h"), (864_000, "10 days")]
)
def test_durations_have_a_fitting_unit(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_a_generator_alone_does_not_size_the_discriminator(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        "--training.length",
        "16",
        "--training.batch-size",
        "2",
        "--budget",
        "9steps",
        "--dry-run",
        "--out",
        "none",
    ]
    begin = ["--corpus", str(corpus), "--tokenizer.source", "tiny-en", "--init-generator", "tiny-en"]
    shape = ["--model.layers", "1", "--model.hidden-size", "128", "--model.encoder", "modern"]
    assert main(["pretrain", *begin, *shape, *flags]) == 0
    assert "layers                1 x 128\n" in capsys.readouterr().out


def test_a_recipe_is_not_written_over_a_folder(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(corpus), "--budget", "9steps", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "folder" in told.err and "documents" not in told.out, "before anything is measured"
