"""Estimates what a recipe costs on this machine within a budget, at one model size or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.store import StoreFolder
from electra.commands.framework.command import Source
from electra.commands.framework.display import Display
from electra.commands.parts.stores import (
    character_progress,
    existing_tokenizer,
    refuse_preparing,
    tokenizer_config,
)
from electra.commands.parts.train import Inputs, with_store_settings
from electra.commands.parts.warm_start import SHARE_OF_RATE, split_layers, warm_start, with_shape
from electra.foundation import durable
from electra.foundation.config import write_toml
from electra.foundation.errors import ConfigError, nearest
from electra.foundation.jobs import map_in_order
from electra.foundation.options import checked_path
from electra.foundation.signals import interrupt_on_signal
from electra.training.budget import steps_for
from electra.training.experience import Expected, expected
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    from electra.model.sizes import EncoderConfig
    from electra.training.estimate import Estimate
    from electra.training.networks import WarmStart

SIZES = ("tiny", "mini", "small")
LEARNING_RATES = {128: 1e-3, 256: 5e-4}  # of our recipes, by width; other widths keep the recipe's rate
TOKENS_PER_PARAMETER = 20  # of the layers; with more, a larger model pays off (Hoffmann et al. 2022)
EPOCHS = 16  # repeating the text more often than this teaches little (Muennighoff et al. 2023)


@dataclass(frozen=True)
class PlanOption:
    """What a recipe costs on this machine within the budget."""

    recipe: Recipe
    cost: Estimate
    steps: int
    epochs: float
    expected: Expected | None
    """What similar runs of ours reached; None if there were none."""

    @property
    def tokens(self) -> int:
        """The number of tokens to train on, counting repetitions."""
        return self.steps * self.cost.tokens_per_update

    @property
    def seconds(self) -> float:
        """The seconds that all updates take, without evaluations and checkpoints."""
        return self.steps * self.cost.seconds_per_update

    @property
    def flops(self) -> float:
        """The FLOPs of all updates."""
        return self.steps * self.cost.flops_per_update

    @property
    def has_enough_tokens(self) -> bool:
        """Whether its layers get TOKENS_PER_PARAMETER tokens per parameter, in at most EPOCHS epochs."""
        useful_tokens = self.tokens * min(1.0, EPOCHS / max(self.epochs, 1e-9))
        return useful_tokens >= TOKENS_PER_PARAMETER * self.cost.encoder_parameters

    def facts(self) -> list[tuple[str, str]]:
        """Returns names and values for a table."""
        cost, training = self.cost, self.recipe.training
        return [
            ("layers", f"{cost.layers} x {cost.hidden_size}"),
            ("parameters", " + ".join(f"{count / 1e6:.1f} M" for count in cost.parameters.values())),
            ("rows x tokens", f"{training.batch_size} x {training.length}"),
            ("learning rate", f"{training.learning_rate:.3g}"),
            ("updates", f"{self.steps:,}"),
            ("tokens", f"{self.tokens / 1e6:,.1f} M"),
            ("epochs", f"{self.epochs:.2g}"),
            ("FLOPs", f"{self.flops:.2g}"),
            ("time", duration(self.seconds)),
            ("memory", f"{cost.memory >> 20:,} MiB"),
            ("disk", f"{cost.disk >> 20:,} MiB"),
            ("similar runs reached", str(self.expected or "no record")),
        ]


@dataclass(frozen=True)
class Plan:
    """What a budget buys at several model sizes: the result of `electra.plan`."""

    budget: str
    corpus_tokens: int
    vocab_size: int
    options: tuple[PlanOption, ...]
    is_store: bool
    """Whether the corpus is a store made by `prepare`."""

    @property
    def best(self) -> PlanOption:
        """The largest model that gets enough tokens, or else the smallest."""
        by_size = sorted(self.options, key=lambda option: option.cost.encoder_parameters)
        return next((option for option in reversed(by_size) if option.has_enough_tokens), by_size[0])

    def write(self, path: Source, option: PlanOption | None = None) -> Path:
        """Writes the recipe of the best option, or of `option`, as a TOML file, and returns its path.

        Raises ConfigError if a file with other contents exists there.
        """
        target = checked_path(path, "path")
        text = write_toml(non_empty_sections((option or self.best).recipe)).encode()
        require_file_path(target)
        if target.exists() and target.read_bytes() != text:
            raise ConfigError("already exists, with other contents", where=target, fix="Choose another `out`")
        durable.commit_file(target, text)
        return target


def require_file_path(path: Path) -> None:
    """Raises ConfigError if there is a folder where a recipe is to be written."""
    if path.is_dir():
        raise ConfigError(
            "is a folder, not a file", where=path, fix="Pass a file as `out`, such as mine.toml"
        )


def estimate_run(recipe: Recipe, inputs: Inputs, display: Display) -> PlanOption:
    """Measures for a few seconds what a run with these inputs would cost. Writes nothing."""
    from electra.data.store import TokenStore

    tokenizer = None
    if inputs.store is not None:
        store = TokenStore.open(inputs.store)
        refuse_preparing(inputs.settings, recipe, store)
        recipe, tokenizer = with_store_settings(recipe, store), store.tokenizer
    warm = warm_start(inputs.init_discriminator, inputs.init_generator, recipe, tokenizer)
    if warm is not None:
        shapes = {
            name: replace(shape, vocab_size=cut_size(recipe, shape.vocab_size))
            for name, shape in warm.shapes.items()
        }
        warm = replace(warm, shapes=shapes)
        recipe = with_warm_start(recipe, inputs, warm)
    data = [inputs.store] if inputs.store is not None else list(inputs.corpus)
    [option], _, _ = estimate_options([recipe], lambda: corpus_size(data, recipe, display), display, warm)
    return option


def with_warm_start(recipe: Recipe, inputs: Inputs, warm: WarmStart) -> Recipe:
    """Returns the recipe as a warm start changes it: tokenizer, model size and a lower learning rate."""
    recipe = with_shape(recipe, warm, inputs.settings)
    tokenizer_source = split_layers(inputs.init_discriminator or "")[0] or inputs.init_generator
    rate = recipe.training.learning_rate * (1.0 if inputs.learning_rate_is_set else SHARE_OF_RATE)
    return replace(
        recipe,
        tokenizer=replace(recipe.tokenizer, source=recipe.tokenizer.source or tokenizer_source),
        training=replace(recipe.training, learning_rate=rate),
    )


def at_size(recipe: Recipe, size: str, overrides: Mapping[str, Any]) -> Recipe:
    """Returns the recipe at another model size, with the learning rate for that size unless one was set.

    Raises ConfigError for an unknown size.
    """
    from electra.model.sizes import SIZES as SHAPES

    if size not in SHAPES:
        raise ConfigError(f"no size named {size!r}", key="sizes", fix=nearest(size, list(SHAPES)))
    old_width, new_width = (
        recipe.model.hidden_size or SHAPES[recipe.model.size].hidden_size,
        SHAPES[size].hidden_size,
    )
    rate = recipe.training.learning_rate
    if "training.learning_rate" not in overrides and {old_width, new_width} <= LEARNING_RATES.keys():
        rate *= LEARNING_RATES[new_width] / LEARNING_RATES[old_width]
    model = replace(recipe.model, size=size, layers=None, hidden_size=None)
    return replace(recipe, model=model, training=replace(recipe.training, learning_rate=rate))


def with_vocabulary(recipe: Recipe, vocab_size: int) -> Recipe:
    """Returns the recipe with this vocabulary size, or unchanged if it uses an existing tokenizer."""
    if recipe.tokenizer.source is not None:
        return recipe
    return replace(recipe, tokenizer=replace(recipe.tokenizer, vocab_size=vocab_size))


def corpus_size(data: Sequence[str], recipe: Recipe, display: Display) -> tuple[int, int]:
    """Returns the training tokens and the vocabulary size: exact for a store, estimated for text.

    Raises CorpusError if there is no text, or it cannot be read.
    """
    from electra.data.store import TokenStore
    from electra.data.survey import survey

    if is_store(data):
        store = TokenStore.open(Path(data[0]))
        return store.train.num_tokens, store.vocab_size
    section = recipe.tokenizer
    tokenizer = existing_tokenizer(section.source) if section.source else tokenizer_config(section)
    estimate = survey(data, tokenizer, recipe.data, character_progress(display))
    vocab_size = cut_size(recipe, estimate.vocab_size)
    display.say(
        f"{estimate.documents:,} documents, {estimate.characters:,} characters, about {estimate.tokens:,}"
        f" tokens with a vocabulary of {vocab_size:,}"
    )
    return estimate.tokens, vocab_size


def cut_size(recipe: Recipe, vocab_size: int) -> int:
    """Returns the vocabulary's size once it is cut, if the recipe says so."""
    return min(vocab_size, recipe.tokenizer.cut_to or vocab_size)


