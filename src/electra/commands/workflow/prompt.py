"""Model + labelled data -> Prompting: classification by the least-replaced wording, without or with shots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from electra.artifacts.tuning import PromptingFolder
from electra.commands.workflow.artifact import Artifact, Source, given_name, given_path
from electra.commands.workflow.display import Display, Told, display_for
from electra.foundation.extensions import trust

if TYPE_CHECKING:
    from electra.finetuning.prompt_settings import PromptSettings


class Prompting(Artifact[PromptingFolder]):
    """A folder made by `prompt`."""

    FOLDER = PromptingFolder

    @property
    def results(self) -> dict[str, Any]:
        """Accuracies with and without shots. Raises RunFolderError before the last draw has ended."""
        return self.folder.read_results()


def prompt(
    model: Source, *, task: str, data: Source, out: Source, progress: Told = None, **settings: Any
) -> Prompting:
    """Classify with the discriminator itself in the folder `out`, or resume what lies there.

    settings: any option of `electra prompt` by its name: shots=16, seeds=3, template="...", ...

    Raises ConfigError, DataError, AbsentNetwork, RunFolderError, and Interrupted when asked to stop.
    """
    from electra.finetuning.prompt_settings import PromptSettings
    from electra.foundation.config import build

    trust(task)
    given = {**settings, "task": task, "data": given_path(data, "data"), "out": given_path(out, "out")}
    if "limit" in given:  # as it was once called
        given["limit_eval"] = given.pop("limit")
    with display_for(progress) as display:
        return carry_out(model, build(PromptSettings, given, where=""), display)


def carry_out(model: Source, settings: PromptSettings, display: Display) -> Prompting:
    """Prompt with settings that are complete."""
    from electra.finetuning.prompting import prompt as evaluate

    evaluate(given_name(model, "model"), settings, display.say)
    return Prompting(settings.out)
