"""Measure how fast this machine trains, to choose batch, precision, threads and processes."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any, Literal

from electra.config import find_recipe
from electra.errors import ConfigError, RunFailed
from electra.training.recipe import Recipe, make_recipe, read_recipe


@dataclass(frozen=True)
class Arguments:
    recipe: str = "budget-tiny"
    """A recipe's name or a TOML file."""
    size: str | None = None
    """Another size than the recipe's."""
    batch: tuple[int, ...] = ()
    """Rows in a batch; several are compared (default: the recipe's)."""
    length: tuple[int, ...] = ()
    """Tokens in a row; several are compared (default: the recipe's)."""
    precision: tuple[Literal["auto", "bf16", "fp32"], ...] = ("auto",)
    """Several are compared."""
    threads: tuple[int, ...] = ()
    """CPU threads of each process; several are compared (default: torch's choice)."""
    processes: tuple[int, ...] = (1,)
    """Processes that share a batch; several are compared."""
    compile: tuple[Literal["off", "on"], ...] = ("off",)
    """torch.compile of the encoders' layers; both are compared. The compiling itself (a minute, once) is not
    counted.
    """
    dropout: float | None = None
    """Another dropout than the recipe's."""
    vocab_size: int = 8192
    """Entries of the vocabulary that the random text is drawn from."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    seconds: float = 10.0
    """How long to train for one measurement."""
    rounds: int = 1
    """Runs of each setting when several are compared: interleaved, and medians are reported."""
    json: bool = False
    """One line of JSON for each setting, and nothing else."""


def run(arguments: Arguments) -> int:
    options = arguments
    if options.seconds <= 0 or options.rounds < 1 or options.vocab_size < 100:
        raise ConfigError(
            "needs seconds above 0, at least 1 round, a vocabulary of at least 100", where="electra bench"
        )
    settings: list[Setting] = list(
        itertools.product(
            options.batch or (0,),
            options.length or (0,),
            options.precision,
            options.threads or (0,),
            options.compile,
            options.processes,
        )
    )
    for setting in settings:
        recipe_for(options, setting)  # wrong ones are told before anything is measured
    if len(settings) == 1:
        return one(options, settings[0])
    found: dict[Setting, list[dict[str, Any]]] = {setting: [] for setting in settings}
    for _ in range(options.rounds):
        for setting in settings:
            found[setting].append(in_a_process(options, setting))
    rows = [middle(turns) for turns in found.values()]
    if options.json:
        sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
    else:
        tell(rows)
    return 0


Setting = tuple[
    int, int, str, int, str, int
]  # batch, length, precision, threads, compile, processes; 0: the recipe's


def recipe_for(options: Arguments, setting: Setting) -> Recipe:
    batch, length, precision, threads, compiled, processes = setting
    recipe = make_recipe(read_recipe(find_recipe(options.recipe)), where=options.recipe)
    training, model = recipe.training, recipe.model
    sections = replace(
        recipe,
        training=replace(
            training,
            batch_size=batch or training.batch_size,
            length=length or training.length,
            precision=precision,  # type: ignore[arg-type]
            threads=threads or training.threads,
            compile=compiled,  # type: ignore[arg-type]
            device=options.device,
        ),
        model=replace(
            model,
            size=options.size or model.size,
            dropout=model.dropout if options.dropout is None else options.dropout,
            attention_dropout=model.attention_dropout if options.dropout is None else options.dropout,
        ),
    ).to_sections()
    if processes < 1 or sections["training"]["batch_size"] % processes:
        raise ConfigError(
            f"{processes} processes cannot share a batch of {sections['training']['batch_size']} rows",
            where="--processes",
        )
    return make_recipe(sections)


def one(options: Arguments, setting: Setting) -> int:
    """Measure here, in this process and those that share its batch."""
    if setting[-1] > 1 and "WORLD_SIZE" not in os.environ:
        from electra.training.launch import launch

        words = ["electra", "bench", *flags(options, setting), *(["--json"] if options.json else [])]
        ended = launch(words, setting[-1])
        sys.stderr.write(ended.said)
        return ended.code
    from electra.training.bench import measure
    from electra.training.distributed import join_world, leave_world

    world = join_world()
    try:
        row = measure(recipe_for(options, setting), options.vocab_size, options.seconds, world)
    finally:
        leave_world()
    if not world.leads:
        return 0
    if options.json:
        sys.stdout.write(json.dumps(row) + "\n")
    else:
        tell([row])
    return 0


def in_a_process(options: Arguments, setting: Setting) -> dict[str, Any]:
    """A setting's turn has a process of its own: peak memory and thread pools are not shared."""
    command = ["bench", *flags(options, setting), "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "electra", *command], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise RunFailed(
            ended.stderr.strip().removeprefix("error: ") or "a measurement failed", where=" ".join(command)
        )
    row: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return row


def flags(options: Arguments, setting: Setting) -> list[str]:
    """What asks for this one setting."""
    batch, length, precision, threads, compiled, processes = setting
    chosen: dict[str, Any] = {
        "recipe": options.recipe,
        "size": options.size,
        "batch": batch,
        "length": length,
        "precision": precision,
        "threads": threads,
        "compile": compiled,
    }
    chosen |= {
        "processes": processes,
        "dropout": options.dropout,
        "vocab-size": options.vocab_size,
        "device": options.device,
    }
    chosen |= {"seconds": options.seconds}
    given = {
        name: value
        for name, value in chosen.items()
        if value is not None and (value != 0 or name == "dropout")
    }
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


def middle(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The turn of median speed, with the spread of all."""
    ordered = sorted(turns, key=lambda row: row["tokens_per_s_median"])
    rates = [row["tokens_per_s_median"] for row in ordered]
    row = ordered[len(ordered) // 2]
    return (
        {**row, "tokens_per_s_median": statistics.median(rates), "tokens_per_s_turns": rates}
        if len(turns) > 1
        else row
    )


def tell(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    first = rows[0]
    console = Console(highlight=False)
    shown = (
        f"{first['objective']}, size {first['size']}, {first['encoder']} encoder, vocabulary"
        f" {first['vocab_size']:,}"
    )
    console.print(f"{shown}, on {first['device']}.")
    for precision, gflops in {row["precision"]: row["matmul_gflops"] for row in rows}.items():
        console.print(f"Ceiling of {precision} matrix products in one process: {gflops:,.0f} GFLOP/s.")
    console.print(f"Ceiling of copies: {first['copy_gb_per_s']:,.0f} GB/s.\n")
    columns = (
        "batch",
        "length",
        "precision",
        "threads",
        "processes",
        "compiled",
        "tokens/s",
        "MFU",
        "peak MiB",
    )
    table = Table(*columns, box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        shape = [str(row[name]) for name in ("batch", "length", "precision", "threads", "processes")] + [
            "yes" if row["compiled"] else "no"
        ]
        table.add_row(
            *shape, f"{row['tokens_per_s_median']:,.0f}", f"{row['mfu']:.0%}", f"{row['peak_rss_mib']:,}"
        )
    console.print(table)
    best = max(rows, key=lambda row: float(row["tokens_per_s_median"]))
    total = sum(best["parts"].values())
    console.print("\nWhere a step goes" + (" (the fastest of these):" if len(rows) > 1 else ":"))
    for name, seconds in best["parts"].items():
        if seconds:
            console.print(f"  {name:<30}{seconds * 1e3:9.1f} ms {seconds / total:6.1%}")
    hours = 1e6 / best["tokens_per_s_median"] / 3600
    console.print(f"\nA million tokens take {hours * 60:.1f} minutes; 100 million {hours * 100:.1f} hours.")