def is_store(data: Sequence[str]) -> bool:
    """Whether the data is a single store."""
    return len(data) == 1 and StoreFolder.is_at(Path(data[0]))


def estimate_options(
    recipes: Sequence[Recipe],
    measure_corpus: Callable[[], tuple[int, int]],
    display: Display,
    warm: WarmStart | None = None,
) -> tuple[list[PlanOption], int, int]:
    """Measures the recipes one after the other in a separate process.

    Args:
        recipes: the recipes to measure.
        measure_corpus: returns the training tokens and the vocabulary size; called while the process starts.
        display: shows the progress.
        warm: the models that all of them start from.

    Returns:
        An option for each recipe, the training tokens, and the vocabulary size.

    Raises:
        ElectraError: a recipe cannot be trained here, or the process ended.
        Interrupted: a stop was requested.
    """
    tokens = vocab_size = 0
    options: list[PlanOption] = []

    def jobs() -> Iterator[tuple[Recipe, int] | None]:
        nonlocal tokens, vocab_size
        yield None  # starts the process
        tokens, vocab_size = measure_corpus()
        for recipe in recipes:
            display.progress(f"measuring size {recipe.model.size}", len(options) / len(recipes))
            yield with_vocabulary(recipe, vocab_size), vocab_size

    with interrupt_on_signal("the plan"):
        costs = map_in_order(_estimator, (warm.shapes if warm else None,), jobs(), 1, threads=None)
        next(costs)
        for recipe, cost in zip(recipes, costs, strict=True):
            options.append(make_option(with_vocabulary(recipe, vocab_size), cost, tokens))
    return options, tokens, vocab_size


