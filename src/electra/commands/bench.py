"""The command `electra bench`; one measurement is in `electra.training.bench`."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, Literal

from typing_extensions import override

from electra.commands.framework.command import Command, function
from electra.data.settings import TokenizerConfig
from electra.foundation import jobs, machine
from electra.foundation.config import find_recipe
from electra.foundation.errors import ConfigError, Interrupted, RunFailed
from electra.foundation.machine import OnDevice
from electra.foundation.signals import EXIT_CODES
from electra.training.recipe import Recipe, make_recipe, read_recipe

Row = dict[str, Any]  # what `electra.training.bench.measure` returns


@dataclass(frozen=True)
class Setting:
    """One combination of the settings that are compared. 0 leaves the recipe's value, or torch's choice."""

    batch_size: int = 0
    length: int = 0
    precision: str = "auto"
    threads: int = 0
    compile: str = "off"
    processes: int = 1


@dataclass(frozen=True)
class Bench(
    OnDevice,
    Command[list[Row]],
    group="Measure",
    examples=(
        "electra bench --batch-size 16 32 64",
        "electra bench --precision bf16 fp32 --processes 1 2 --rounds 3",
    ),
):
    """Measure how fast this machine trains, to choose batch size, precision, threads and processes.

    In Python it returns a row for each combination of settings.
    """

    _: KW_ONLY
    recipe: str = "budget-tiny"
    """A recipe's name or a TOML file."""
    size: str | None = None
    """Model size (default: the recipe's)."""
    batch_size: tuple[int, ...] = ()
    """Rows per batch; several values are compared (default: the recipe's)."""
    length: tuple[int, ...] = ()
    """Tokens per row; several values are compared (default: the recipe's)."""
    precision: tuple[Literal["auto", "bf16", "fp32"], ...] = ("auto",)
    """Number format of matrix multiplications; several values are compared."""
    threads: tuple[int, ...] = ()
    """CPU threads per process; several values are compared (default: torch's choice)."""
    processes: tuple[int, ...] = (1,)
    """Processes that share a batch; several values are compared."""
    compile: tuple[Literal["off", "on"], ...] = ("off",)
    """Whether to compile the encoders' layers with torch.compile; pass both to compare them. The time of the
    compilation (about a minute, once) is not included.
    """
    dropout: float | None = None
    """Dropout rate (default: the recipe's)."""
    vocab_size: int = TokenizerConfig.vocab_size
    """Vocabulary size. The text is random."""
    seconds: float = 10.0
    """Seconds of training per measurement."""
    rounds: int = 1
    """Repetitions of each combination, interleaved; medians are reported."""
    json: bool = False
    """Print one JSON object per combination, and nothing else."""

    @override
    def run(self) -> list[Row]:
        if self.seconds <= 0 or self.rounds < 1 or self.vocab_size < 100:
            what = "needs `seconds` above 0, `rounds` of at least 1 and `vocab_size` of at least 100"
            raise ConfigError(what, where="electra bench")
        settings = self._settings()
        for setting in settings:
            self.recipe_for(setting)  # raises for an invalid one before anything is measured
        if len(settings) == 1:
            row = _measure(self, settings[0])
            return [] if row is None else [row]  # only the leading process of a shared batch has a row
        turns = [[_in_a_process(self, setting) for setting in settings] for _ in range(self.rounds)]
        return [_median(rows) for rows in zip(*turns, strict=True)]

    @override
    def main(self) -> int:
        rows = self.run()
        if rows and self.json:
            sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
        elif rows:
            _print(rows)
        return 0

    def _settings(self) -> list[Setting]:
        varied = (
            self.batch_size or (0,),
            self.length or (0,),
            self.precision,
            self.threads or (0,),
            self.compile,
            self.processes,
        )
        return [Setting(*values) for values in itertools.product(*varied)]

    def recipe_for(self, setting: Setting) -> Recipe:
        """Returns the recipe to measure. Raises ConfigError if it is invalid or its batch cannot be split."""
        recipe = make_recipe(read_recipe(find_recipe(self.recipe)), where=self.recipe)
        training, model = recipe.training, recipe.model
        training = replace(
            training,
            batch_size=setting.batch_size or training.batch_size,
            length=setting.length or training.length,
            precision=setting.precision,  # type: ignore[arg-type]
            threads=setting.threads or training.threads,
            compile=setting.compile,  # type: ignore[arg-type]
            device=self.device,
        )
        model = replace(model, size=self.size or model.size)
        if self.dropout is not None:
            model = replace(model, dropout=self.dropout, attention_dropout=self.dropout)
        if setting.processes < 1 or training.batch_size % setting.processes:
            what = f"{setting.processes} processes cannot share a batch of {training.batch_size} rows"
            raise ConfigError(what, key="processes")
        return make_recipe(replace(recipe, training=training, model=model).to_sections())

    def words(self, setting: Setting) -> list[str]:
        """Returns the arguments of a command that measures this one setting and prints JSON."""
        shared = {
            "recipe": self.recipe,
            "size": self.size,
            "dropout": self.dropout,
            "vocab_size": self.vocab_size,
            "device": self.device,
            "seconds": self.seconds,
        }
        varied = {name: value or None for name, value in asdict(setting).items()}
        chosen = [(name, value) for name, value in (shared | varied).items() if value is not None]
        options = [word for name, value in chosen for word in (f"--{name.replace('_', '-')}", str(value))]
        return ["bench", *options, "--json"]


