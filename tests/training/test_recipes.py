"""The recipes of the paper, number by number, and what the released code does differently, difference by
difference.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from electra.commands.framework.main import main
from electra.foundation.config import differences, find_recipe, merge, read_toml
from electra.foundation.errors import ConfigError
from electra.model.networks import Networks
from electra.model.pair import build_networks
from electra.model.sizes import discriminator_config, generator_config, resolve_size
from electra.testing import toy
from electra.training import loop
from electra.training.assemble import build_run
from electra.training.distributed import World
from electra.training.recipe import Recipe, make_recipe, recorded_recipe
from electra.training.request import compose

# Clark et al. 2020, Tables 6 and 7: layers, hidden, feed-forward, heads, embedding, generator's hidden size;
# mask share; peak rate, warm-up steps, batch, length, steps.
PAPER = {
    "small": ((12, 256, 1024, 4, 128, 64), 0.15, (5e-4, 10_000, 128, 128, 1_000_000)),
    "base": ((12, 768, 3072, 12, 768, 256), 0.15, (2e-4, 10_000, 256, 512, 766_000)),
    "large": ((24, 1024, 4096, 16, 1024, 256), 0.25, (2e-4, 10_000, 2048, 512, 400_000)),
}


def named(name: str) -> Recipe:
    return make_recipe(read_toml(find_recipe(name)))


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_numbers(name: str) -> None:
    shape, masked, (rate, warmup, batch, length, steps) = PAPER[name]
    recipe = named(f"paper-{name}")
    model, training, size = recipe.model, recipe.training, resolve_size(recipe.model.size)
    full = discriminator_config(
        size,
        model.encoder,
        vocab_size=30522,
        dropout=model.dropout,
        attention_dropout=model.attention_dropout,
        pad_id=0,
    )
    small = generator_config(full, model.generator_width or size.generator_width, model.generator_depth)
    names = ("num_layers", "hidden_size", "intermediate_size", "num_heads", "embedding_size")
    assert (*(getattr(full, name) for name in names), small.hidden_size) == shape
    assert small.num_layers == full.num_layers and model.sharing == "embeddings"
    published = (rate, batch, length, steps)
    assert (training.learning_rate, training.batch_size, training.length, training.steps) == published
    assert round(training.warmup * steps) == warmup
    assert (training.betas, training.epsilon, training.weight_decay) == ((0.9, 0.999), 1e-6, 0.01)
    assert (full.dropout, full.attention_dropout, full.architecture) == (0.1, 0.1, "electra")
    assert recipe.tokenizer.vocab_size == 30522
    made = toy.objective(**recipe.objective)
    assert made.config.mask_fraction == masked and made.config.final_mask_fraction is None
    assert made.weights == {"mlm": 1.0, "rtd": 50.0}
    assert (made.config.temperature, made.config.mask_share) == (1.0, 0.85)


def test_the_reference_differs_in_three_settings() -> None:
    changed = {
        key: new
        for key, _, new in differences(named("paper-small").to_sections(), named("reference-small").to_sections())
    }
    assert changed == {
        "model.initialisation": "reference",
        "training.schedule": "reference",
        "training.bias_correction": False,
    }


def test_a_record_with_settings_that_are_gone_opens_unless_they_changed_something() -> None:
    recipe = toy.recipe()
    gone = {
        "objective": {"focal_gamma": 0.0, "sampling_dropout": True},
        "model": {"mask_decoder": False},
        "training": {"on_spike": "warn", "clip_separately": False},
        "data": {"mix_seed": 0},
    }
    record = merge(merge(recipe.to_sections(), gone), {"identity": {}})
    assert recorded_recipe(merge(record, {"model": {"start": "counts"}})).model.start == "auto"
    assert recorded_recipe(record) == recipe
    with pytest.raises(ConfigError, match="clip_separately"):
        recorded_recipe(merge(record, {"training": {"clip_separately": True}}))


def small_run(folder: Path, **training: Any) -> Any:
    """The recipe at a size for tests: its kinds of schedule, Adam and initialisation."""
    recipe = named("reference-small")
    small = {"length": 16, "batch_size": 8, "steps": 10, "warmup": 0.2, "threads": 1}
    sized = replace(recipe.training, **small, precision="fp32", device="cpu", **training)
    model = replace(recipe.model, size="tiny")
    return build_run(replace(recipe, training=sized, model=model), folder, toy.store(), World())


def test_reference_schedule_begins_at_zero_and_adam_without_correction_begins_large(tmp_path: Path) -> None:
    run = small_run(tmp_path, weight_decay=0.0)
    parameters = dict(run.pair.named_parameters())
    name = "discriminator.encoder.layers.0.qkv.weight"
    before = parameters[name].detach().clone()
    loop.update(run)
    assert torch.equal(parameters[name], before), "the first update has the rate 0"
    loop.update(run)
    moments = run.optimizer.tensors()
    rate = 5e-4 * 0.5 * 0.9  # half of the warm-up, a tenth of the decay
    expected = before - rate * moments[f"{name}:exp_avg"] / (moments[f"{name}:exp_avg_sq"].sqrt() + 1e-6)
    assert torch.allclose(parameters[name], expected, atol=1e-7)
    assert not torch.allclose(parameters[name], before, atol=rate), (
        "larger than a corrected step, which the rate bounds"
    )


def test_glorot_uniform_in_two_layers_only() -> None:
    config = discriminator_config(
        resolve_size("mini"), "electra", vocab_size=60, dropout=0.0, attention_dropout=0.0, pad_id=0
    )
    pair = Networks.pair(config, generator_config(config, 0.25, 1.0))
    paper, reference = (
        dict(build_networks(pair, initialisation=kind).named_parameters())  # type: ignore[arg-type]
        for kind in ("paper", "reference")
    )
    changed = sorted(name for name in paper if not torch.equal(paper[name], reference[name]))
    assert changed == [
        "discriminator.encoder.projection.weight",
        "discriminator.head.prediction.weight",
        "generator.encoder.projection.weight",
    ]
    for name in changed:
        weight = reference[name].detach()
        bound = (6 / sum(weight.shape)) ** 0.5
        assert weight.abs().max() <= bound and float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.15)
        assert paper[name].abs().max() <= 0.04 + 1e-6, "normal 0.02, cut at two deviations"


@pytest.mark.parametrize(
    "wrong",
    [
        ("objective.mask_fraction", 2, "must be a fraction from 0 to 1, not 2"),
        ("objective.discriminator_weight", -1, "must be a number of at least 0, not -1"),
        ("training.batch_size", 0, "must be at least 1, not 0"),
    ],
)
@pytest.mark.parametrize("purpose", ["--recipe=tiny", "--recipe=distil"])
def test_a_wrong_value_is_said_to_be_where_the_user_wrote_it(
    wrong: tuple[str, int, str], purpose: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setting, value, problem = wrong
    flag, own = f"--{setting.replace('_', '-')}", tmp_path / "mine.toml"
    section, _, key = setting.partition(".")
    command = ["distil", "tiny-en", "x"] if "distil" in purpose else ["pretrain", "x", purpose]
    assert main([*command, "--out", str(tmp_path / "run"), f"{flag}={value}"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {flag}: {problem}") and ".toml" not in line
    own.write_text(f"[{section}]\n{key} = {value}\n")
    assert main(["pretrain", "x", "--out", str(tmp_path / "run"), "--recipe", str(own)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {own}: {setting}: {problem}")


BUDGET, STEPS = "training.budget", "training.steps"


@pytest.mark.parametrize(
    ("given", "length"),
    [
        (("tiny", {STEPS: 5}, "30m"), None),
        (("tiny", {STEPS: 5, BUDGET: "30m"}, None), None),
        (("tiny", {BUDGET: "5Mtokens"}, "30m"), None),
        (("mine.toml", {}, None), None),
        (("paper-small", {}, "30m"), (None, "30m")),
        (("paper-small", {BUDGET: "30m"}, None), (None, "30m")),
        (("budget-tiny", {STEPS: 5}, None), (5, None)),
        (("budget-tiny", {BUDGET: "30m"}, "30m"), (None, "30m")),
        (("paper-small", {}, None), (1_000_000, None)),
    ],
)
def test_a_run_has_one_length_which_replaces_the_recipes(
    given: Any, length: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text("[training]\nsteps = 7\nbudget = '30m'\n")
    if length is not None:
        training = compose(*given).training
        assert (training.steps, training.budget) == length
        return
    with pytest.raises(ConfigError) as caught:
        compose(*given)
    assert caught.value.key in (BUDGET, STEPS)
