"""An option that two commands have is called, given and told the same in both."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from pathlib import Path

import pytest

import electra
from electra.commands.framework import renames
from electra.commands.framework.command import metavar, options_of
from electra.commands.framework.main import class_of, commands
from electra.data.settings import CorpusConfig
from electra.foundation.errors import ConfigError, ElectraError, Note, RunFolderError
from electra.objectives import rtd_mlm

DIFFER = {  # options whose meaning depends on the command, and why
    "what it reads or makes": "generator corpus data folder format model"
    " models name out run_folder source store ",
    "what a command spends or repeats": "budget jobs processes recipe seed seeds threads",
    "bench compares several values, and departs from a recipe": "batch_size compile dropout length precision"
    " size vocab_size",
    "a setting of two different trainings": "checkpoint_every clip init learning_rate pooling teacher",
    "of a sentence to look at, or of held-out rows": "mask_fraction",
    "what extend gives a trained model": "layers",
    "how a command's answers look": "json threshold",
    "columns are those of fine-tuning, or of any table": "text_column",
    "texts are decoded, or tables": "encoding",
    "finetune has one model, evaluate may have several": "baseline_model untrained_baseline",
    "studies, suites and analyses have several probes": "probe_option",
    "what goes on while a run does: a page, or a tracker": "follow",
}
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


def by_name() -> dict[str, list[tuple[str, str, str]]]:
    """(command, what its value looks like, help) of each option that is not a recipe's."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for command, module in commands().items():
        for option in options_of(class_of(module)):
            if option.name not in found or "." not in option.name:
                value = "" if option.is_switch else metavar(option.kind).split(" ")[0].replace("PATH", "TEXT")
                kind = "a choice" if value.startswith("{") else value
                found[option.name.rpartition(".")[2]].append((command, kind, option.text))
    return found


def test_an_option_name_means_the_same_in_every_command() -> None:
    found = by_name()
    kinds = {name for name, uses in found.items() if len({kind for _, kind, _ in uses}) > 1}
    assert kinds == {"init"}, "pretrain: a model; finetune: how"
    told = {name for name, uses in found.items() if len({text for _, _, text in uses}) > 1}
    explained = set(" ".join(DIFFER.values()).split())
    assert told - explained == set(), "say the same of them in every command, or say in DIFFER why not"
    assert explained - told == set(), "these no longer differ"


def test_synonyms_of_option_names_are_not_used() -> None:
    assert SYNONYMS & set(by_name()) == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bench --batch 3", "bench --batch-size 3"),
        ("serve m --batch=3", "serve m --batch-size=3"),
        ("ablate x --arm a --arm b", "ablate x --only a --only b"),
        ("detect m --file f.txt --json", "detect m f.txt --json"),
        ("extend m deep --layers 8", "deepen m --out deep --layers 8"),
        ("extend --length 8 m long", "lengthen --length 8 m --out long"),
        (
            "evaluate m --option epochs=1 --option=head=linear",
            "evaluate m --finetune.epochs=1 --finetune.head=linear",
        ),
    ],
)
def test_old_spellings_go_on_working_with_a_note(old: str, new: str) -> None:
    command, *words = old.split()
    with pytest.warns(Note):
        name, made = renames.rename_words(command, words)
    assert [name, *made] == new.split()


def test_every_rename_leads_to_an_option() -> None:
    recipe_keys = {f"data.{field.name}" for field in dataclasses.fields(CorpusConfig)}
    of_objective = {field.name for field in dataclasses.fields(rtd_mlm.Config)}
    recipe_keys |= of_objective | {f"objective.{name}" for name in of_objective}
    for command, names in renames.OPTIONS.items():
        options = {option.name for option in options_of(class_of(commands()[command]))}
        assert set(names.values()) <= options | recipe_keys


def test_old_arguments_go_on_working_in_python(tmp_path: Path) -> None:
    with pytest.warns(Note, match="run="), pytest.raises(RunFolderError):
        electra.log(run=tmp_path, to="tensorboard")
    with pytest.warns(Note, match="argument 2"), pytest.raises(ElectraError, match="nowhere"):
        electra.prepare("nowhere", tmp_path / "made")
    with pytest.raises(ConfigError, match=r"vocab_sizes.*vocab_size"):
        electra.prepare("nowhere", out=tmp_path / "made", vocab_sizes=3)
