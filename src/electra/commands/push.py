from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.commands.results.artifact import given_path


@dataclass(frozen=True)
class Push(
    Command[str],
    group="Share",
    examples=(
        "electra push runs/mine me/my-encoder --dry-run",
        "electra push runs/reviews me/reviews --private",
    ),
):
    """Publish a run, model or fine-tuning on the Hugging Face Hub.

    Of a run: the discriminator, the generator in generator/, a language model in language_model/, each with
    its card; milestones as branches step-N. Absolute paths are cut from what is sent; run.toml stays here.
    Returns the address.
    """

    source: Source
    """A finished run, an imported pair, a model folder or a fine-tuning."""
    repo: str
    """The repository, owner/name. It is made where there is none."""
    _: KW_ONLY
    private: bool = False
    """Make a new repository private."""
    revision: str = "main"
    """The branch to write to."""
    dry_run: bool = False
    """List what would be sent, and send nothing. Needs no token."""

    def run(self) -> str:
        from electra.exchange import hub

        files = hub.files_to_upload(given_path(self.source, "source"), self.revision)
        with display_for(self.progress) as display:
            if self.dry_run:
                hub.refuse_name(self.repo)
                for file in files:
                    display.say(f"{file.branch}: {file.name} ({_size(file.size)})")
                total = _size(sum(file.size for file in files))
                display.say(f"{len(files)} files, {total}: nothing was sent")
                return ""
            address = hub.push(files, self.repo, private=self.private, say=display.say)
            display.say(f"{address}\nnote: the card names no licence and no language: add them there")
            return address


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"


push = function(Push)
