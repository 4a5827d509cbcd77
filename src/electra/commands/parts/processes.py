"""Trains in this process or in several.

Several processes are started here (`launch`) as `python -m electra.commands.parts.train JOB`, or by torchrun.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from electra.commands.framework.display import Display, Terminal
from electra.commands.parts.train import Inputs, error_file, train_here
from electra.foundation.errors import ConfigError, Interrupted, LostProcess, RunFailed, from_json
from electra.foundation.machine import is_distributed
from electra.foundation.signals import EXIT_CODES, describe_exit
from electra.training.recipe import Recipe

if TYPE_CHECKING:
    from electra.commands.results.run import Run
    from electra.data.sources import Argument


def run_training(recipe: Recipe, inputs: Inputs, display: Display) -> Run:
    """Checks the inputs, then trains in this process or in several. Returns the run.

    Raises ConfigError if both a store and a corpus were passed, or the processes cannot share a batch evenly.
    """
    from electra.commands.results.run import Run
    from electra.training.record import read_record

    if inputs.store is not None and inputs.corpus:
        raise ConfigError("both `store` and `corpus` were passed", fix="Pass only one of them")
    read_record(inputs.folder)  # rejects a folder with something else in it before anything is written there
    if inputs.processes < 1 or recipe.training.batch_size % inputs.processes:
        problem = f"{inputs.processes} processes cannot share a batch of {recipe.training.batch_size} rows"
        raise ConfigError(problem, key="processes", fix="Use a number that divides `training.batch_size`")
    if inputs.processes > 1 and not is_distributed():
        train_in_processes(recipe, inputs, display)
    else:
        train_here(recipe, inputs, display)
    return Run(inputs.out)


def train_in_processes(recipe: Recipe, inputs: Inputs, display: Display) -> None:
    """Trains in several processes on this machine. Raises the error of the first that fails."""
    from electra.training.launch import launch, temporary_folder

    with temporary_folder() as folder:
        corpus = tuple(_as_file(source, folder) for source in inputs.corpus)
        job = folder / "job.json"
        job.write_text(
            json.dumps({"recipe": recipe.to_sections(), "inputs": asdict(replace(inputs, corpus=corpus))})
        )
        say = None if isinstance(display, Terminal) else display.say
        outcome = launch(["electra.commands.parts.train", str(job)], inputs.processes, say)
        lines = error_file(job).read_text().splitlines() if error_file(job).exists() else []
    errors = [from_json(json.loads(line)) for line in lines]
    if causes := [error for error in errors if not isinstance(error, LostProcess)]:
        raise causes[0]
    if outcome.killed is not None:
        rank, signal_number = outcome.killed
        ending, cause = describe_exit(-signal_number)
        problem = f"process {rank} of {inputs.processes} {ending}{', ' * bool(cause)}{cause}"
        raise RunFailed(problem, where=inputs.out, fix="Rerun to resume")
    if errors:
        raise errors[0]
    if outcome.code in EXIT_CODES.values():
        raise Interrupted(inputs.out, outcome.code)
    if outcome.code:
        last_line = "".join(outcome.output.strip().splitlines()[-1:])
        raise RunFailed(
            f"a process ended with code {outcome.code}{': ' * bool(last_line)}{last_line}", where=inputs.out
        )


def _as_file(source: Argument, folder: Path) -> str:
    """Returns the name of a source; texts are written to a file, which the processes read."""
    from electra.data.sources import Texts

    if not isinstance(source, Texts):
        return str(source)
    path = folder / f"texts{sum(1 for _ in folder.iterdir())}.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps({source.field: text})}\n" for text in source.items)
    return f"{source.corpus}={path}" if source.corpus else str(path)
