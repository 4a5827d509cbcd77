"""Compare objectives and settings at equal compute: the arms of a study over seeds, with statistics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.cli.arguments import Positional, Repeated


@dataclass(frozen=True, kw_only=True)
class Arguments:
    study: Positional[str]
    """objectives, generator-size, training-algorithm, tying, masking, convergence, model-size, lambda,
    temperature, ...; or a TOML file.
    """
    out: Path
    """The study's folder. Rerun the command to resume a stopped study; another --arm, more --seeds, or a
    panel add to it.
    """
    arm: Repeated[tuple[str, ...]] = ()
    """An arm to train now (may be repeated; default: all). Others can follow another day; the page names what
    is missing.
    """
    corpus: tuple[str, ...] = ()
    """Files, folders, globs, URLs, - (stdin), hub:NAME, or python-docs (the default: the prose of Python's
    own documentation).
    """
    store: str | None = None
    """A token store made by electra prepare, instead of a corpus: a folder, a .ds file, or an address
    (s3://..., https://...).
    """
    budget: str | None = None
    """What each arm gets (default: the recipe's): 2e14flops; 10Mtokens or 5000steps, at least that for every
    arm; 30m of the baseline arm.
    """
    seeds: int = 3
    """Replicates of each arm. Arms share the seed of a replicate, and with it the order of the data."""
    seed: int = 1
    """The first seed."""
    recipe: str | None = None
    """What the arms change: a recipe's name or a TOML file (default: the study's, budget-tiny in all of
    ours).
    """
    panel_data: Path | None = None
    """A folder with the panel's data (docs/ablations.md names the files); without it a study has pre-training
    metrics only.
    """
    panel: Repeated[tuple[str, ...]] = ()
    """A task that scores each encoder (may be repeated; default: pos and chunking, frozen): stsb, sst2, cola,
    mnli are tuned, and slower.
    """
    jobs: int = 1
    """Arms trained at the same time."""
    threads: int | None = None
    """CPU threads of each (default: the cores, divided by --jobs)."""
    workers: int | None = None
    """Processes that encode the corpus (default: all cores)."""
    dry_run: bool = False
    """Say what the study costs, in FLOPs and in hours at the speed measured here and now, and train nothing.
    """


def run(arguments: Arguments) -> int:
    from electra.workflow.ablate import Order, Study, carry_out
    from electra.workflow.display import Terminal

    order = Order(
        study=arguments.study,
        out=arguments.out,
        arms=arguments.arm,
        **{
            name: getattr(arguments, name)
            for name in (
                [
                    "corpus",
                    "store",
                    "budget",
                    "seeds",
                    "seed",
                    "recipe",
                    "panel_data",
                    "panel",
                    "jobs",
                    "threads",
                    "workers",
                ]
            )
        },
    )
    with Terminal() as display:
        carry_out(order, display, dry_run=arguments.dry_run)
    return 1 if not arguments.dry_run and Study(arguments.out).failed else 0
