"""How fast this machine trains, for one setting or several beside each other."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from electra.foundation import jobs, machine
from electra.foundation.config import find_recipe
from electra.foundation.errors import ConfigError, Interrupted, RunFailed
from electra.foundation.signals import EXIT_CODES
from electra.training.recipe import Recipe, make_recipe, read_recipe

Row = dict[str, Any]  # as `electra.training.bench.measure` gives it


@dataclass(frozen=True)
class Setting:
    """What is compared. 0: as the recipe has it, or as torch chooses."""

    batch_size: int = 0
    length: int = 0
    precision: str = "auto"
    threads: int = 0
    compile: str = "off"
    processes: int = 1


@dataclass(frozen=True)
class Terms:
    """What all measurements share."""

    recipe: str
    size: str | None
    dropout: float | None
    vocab_size: int
    device: str
    seconds: float

    def recipe_for(self, setting: Setting) -> Recipe:
        """The recipe to measure. Raises ConfigError where it is none, or cannot be shared."""
        recipe = make_recipe(read_recipe(find_recipe(self.recipe)), where=self.recipe)
        training, model = recipe.training, recipe.model
        training = replace(
            training,
            batch_size=setting.batch_size or training.batch_size,
            length=setting.length or training.length,
            precision=setting.precision,  # type: ignore[arg-type]
            threads=setting.threads or training.threads,
            compile=setting.compile,  # type: ignore[arg-type]
            device=self.device,  # type: ignore[arg-type]
        )
        model = replace(model, size=self.size or model.size)
        if self.dropout is not None:
            model = replace(model, dropout=self.dropout, attention_dropout=self.dropout)
        if setting.processes < 1 or training.batch_size % setting.processes:
            what = f"{setting.processes} processes cannot share a batch of {training.batch_size} rows"
            raise ConfigError(what, key="processes")
        return make_recipe(replace(recipe, training=training, model=model).to_sections())

    def words(self, setting: Setting) -> list[str]:
        """The command that measures this one setting, and answers in JSON."""
        given = {name: value for name, value in {**asdict(self), **asdict(setting)}.items() if value != 0}
        if self.dropout == 0:
            given["dropout"] = 0.0
        options = [
            (f"--{name.replace('_', '-')}", str(value)) for name, value in given.items() if value is not None
        ]
        return ["bench", *(word for option in options for word in option), "--json"]


def bench(terms: Terms, settings: Sequence[Setting], rounds: int = 1) -> list[Row] | None:
    """A row for each setting; None in a process that only shares another's batch.

    rounds: measurements of each setting where several are compared: interleaved, and medians are given.
    """
    if terms.seconds <= 0 or rounds < 1 or terms.vocab_size < 100:
        what = "needs seconds above 0, at least 1 round, a vocabulary of at least 100"
        raise ConfigError(what, where="electra bench")
    for setting in settings:
        terms.recipe_for(setting)  # wrong ones are told before anything is measured
    if len(settings) == 1:
        row = _measure(terms, settings[0])
        return None if row is None else [row]
    turns = [[_in_a_process(terms, setting) for setting in settings] for _ in range(rounds)]
    return [_middle(of_one) for of_one in zip(*turns, strict=True)]


def _measure(terms: Terms, setting: Setting) -> Row | None:
    """Measure in this process and those that share its batch; the row where this one leads."""
    if setting.processes > 1 and not machine.launched():
        return _side_by_side(terms, setting)
    from electra.training.bench import measure
    from electra.training.distributed import join_world, leave_world

    world = join_world()
    try:
        row = measure(terms.recipe_for(setting), terms.vocab_size, terms.seconds, world)
    finally:
        leave_world()
    return row if world.leads else None


def _side_by_side(terms: Terms, setting: Setting) -> Row:
    """In processes that share the batch; the leading one answers."""
    from electra.training.launch import launch

    lines: list[str] = []
    ended = launch(["electra", *terms.words(setting)], setting.processes, lines.append)
    if ended.code in EXIT_CODES.values():
        raise Interrupted("bench", ended.code, saved=False)
    if ended.code:
        raise RunFailed(ended.said.strip() or "a measurement failed", where="electra bench")
    return _row(lines)


def _in_a_process(terms: Terms, setting: Setting) -> Row:
    """A setting's turn has a process of its own: peak memory and thread pools are not shared."""
    command = terms.words(setting)
    ended = subprocess.run(
        jobs.command("electra", *command),
        env=jobs.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        said = ended.stderr.strip().removeprefix("error: ") or "a measurement failed"
        raise RunFailed(said, where=" ".join(command))
    return _row(ended.stdout.splitlines())


def _row(lines: Sequence[str]) -> Row:
    row: Row = json.loads(lines[-1])
    return row


def _middle(turns: Sequence[Row]) -> Row:
    """The turn of median speed, with the speeds of all."""
    ordered = sorted(turns, key=lambda row: row["tokens_per_s_median"])
    rates = [row["tokens_per_s_median"] for row in ordered]
    if len(turns) == 1:
        return turns[0]
    together = {"tokens_per_s_median": statistics.median(rates), "tokens_per_s_turns": rates}
    return {**ordered[len(ordered) // 2], **together}
