"""Text or a Store -> Run, in this process or in several.

Several are started from here (`launch`) as `python -m electra.commands.workflow.train JOB`, or by torchrun.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.store import ENDING, StoreFolder
from electra.commands.workflow.artifact import Source, given_name, given_path
from electra.commands.workflow.display import Display, Terminal, Told, display_for
from electra.commands.workflow.texts import Text, named_sources
from electra.commands.workflow.train import Inputs, errors_of, train_here
from electra.commands.workflow.warm_start import rate_is_chosen, starts
from electra.foundation.config import convert, find_recipe, merge
from electra.foundation.errors import ConfigError, Interrupted, LostProcess, RunFailed, from_json
from electra.foundation.extensions import trust
from electra.foundation.machine import launched
from electra.foundation.signals import EXIT_CODES, how_it_ended
from electra.training.recipe import Recipe, make_recipe, read_recipe, with_budget

if TYPE_CHECKING:
    from electra.commands.workflow.run import Run


def pretrain(
    data: Text,
    out: Source,
    *,
    recipe: Source = "tiny",
    budget: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    init: Source | None = None,
    init_discriminator: Source | None = None,
    init_generator: Source | None = None,
    workers: int | None = None,
    processes: int = 1,
    progress: Told = None,
) -> Run:
    """Train a generator and a discriminator in the folder `out`, or resume the run it holds.

    data: a Store (or its folder), or text as `prepare` takes it, which is then prepared into OUT/store.
    recipe: a recipe's name or a TOML file.
    budget: how much to spend: "30m", "2e16flops", "50Mtokens" or "5000steps".
    overrides: settings that differ from the recipe's, by dotted name: {"training.learning_rate": 2e-3}.
    init: a model to start from, with both networks where it has both: a run, a model folder, `tiny-en`.
    init_discriminator, init_generator: the same for one network, or for the two from different places.
    workers: processes that encode the text (None: all cores).
    processes: processes on this machine that share each batch.
    progress: see `electra.commands.workflow.display.Told`.

    Raises ConfigError for wrong settings, RunFolderError where `out` holds something else or a run with other
    settings, RunFailed where the training diverges, and Interrupted when asked to stop (rerun to resume).
    """
    overrides = convert(dict[str, Any], overrides or {}, "overrides")
    name = given_name(recipe, "recipe")
    made = compose(name, overrides, budget)
    begin = starts(init, init_discriminator, init_generator)
    with (
        display_for(progress) as display,
        named_sources(data, "data", made.data.text_field, made.data.format, display.say) as given,
    ):
        is_store = len(given) == 1 and _is_store(given[0])
        inputs = Inputs(
            out=str(given_path(out, "out")),
            corpus=() if is_store else tuple(given),
            store=given[0] if is_store else None,
            init_discriminator=begin[0],
            init_generator=begin[1],
            workers=workers,
            processes=convert(int, processes, "processes"),
            recipe_name=name,
            rate_is_chosen=rate_is_chosen(name, overrides),
            command="electra.pretrain(...)",
        )
        return carry_out(made, inputs, display)


def _is_store(name: str) -> bool:
    return StoreFolder.is_at(Path(name)) or name.endswith(ENDING)


def compose(recipe: str, overrides: Mapping[str, Any], budget: str | None = None) -> Recipe:
    """A recipe with some settings changed, by dotted name; raises ConfigError naming the wrong one."""
    path = find_recipe(recipe)
    changed: dict[str, Any] = {}
    for name, value in convert(dict[str, Any], overrides, "overrides").items():
        section, _, key = str(name).partition(".")
        changed.setdefault(section, {})[key.replace("-", "_")] = value
    trust(changed.get("objective", {}).get("name", ""))
    sections = read_recipe(path, changed.get("objective", {}).get("name"))
    make_recipe(sections, where=str(path))
    return make_recipe(with_budget(merge(sections, changed), budget, "steps" in changed.get("training", {})))


def carry_out(recipe: Recipe, inputs: Inputs, display: Display) -> Run:
    """Check what can be checked at once, then train in this process or in several."""
    from electra.commands.workflow.run import Run
    from electra.training.record import read_record

    if inputs.store is not None and inputs.corpus:
        raise ConfigError("both `store` and `corpus` are given", fix="Give one of them")
    read_record(inputs.folder)  # refuses a folder that holds something else before anything is written there
    if inputs.processes < 1 or recipe.training.batch_size % inputs.processes:
        what = f"{inputs.processes} processes cannot share a batch of {recipe.training.batch_size} rows"
        raise ConfigError(what, key="processes", fix="Give a number that divides `training.batch_size`")
    if inputs.processes > 1 and not launched():
        train_in_processes(recipe, inputs, display)
    else:
        train_here(recipe, inputs, display)
    return Run(inputs.out)


def train_in_processes(recipe: Recipe, inputs: Inputs, display: Display) -> None:
    """Train in several processes of this machine; raises the error of the first that fails."""
    from electra.training.launch import launch, temporary_folder

    with temporary_folder() as folder:
        job = folder / "job.json"
        job.write_text(json.dumps({"recipe": recipe.to_sections(), "inputs": asdict(inputs)}))
        say = None if isinstance(display, Terminal) else display.say
        ended = launch(["electra.commands.workflow.train", str(job)], inputs.processes, say)
        lines = errors_of(job).read_text().splitlines() if errors_of(job).exists() else []
    failed = [from_json(json.loads(line)) for line in lines]
    if causes := [error for error in failed if not isinstance(error, LostProcess)]:
        raise causes[0]
    if ended.killed is not None:
        rank, number = ended.killed
        how, cause = how_it_ended(-number)
        what = f"process {rank} of {inputs.processes} {how}{', ' * bool(cause)}{cause}"
        raise RunFailed(what, where=inputs.out, fix="Rerun to resume")
    if failed:
        raise failed[0]
    if ended.code in EXIT_CODES.values():
        raise Interrupted(inputs.out, ended.code)
    if ended.code:
        said = ended.said.strip().splitlines()
        raise RunFailed(
            f"a process ended with code {ended.code}{': ' * bool(said)}{''.join(said[-1:])}", where=inputs.out
        )
