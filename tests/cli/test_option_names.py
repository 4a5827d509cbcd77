"""An option that two commands have is called, given and told the same in both."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from electra.commands.cli.arguments import _metavar, parse, written
from electra.commands.cli.main import verbs

DIFFER = {  # options whose meaning depends on the command, and why
    "what it reads or makes": "corpus data file folder format model models out run source store text",
    "what a command spends or repeats": "budget jobs processes recipe seed seeds threads",
    "bench compares several values, and departs from a recipe": "batch_size compile dropout length precision"
    " size vocab_size",
    "a setting of two different trainings": "checkpoint_every clip init keep learning_rate pooling",
    "what extend gives a trained model": "layers",
    "what is told instead of done": "dry_run",
    "how a command's answers look": "json threshold",
    "columns are those of fine-tuning, or of any table": "text_column",
    "texts are decoded, or tables": "encoding",
    "studies, suites and analyses have several probes": "probe_option",
    "what goes on while a run does: a page, or a tracker": "follow",
}
ONCE_CALLED = [  # command, an old spelling, the option of today
    ("bench", "--batch", "batch_size"),
    ("serve", "--batch", "batch_size"),
]
SYNONYMS = {
    "batch",
    "limit",
    "lr",
    "max_len",
    "n_seeds",
    "num_threads",
    "num_workers",
    "vocab",
    "output",
    "path",
}


def options(kind: type, verb: str) -> Iterator[tuple[str, str, str, str]]:
    """(name, verb, what its value looks like, help) of each option of a dataclass and of its sections."""
    hints, texts = typing.get_type_hints(kind), written(kind)
    for field in dataclasses.fields(kind):
        hint: Any = hints[field.name]
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from options(hint, verb)
        else:
            value = _metavar(hint).split(" ")[0].replace("PATH", "TEXT")
            yield (
                field.name,
                verb,
                "a choice" if value.startswith("{") else value,
                texts.get(field.name, ("", ""))[1],
            )


def by_name() -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for verb, module in verbs().items():
        held = importlib.import_module(module)
        for name, *rest in options(held.Arguments, verb):
            found[name].append(typing.cast("tuple[str, str, str]", tuple(rest)))
    return found


def test_one_name_is_one_thing() -> None:
    found = by_name()
    kinds = {name for name, uses in found.items() if len({kind for _, kind, _ in uses}) > 1}
    assert kinds == {"init", "keep"}, (
        "pretrain: a model, how many checkpoints; finetune: how, and which seed's model"
    )
    told = {name for name, uses in found.items() if len({text for _, _, text in uses}) > 1}
    explained = set(" ".join(DIFFER.values()).split())
    assert told - explained == set(), "say the same of them in every command, or say in DIFFER why not"
    assert explained - told == set(), "these no longer differ"


def test_one_thing_has_one_name() -> None:
    assert SYNONYMS & set(by_name()) == set()


@pytest.mark.parametrize(("verb", "old", "name"), ONCE_CALLED)
def test_old_spellings_go_on_working(verb: str, old: str, name: str) -> None:
    module = importlib.import_module(verbs()[verb])
    needed = {"serve": ["model"]}
    argv = [*needed.get(verb, []), old, "3"]
    parsed = parse(module.Arguments, argv, verb=verb, description="", aliases=module.ALIASES)
    assert getattr(parsed, name) in (3, (3,))
