"""The command `electra distil`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from reprlib import repr as shortened
from typing import Annotated, Any, ClassVar

from typing_extensions import override

from electra.commands.framework.command import Sections, function
from electra.commands.framework.shared import PretrainingCommand
from electra.foundation.config import convert
from electra.foundation.errors import ConfigError
from electra.foundation.options import OnCommandLine, Source, Sources, as_name, checked_path
from electra.training.request import Request, compose, names_of, recipe_for, recipe_sections

RECIPE = "distil"


@dataclass(frozen=True)
class Distil(
    PretrainingCommand,
    examples=(
        "electra distil TEACHER --corpus texts/ --out runs/small --keep-layers 0,2,5",
        "electra distil TEACHER --corpus texts/ --out runs/small --layers 8 --hidden-size 128 --budget 2h",
    ),
):
    """Train a small encoder on your text with a larger one as its teacher, or resume such a run.

    The student learns to reproduce the teacher's hidden states and text vectors and, at the same time, to
    detect replaced tokens. It starts from some of the teacher's layers (--keep-layers), or from random
    weights at any size. Resuming, budgets (which include the teacher's passes) and the recipe's settings
    work as in electra pretrain.
    """

    ADVICE: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("--store", "--data"), "Name the text or the store with --corpus."
    )

    teacher: Source
    """The encoder to learn from: a run, a model folder or a hub name (BERT, RoBERTa, ELECTRA, ModernBERT,
    sentence-transformers), or one whose vocabulary electra export --cut-to made smaller. The student uses its
    tokenizer.
    """
    data: Sources = field(default=(), metadata={"flags": ("--corpus",)})
    """Text to train on, or a token store, as in electra pretrain."""
    _: KW_ONLY
    keep_layers: Annotated[str | Sequence[int] | None, OnCommandLine(str | None)] = None
    """Layers of the teacher that the student starts from, counted from 0, such as 0,2,5; the student also
    takes its width and embeddings (default: random initialization, with --layers and --hidden-size).
    """
    init: Source | None = None
    """An encoder that the student starts from, with its tokenizer, such as the student of an earlier run."""
    recipe: Source | None = None
    """The recipe: a name or a TOML file (default: distil)."""
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
    def request(self) -> Request:
        teacher = tuned_model(as_name(self.teacher, "teacher"))
        start = None if self.init is None else tuned_model(as_name(self.init, "init"))
        source = as_name(recipe_for(self.recipe, self.out, RECIPE), "recipe")
        settings = {"objective.teacher": teacher, "tokenizer.source": start or teacher}
        recipe = compose(source, settings | dict(self.overrides or {}), self.budget)
        if self.keep_layers is not None:
            layers = layer_numbers(self.keep_layers)
            if start is not None:
                fix = "Pass `keep_layers` (layers of the teacher) or `init` (a student)"
                raise ConfigError("the student has two starting points", key="init", fix=fix)
            start = f"{teacher}[{','.join(map(str, layers))}]"  # see `starts.split_layers`
        return Request(
            recipe,
            self.text(self.data, None),
            checked_path(self.out, "out"),
            start,
            source=source,
            given=names_of(self.overrides),
            command=self.line,
        )


def tuned_model(name: str) -> str:
    """Returns the model in the folder of a fine-tuning, or the name of any other model."""
    from electra.artifacts.finetuning_files import FinetuningFolder

    folder = FinetuningFolder(Path(name).expanduser())
    return str(folder.model.path) if folder.exists() and folder.model.exists() else name


def layer_numbers(layers: str | Sequence[int]) -> tuple[int, ...]:
    """Returns the layers in a text such as 0,2,5, or in a sequence. Raises ConfigError for anything else."""
    numbers: tuple[int, ...] = ()
    with suppress(TypeError, ValueError, ConfigError):
        given = tuple(map(int, layers.split(","))) if isinstance(layers, str) else tuple(layers)
        numbers = convert(tuple[int, ...], given, "keep_layers")
    if not numbers or sorted(set(numbers)) != list(numbers) or numbers[0] < 0:
        problem = f"{shortened(layers)} is not a list of layers, counted from 0, in ascending order"
        raise ConfigError(problem, key="keep_layers", fix="Separate the numbers with commas: 0,2,5")
    return numbers


distil = function(Distil)