def _estimator(
    shapes: Mapping[str, EncoderConfig] | None,
) -> Callable[[tuple[Recipe, int] | None], Estimate | None]:
    """Returns a function that measures recipes; runs in the separate process, which imports torch."""
    from electra.training.estimate import estimator

    measure = estimator(shapes)
    return lambda job: None if job is None else measure(*job)


def make_option(recipe: Recipe, cost: Estimate, corpus_tokens: int) -> PlanOption:
    """Returns the option for a recipe with a measured cost. Raises ConfigError for an invalid budget."""
    training = recipe.training
    steps = training.steps or steps_for(
        training.budget or "",
        tokens_per_step=cost.tokens_per_update,
        flops_per_step=cost.flops_per_update,
        steps_in_seconds=lambda seconds: seconds / cost.seconds_per_update,
    )
    objective = str(recipe.objective.get("name", "rtd"))
    shape = (recipe.model.encoder, cost.layers, cost.hidden_size)
    expectation = expected(objective, *shape, flops=steps * cost.flops_per_update)
    return PlanOption(
        recipe, cost, steps, steps * cost.tokens_per_update / max(1, corpus_tokens), expectation
    )


def duration(seconds: float) -> str:
    """Returns a time in the unit that fits: 90 s, 12 min, 2.5 h, 3.1 days."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.3g} days"


def non_empty_sections(recipe: Recipe) -> dict[str, Any]:
    """Returns the sections of a recipe that are not empty, for a TOML file."""
    return {name: values for name, values in recipe.to_sections().items() if values}


def print_table(plan: Plan) -> None:
    """Prints the options as columns, and why one of them is recommended."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    headers = [f"{each.recipe.model.size}{' *' * (each is plan.best)}" for each in plan.options]
    table = Table("", *headers, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for facts in zip(*(each.facts() for each in plan.options), strict=True):
        table.add_row(facts[0][0], *(value for _, value in facts))
    console.print(table)
    best, cost = plan.best, plan.best.cost
    ratio = best.tokens / cost.encoder_parameters
    reason = (
        f"the largest with at least {TOKENS_PER_PARAMETER} tokens per parameter of its layers"
        if best.has_enough_tokens
        else f"the smallest, because none gets {TOKENS_PER_PARAMETER} tokens per parameter of its layers"
    )
    console.print(f"\n* {best.recipe.model.size}: {reason} (here {ratio:,.0f}).")
    console.print(
        f"Measured: {cost.timing(best.recipe.training.batch_size)}; other programs affect it."
        " Evaluations and checkpoints take additional time."
    )
