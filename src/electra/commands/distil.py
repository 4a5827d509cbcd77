"""The command `electra distil`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Annotated, Any

from typing_extensions import override

from electra.commands.framework.command import OnCommandLine, Sections, Source, function
from electra.commands.parts.pretraining import PretrainingCommand, inputs_of
from electra.commands.parts.recipes import compose, recipe_for, recipe_sections
from electra.commands.parts.texts import Corpus
from electra.commands.parts.train import Inputs
from electra.commands.parts.warm_start import learning_rate_is_set, name_with_layers
from electra.foundation.config import convert
from electra.foundation.errors import ConfigError
from electra.foundation.options import given_name, name_of
from electra.training.recipe import Recipe

RECIPE = "distil"


@dataclass(frozen=True)
class Distil(
    PretrainingCommand,
    group="Train",
    examples=(
        "electra distil TEACHER --corpus texts/ --out runs/small --keep-layers 0,2,5 --cut-to 12000",
        "electra distil TEACHER --corpus texts/ --out runs/small --layers 8 --hidden-size 128 --budget 2h",
    ),
):
    """Train a small encoder on your text with a larger one as its teacher, or resume such a run.

    The student learns to reproduce the teacher's hidden states and text vectors and, at the same time,
    replaced token detection. It starts from some of the teacher's layers (--keep-layers), or from fresh
    weights of any size. Resuming, budgets and the recipe's settings work as in electra pretrain.
    """

    teacher: Source
    """The encoder to learn from: a run, a model folder or a hub name (BERT, RoBERTa, ELECTRA, ModernBERT,
    DeBERTa, sentence-transformers). The student uses its tokenizer, or a smaller one cut from it.
    """
    data: Corpus = field(default=(), metadata={"flags": ("--corpus",)})
    """Text to train on, or a token store, as in electra pretrain."""
    _: KW_ONLY
    out: Source
    """The run folder. Rerun the command to resume a stopped run."""
    keep_layers: Annotated[str | Sequence[int] | None, OnCommandLine(str | None)] = None
    """Layers of the teacher that the student starts from, counted from 0, such as 0,2,5; the student also
    takes its width and embeddings (default: fresh weights of --layers and --hidden-size).
    """
    init: Source | None = None
    """An encoder that the student starts from, with its tokenizer, such as the student of an earlier run."""
    recipe: Source | None = None
    """The recipe: a name or a TOML file (default: distil)."""
    budget: str | None = None
    """How much to spend: 30m, 2e16flops, 50Mtokens or 5000steps (default: the recipe's). It includes the
    teacher's forward passes.
    """
    overrides: Annotated[
        Mapping[str, Any] | None,
        Sections(
            partial(recipe_sections, default=RECIPE),
            {"objective": "objective.name", "tokenizer": "tokenizer.source"},
            frozenset({"teacher"}),
        ),
    ] = None
    """Settings that override the recipe's, by dotted name: {"objective.states_weight": 10.0}."""

    @override
    def recipe_to_train(self) -> Recipe:
        teacher = given_name(self.teacher, "teacher")
        own = {"objective.teacher": teacher, "tokenizer.source": name_of(self.init, "init") or teacher}
        return compose(self._name, own | dict(self.overrides or {}), self.budget)

    @property
    def _name(self) -> Source:
        return recipe_for(self.recipe, None, self.out, RECIPE)

    @override
    def inputs(self, sources: list[str]) -> Inputs:
        teacher, name = given_name(self.teacher, "teacher"), given_name(self._name, "recipe")
        layers = None if self.keep_layers is None else layer_numbers(self.keep_layers)
        if layers is not None and self.init is not None:
            fix = "Pass `keep_layers` (layers of the teacher) or `init` (a student)"
            raise ConfigError("the student has two starting points", key="init", fix=fix)
        start = name_of(self.init, "init") if layers is None else name_with_layers(teacher, layers)
        return inputs_of(
            self.out,
            sources,
            None,
            "distil",
            init_discriminator=start,
            workers=self.workers,
            processes=self.processes,
            recipe_name=name,
            learning_rate_is_set=learning_rate_is_set(name, self.overrides or ()),
            command=self.invocation,
        )


def layer_numbers(layers: str | Sequence[int]) -> tuple[int, ...]:
    """Returns the layers in a text such as 0,2,5, or in a sequence. Raises ConfigError."""
    if not isinstance(layers, str):
        numbers: tuple[int, ...] = convert(tuple[int, ...], tuple(layers), "keep_layers")
        return numbers
    try:
        return tuple(int(number) for number in layers.split(","))
    except ValueError:
        fix = "Separate the numbers with commas: 0,2,5"
        raise ConfigError(f"not a list of layers: {layers!r}", key="keep_layers", fix=fix) from None


distil = function(Distil)
