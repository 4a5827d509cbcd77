"""The command `electra bench`; a single measurement is made by `electra.training.bench`."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from electra.commands.framework.command import Command, function
from electra.data.settings import TokenizerConfig
from electra.foundation import machine
from electra.foundation.config import find_recipe
from electra.foundation.errors import ConfigError, Interrupted, RunFailed
from electra.foundation.machine import OnDevice

if TYPE_CHECKING:
    from electra.training.recipe import Recipe

Row = dict[str, Any]  # what `electra.training.bench.measure` returns
COMPARED = ("batch_size", "length", "precision", "threads", "compile", "processes")


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

    In Python, returns a row for each combination of settings.
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
    """Number format of matrix products; several values are compared."""
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
            problem = "needs `seconds` above 0, `rounds` of at least 1 and `vocab_size` of at least 100"
            raise ConfigError(problem, where="electra bench")
        settings = self.settings()
        for setting in settings:
            setting.single_recipe()  # raises for an invalid one before anything is measured
        if len(settings) == 1 and (self.processes[0] == 1 or machine.is_distributed()):
            row = settings[0].measure()
            return [] if row is None else [row]  # only the main process of a shared batch has a row
        rounds = [[setting.measure_in_processes() for setting in settings] for _ in range(self.rounds)]
        return [_median(rows) for rows in zip(*rounds, strict=True)]

    @override
    def main(self) -> int:
        rows = self.run()
        if rows and self.json:
            sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
        elif rows:
            _print(rows)
        return 0

    def settings(self) -> list[Bench]:
        """Returns a command for each combination of the values to compare."""
        values: list[list[Any]] = [[(each,) for each in getattr(self, name)] or [()] for name in COMPARED]
        settings: list[dict[str, Any]] = [
            dict(zip(COMPARED, each, strict=True)) for each in itertools.product(*values)
        ]
        return [replace(self, **each) for each in settings]

    def single_recipe(self) -> Recipe:
        """Returns the recipe of a single setting. Raises ConfigError if it is invalid or cannot be shared."""
        from electra.training.recipe import make_recipe, read_recipe

        recipe = make_recipe(read_recipe(find_recipe(self.recipe)), where=self.recipe)
        values = {name: getattr(self, name)[0] for name in COMPARED[:-1] if getattr(self, name)}
        training = replace(recipe.training, device=self.device, **values)
        model = replace(recipe.model, size=self.size or recipe.model.size)
        if self.dropout is not None:
            model = replace(model, dropout=self.dropout, attention_dropout=self.dropout)
        [processes] = self.processes
        if processes < 1 or training.batch_size % processes:
            problem = f"{processes} processes cannot share a batch of {training.batch_size} rows"
            raise ConfigError(problem, key="processes")
        return make_recipe(replace(recipe, training=training, model=model).to_sections())

    def measure(self) -> Row | None:
        """Measures a single setting in this process. Returns None in every process but the main one."""
        from electra.training.bench import measure
        from electra.training.distributed import join_world, leave_world

        world = join_world()
        try:
            row = measure(self.single_recipe(), self.vocab_size, self.seconds, world)
        finally:
            leave_world()
        return row if world.is_main else None

    def measure_in_processes(self) -> Row:
        """Measures a single setting in new processes, which share neither memory nor threads with others.

        Raises RunFailed if the measurement failed, or Interrupted if it was stopped.
        """
        from electra.foundation.signals import EXIT_CODES
        from electra.training.launch import launch

        lines: list[str] = []
        outcome = launch(["electra", "bench", *self.words()], self.processes[0], lines.append)
        if outcome.code in EXIT_CODES.values():
            raise Interrupted("bench", outcome.code, saved=False)
        if outcome.code:
            raise RunFailed(outcome.output.strip() or "a measurement failed", where=" ".join(self.words()))
        row: Row = json.loads(lines[-1])
        return row

    def words(self) -> list[str]:
        """Returns the options of the command line that measures a single setting and prints JSON."""
        options = [each.name for each in fields(self) if each.name not in ("progress", "json", "rounds")]
        words = ["--json"]
        for name in options:
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else () if value is None else (value,)
            words += [f"--{name.replace('_', '-')}", *map(str, values)] if values else []
        return words


bench = function(Bench)


def _median(rounds: Sequence[Row]) -> Row:
    """Returns the row with the median speed of the rounds, with the speeds of all of them added."""
    ordered = sorted(rounds, key=lambda row: row["tokens_per_s_median"])
    rates = [row["tokens_per_s_median"] for row in ordered]
    if len(rounds) == 1:
        return rounds[0]
    speeds = {"tokens_per_s_median": statistics.median(rates), "tokens_per_s_turns": rates}
    return {**ordered[len(ordered) // 2], **speeds}


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    first_row = rows[0]
    console = Console(highlight=False)
    shape = f"{first_row['objective']}, size {first_row['size']}, {first_row['encoder']} encoder"
    console.print(f"{shape}, vocabulary {first_row['vocab_size']:,}, on {first_row['device']}.")
    for precision, gflops in {row["precision"]: row["matmul_gflops"] for row in rows}.items():
        console.print(f"Peak of {precision} matrix multiplications in one process: {gflops:,.0f} GFLOP/s.")
    console.print(f"Peak of memory copies: {first_row['copy_gb_per_s']:,.0f} GB/s.\n")
    setting_columns = ("batch", "length", "precision", "threads", "processes")
    table = Table(*setting_columns, "compiled", "tokens/s", "MFU", "peak MiB", box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        speed = f"{row['tokens_per_s_median']:,.0f}", f"{row['mfu']:.0%}", f"{row['peak_rss_mib']:,}"
        table.add_row(
            *(str(row[name]) for name in setting_columns), "yes" if row["compiled"] else "no", *speed
        )
    console.print(table)
    best = max(rows, key=lambda row: float(row["tokens_per_s_median"]))
    total_seconds = sum(best["parts"].values())
    console.print("\nTime per step" + (", for the fastest of these:" if len(rows) > 1 else ":"))
    for name, seconds in best["parts"].items():
        if seconds:
            console.print(f"  {name:<30}{seconds * 1e3:9.1f} ms {seconds / total_seconds:6.1%}")
    hours = 1e6 / best["tokens_per_s_median"] / 3600
    console.print(f"\nA million tokens take {hours * 60:.1f} minutes; 100 million {hours * 100:.1f} hours.")
