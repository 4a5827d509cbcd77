"""Make a finished run longer (--budget), or a model deeper (--layers) or read longer texts (--length).

With --budget, for a run of the schedule wsd: it resumes where its learning rate began to fall and ends as if
it had had this budget from the start. Its networks and page so far move to RUN/milestones/step-N.

With --length, for a run, a model folder or a hub name: the same weights are written to OUT with positions for
more tokens. Train it further on longer texts before you rely on it.

With --layers, for the same: the layers are repeated in order, so that a network of 4 becomes one of 8.
Train it further before you use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.commands.cli.arguments import Positional
from electra.foundation.errors import ConfigError


@dataclass(frozen=True)
class Arguments:
    run: Positional[str]
    """A run that electra pretrain made with --training.schedule wsd; with --length and --layers any model."""
    out: Positional[Path | None] = None
    """With --length or --layers: the folder to write. Of a run or a pair it gets discriminator/ and
    generator/.
    """
    budget: str | None = None
    """The budget of the whole run, including what it has spent: 2e16flops, 50Mtokens, 5000steps or 2h."""
    length: int | None = None
    """The most tokens the model reads at once, such as 2048. The base of rotary positions is adapted; a table
    of positions is repeated.
    """
    layers: int | None = None
    """The new number of layers, a multiple of the present one. The generator of a pair gets as many
    times its layers.
    """
    store: str | None = None
    """The store it was trained on (default: RUN/store, or the recorded path)."""
    processes: int = 1
    """Processes on this machine that share each batch: one for each GPU. On a CPU threads do as well. Across
    machines, use torchrun.
    """


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.extend import carry_on, deepen, lengthen

    if [arguments.budget, arguments.length, arguments.layers].count(None) != 2:
        raise ConfigError(
            "a budget, a length or a number of layers is needed, and only one of them",
            where="electra extend",
            fix="Say electra extend RUN --budget 50Mtokens, electra extend MODEL OUT --length 2048,"
            " or electra extend MODEL OUT --layers 8",
        )
    if (arguments.out is None) != (arguments.budget is not None):
        raise ConfigError(
            "OUT is where another model is written, and a run becomes longer where it lies",
            where="electra extend",
            fix="Give OUT with `length` or `layers`, and only then",
        )
    if arguments.out is not None and (arguments.store is not None or arguments.processes != 1):
        raise ConfigError(
            "another model is written, and nothing is trained",
            where="electra extend",
            fix="Leave out `store` and `processes`",
        )
    if arguments.length is not None and arguments.out is not None:
        lengthen(arguments.run, arguments.out, length=arguments.length, progress=Terminal())
        return 0
    if arguments.layers is not None and arguments.out is not None:
        deepen(arguments.run, arguments.out, layers=arguments.layers, progress=Terminal())
        return 0
    assert arguments.budget is not None
    with Terminal(lines=True) as display:
        carry_on(arguments.run, arguments.budget, arguments.store, arguments.processes, display)
    return 0
