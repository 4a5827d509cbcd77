"""Fine-tune a model on labelled texts over one or more seeds: numbers, predictions and a model folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from electra.commands.cli.arguments import Positional, Repeated, part
from electra.finetuning.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Arguments(Settings):
    model: Positional[str]
    """A run folder, an exported folder, a fine-tuned one (its encoder), or a name on the hub."""
    text_column: Repeated[tuple[str, ...]] = ()
    """The column of the text; for a pair pass the option twice (default: the usual names)."""
    label_column: Repeated[tuple[str, ...]] = ()
    """The column of the answer (default: the usual names). With --multi-label the option may be repeated: a
    column of 0 and 1 for each label.
    """
    also: Repeated[tuple[Path, ...]] = ()
    """A further file to predict, and to score where it has answers; may be repeated (MNLI's mismatched files
    are found in the folder).
    """


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.finetune import carry_out

    with Terminal() as display:
        tuned = carry_out(arguments.model, part(Settings, arguments), display)
        display.say(f"results: {tuned.folder.results}")
    return 0
