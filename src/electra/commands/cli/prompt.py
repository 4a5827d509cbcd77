"""Zero- or few-shot classification with a discriminator, by the least-replaced wording."""

from __future__ import annotations

from dataclasses import dataclass

from electra.commands.cli.arguments import Positional, Repeated, part
from electra.finetuning.prompt_settings import PromptSettings

ALIASES = {"--limit": "--limit-eval"}  # as it was once called


@dataclass(frozen=True, kw_only=True)
class Arguments(PromptSettings):
    model: Positional[str]
    """A run folder, an exported folder, or a name on the hub, with a discriminator."""
    words: Repeated[tuple[str, ...]] = ()
    """The words for a label, LABEL=WORDS; repeat for each label that should differ from the task's."""
    text_column: Repeated[tuple[str, ...]] = ()
    """The column of the text; for a pair pass the option twice (default: the usual names)."""


def run(arguments: Arguments) -> int:
    from electra.commands.workflow.display import Terminal
    from electra.commands.workflow.prompt import carry_out

    with Terminal() as display:
        prompted = carry_out(arguments.model, part(PromptSettings, arguments), display)
        results = prompted.results
        if results["shots"]:
            sd = results["few_shot_accuracy_sd"]
            spread = f", sd {sd:.4f}" if sd is not None else ""
            mean = f"accuracy {results['few_shot_accuracy']:.4f}, the mean of {arguments.seeds} draws{spread}"
            display.say(f"{results['shots']} shots a label: {mean}")
        without = f"chance {results['chance']:.4f}, most frequent label {results['majority']:.4f}"
        display.say(f"{without}; results: {prompted.folder.results}")
    return 0
