"""Numbers that a run is planned by: learning rates, budgets, FLOPs."""

import itertools

import pytest

from electra.foundation.errors import ConfigError
from electra.model.flops import sequence_flops
from electra.model.sizes import EncoderConfig, discriminator_config, generator_config, resolve_size
from electra.training import budget
from electra.training.schedule import multiplier


def paper(name: str) -> EncoderConfig:
    return discriminator_config(
        resolve_size(name), "electra", vocab_size=30522, dropout=0.1, attention_dropout=0.1, pad_id=0
    )


@pytest.mark.parametrize(
    ("name", "generator", "length", "sequences", "published"),
    [
        ("small", True, 128, 128 * 1e6, 1.294e18),
        ("base", True, 512, 256 * 766e3, 6.425e19),
        ("large", True, 512, 2048 * 400e3, 7.118e20),
        ("small", False, 128, 128 * 1.45e6, 1.419e18),
        ("base", False, 512, 256 * 1e6, 6.428e19),
    ],
)
def test_flops_are_the_published_script_s(
    name: str, generator: bool, length: int, sequences: float, published: float
) -> None:
    full = paper(name)
    if generator:
        total = sequence_flops(generator_config(full, resolve_size(name).generator_width, 1.0), full, length)
    else:
        total = sequence_flops(full, None, length)
    assert total * sequences == pytest.approx(published, rel=0.001)


def test_generators_have_the_papers_sizes() -> None:
    widths = {"small": (64, 1), "small++": (256, 4), "base": (256, 4), "large": (256, 4)}
    for name, (hidden, heads) in widths.items():
        generator = generator_config(paper(name), resolve_size(name).generator_width, 1.0)
        assert (generator.hidden_size, generator.num_heads, generator.intermediate_size) == (
            hidden,
            heads,
            4 * hidden,
        )
        assert generator.embedding_size == paper(name).embedding_size and generator.num_layers == paper(name).num_layers


def test_linear_schedule() -> None:
    rates = [multiplier(step, 100, 0.1, "linear") for step in range(100)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == 1.0 and rates[9] == 1.0
    assert all(a > b for a, b in itertools.pairwise(rates[10:])) and rates[-1] == pytest.approx(1 / 90)
    assert multiplier(0, 10, 0.0, "linear") == 1.0


def test_reference_schedule_is_the_product() -> None:
    rates = [multiplier(step, 100, 0.1, "reference") for step in range(101)]
    assert rates[0] == 0 and max(rates) == rates[10] == pytest.approx(0.9)
    assert rates[5] == pytest.approx(0.5 * 0.95) and rates[100] == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", (1800, "seconds")),
        ("2h", (7200, "seconds")),
        ("90s", (90, "seconds")),
        ("2min", (120, "seconds")),
        ("2e16flops", (2e16, "flops")),
        ("50Mtokens", (50e6, "tokens")),
        ("1.5Gtokens", (1.5e9, "tokens")),
        ("5000steps", (5000, "steps")),
    ],
)
def test_budgets(text: str, expected: tuple[float, str]) -> None:
    assert budget.parse(text) == expected


@pytest.mark.parametrize("text", ["", "30", "m30", "-3m", "0steps", "5 apples", "30Mm", "1e999999flopsx"])
def test_an_invalid_budget_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        budget.parse(text)
    assert refused.value.key == "budget"


def test_steps_of_a_budget() -> None:
    def steps(text: str) -> int:
        return budget.steps_for(text, tokens_per_step=4096, flops_per_step=1e10, seconds_per_step=0.5)

    assert (steps("1m"), steps("1e12flops"), steps("1Mtokens"), steps("77steps")) == (120, 100, 244, 77)
    with pytest.raises(ConfigError) as refused:
        steps("100tokens")
    assert refused.value.key == "budget"
