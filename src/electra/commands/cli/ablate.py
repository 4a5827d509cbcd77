"""Compare objectives and settings at equal compute: the arms of a study over seeds, with statistics."""

from __future__ import annotations

from dataclasses import dataclass

from electra.commands.cli.arguments import Positional, Repeated
from electra.commands.workflow.ablate import Order, Study, carry_out


@dataclass(frozen=True, kw_only=True)
class Arguments(Order):
    study: Positional[str]
    """objectives, generator-size, training-algorithm, tying, masking, convergence, model-size, lambda,
    temperature, ...; or a TOML file.
    """
    arm: Repeated[tuple[str, ...]] = ()
    """An arm to train now (may be repeated; default: all). The others can be trained later; the page says
    what is missing.
    """
    panel: Repeated[tuple[str, ...]] = ()
    """A task that scores each encoder (may be repeated; default: pos and chunking, frozen). stsb, sst2, cola
    and mnli are fine-tuned, and slower.
    """
    dry_run: bool = False
    """Print the cost of the study, in FLOPs and in hours at the speed measured now, without training."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal

    with Terminal() as display:
        carry_out(arguments, display, dry_run=arguments.dry_run)
    return 1 if not arguments.dry_run and Study(arguments.out).failed else 0
