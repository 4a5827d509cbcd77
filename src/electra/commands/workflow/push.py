"""Models on the hub."""

from __future__ import annotations

from electra.commands.workflow.artifact import Source, given_path
from electra.commands.workflow.display import Told, display_for
from electra.exchange import hub


def push(
    source: Source,
    repo: str,
    *,
    private: bool = False,
    revision: str = hub.MAIN,
    dry_run: bool = False,
    progress: Told = None,
) -> str:
    """Publish a run, a model folder or a fine-tuning as the repository `repo` of the Hugging Face Hub; its
    address ("" of a dry run).

    Of a run: the discriminator, the generator in generator/, a language model in language_model/, each with
    its card; milestones as branches step-N. Absolute paths are cut from what is sent; run.toml stays here.

    private:  of a new repository; one that exists keeps what it has.
    revision: the branch to write to.
    dry_run:  say what would be sent, and send nothing.

    Raises ModelError where there is no finished network or one is damaged, ConfigError where the hub refuses.
    """
    files = hub.plan(given_path(source, "source"), revision)
    with display_for(progress) as display:
        if dry_run:
            hub.refuse_name(repo)
            for file in files:
                display.say(f"{file.branch}: {file.name} ({_size(file.size)})")
            display.say(f"{len(files)} files, {_size(sum(file.size for file in files))}: nothing was sent")
            return ""
        address = hub.push(files, repo, private=private, say=display.say)
        display.say(f"{address}\nnote: the card names no licence and no language: add them there")
        return address


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"