bench = function(Bench)


def _measure(bench: Bench, setting: Setting) -> Row | None:
    """Measures in this process and those that share its batch; returns the row in the leading one."""
    if setting.processes > 1 and not machine.is_distributed():
        return _side_by_side(bench, setting)
    from electra.training.bench import measure
    from electra.training.distributed import join_world, leave_world

    world = join_world()
    try:
        row = measure(bench.recipe_for(setting), bench.vocab_size, bench.seconds, world)
    finally:
        leave_world()
    return row if world.is_main else None


def _side_by_side(bench: Bench, setting: Setting) -> Row:
    """Measures in several processes that share a batch."""
    from electra.training.launch import launch

    lines: list[str] = []
    ended = launch(["electra", *bench.words(setting)], setting.processes, lines.append)
    if ended.code in EXIT_CODES.values():
        raise Interrupted("bench", ended.code, saved=False)
    if ended.code:
        raise RunFailed(ended.output.strip() or "a measurement failed", where="electra bench")
    return _row(lines)


def _in_a_process(bench: Bench, setting: Setting) -> Row:
    """Measures in a new process, so that peak memory and thread pools are not shared with other settings."""
    command = bench.words(setting)
    ended = subprocess.run(
        jobs.command("electra", *command), env=jobs.environment(), capture_output=True, text=True, check=False
    )
    if ended.returncode:
        said = ended.stderr.strip().removeprefix("error: ") or "a measurement failed"
        raise RunFailed(said, where=" ".join(command))
    return _row(ended.stdout.splitlines())


def _row(lines: Sequence[str]) -> Row:
    row: Row = json.loads(lines[-1])
    return row


def _median(turns: Sequence[Row]) -> Row:
    """Returns the row of median speed, with the speeds of all."""
    ordered = sorted(turns, key=lambda row: row["tokens_per_s_median"])
    rates = [row["tokens_per_s_median"] for row in ordered]
    if len(turns) == 1:
        return turns[0]
    together = {"tokens_per_s_median": statistics.median(rates), "tokens_per_s_turns": rates}
    return {**ordered[len(ordered) // 2], **together}


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    first = rows[0]
    console = Console(highlight=False)
    shape = f"{first['objective']}, size {first['size']}, {first['encoder']} encoder"
    console.print(f"{shape}, vocabulary {first['vocab_size']:,}, on {first['device']}.")
    for precision, gflops in {row["precision"]: row["matmul_gflops"] for row in rows}.items():
        console.print(f"Peak of {precision} matrix multiplications in one process: {gflops:,.0f} GFLOP/s.")
    console.print(f"Peak of memory copies: {first['copy_gb_per_s']:,.0f} GB/s.\n")
    varied = ("batch", "length", "precision", "threads", "processes")
    table = Table(*varied, "compiled", "tokens/s", "MFU", "peak MiB", box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        speed = f"{row['tokens_per_s_median']:,.0f}", f"{row['mfu']:.0%}", f"{row['peak_rss_mib']:,}"
        table.add_row(*(str(row[name]) for name in varied), "yes" if row["compiled"] else "no", *speed)
    console.print(table)
    best = max(rows, key=lambda row: float(row["tokens_per_s_median"]))
    total = sum(best["parts"].values())
    console.print("\nTime per step" + (", for the fastest of these:" if len(rows) > 1 else ":"))
    for name, seconds in best["parts"].items():
        if seconds:
            console.print(f"  {name:<30}{seconds * 1e3:9.1f} ms {seconds / total:6.1%}")
    hours = 1e6 / best["tokens_per_s_median"] / 3600
    console.print(f"\nA million tokens take {hours * 60:.1f} minutes; 100 million {hours * 100:.1f} hours.")
