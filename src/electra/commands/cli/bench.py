"""Measure how fast this machine trains, to choose batch, precision, threads and processes."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass
from typing import Any, Literal

from electra.commands.cli.arguments import part
from electra.foundation.machine import Device

ALIASES = {"--batch": "--batch-size"}  # as it was once called


@dataclass(frozen=True)
class Arguments:
    recipe: str = "budget-tiny"
    """A recipe's name or a TOML file."""
    size: str | None = None
    """Size of the model (default: the recipe's)."""
    batch_size: tuple[int, ...] = ()
    """Rows in a batch; several values are compared (default: the recipe's)."""
    length: tuple[int, ...] = ()
    """Tokens in a row; several values are compared (default: the recipe's)."""
    precision: tuple[Literal["auto", "bf16", "fp32"], ...] = ("auto",)
    """Number format of matrix products; several values are compared."""
    threads: tuple[int, ...] = ()
    """CPU threads of each process; several values are compared (default: torch's choice)."""
    processes: tuple[int, ...] = (1,)
    """Processes that share a batch; several values are compared."""
    compile: tuple[Literal["off", "on"], ...] = ("off",)
    """Whether to compile the encoders' layers with torch.compile; with both, they are compared. The
    compilation itself (about a minute, once) is not counted.
    """
    dropout: float | None = None
    """Dropout (default: the recipe's)."""
    vocab_size: int = 8192
    """Size of the vocabulary that the random text is drawn from."""
    device: Device = "auto"
    """Where to compute (auto: a CUDA GPU when there is one; mps: an Apple GPU)."""
    seconds: float = 10.0
    """Seconds of training per measurement."""
    rounds: int = 1
    """Interleaved runs of each setting when several are compared; medians are reported."""
    json: bool = False
    """Print one line of JSON for each setting, and nothing else."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow import bench as workflow

    given = arguments
    varied = (
        given.batch_size or (0,),
        given.length or (0,),
        given.precision,
        given.threads or (0,),
        given.compile,
        given.processes,
    )
    settings = [workflow.Setting(*values) for values in itertools.product(*varied)]
    rows = workflow.bench(part(workflow.Terms, given), settings, given.rounds)
    if rows is not None and given.json:
        sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
    elif rows is not None:
        tell(rows)
    return 0


def tell(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    first = rows[0]
    console = Console(highlight=False)
    shape = f"{first['objective']}, size {first['size']}, {first['encoder']} encoder"
    console.print(f"{shape}, vocabulary {first['vocab_size']:,}, on {first['device']}.")
    for precision, gflops in {row["precision"]: row["matmul_gflops"] for row in rows}.items():
        console.print(f"Ceiling of {precision} matrix products in one process: {gflops:,.0f} GFLOP/s.")
    console.print(f"Ceiling of copies: {first['copy_gb_per_s']:,.0f} GB/s.\n")
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
    console.print("\nWhere a step goes" + (" (the fastest of these):" if len(rows) > 1 else ":"))
    for name, seconds in best["parts"].items():
        if seconds:
            console.print(f"  {name:<30}{seconds * 1e3:9.1f} ms {seconds / total:6.1%}")
    hours = 1e6 / best["tokens_per_s_median"] / 3600
    console.print(f"\nA million tokens take {hours * 60:.1f} minutes; 100 million {hours * 100:.1f} hours.")
