"""The command `electra push`; files are chosen and uploaded by `electra.exchange.hub`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from typing_extensions import override

from electra.commands.framework.command import Command, Source, function
from electra.commands.framework.display import display_for
from electra.foundation.options import checked_path


@dataclass(frozen=True)
class Push(
    Command[str],
    group="Share",
    examples=(
        "electra push runs/mine me/my-encoder --dry-run",
        "electra push runs/reviews me/reviews --private",
    ),
):
    """Publish a run, a model or a fine-tuned model on the Hugging Face Hub.

    For a run, this uploads the discriminator, the generator (generator/) and the language model
    (language_model/), each with a model card, and milestones as branches step-N. Absolute paths are removed;
    run.toml is not uploaded. In Python, returns the address.
    """

    source: Source
    """A finished run, an imported pair of networks, a model folder or a fine-tuned model."""
    repo: str
    """The repository, owner/name. It is created if it does not exist."""
    _: KW_ONLY
    private: bool = False
    """If the repository is new, make it private."""
    revision: str = "main"
    """The branch to write to."""
    dry_run: bool = False
    """List what would be uploaded, without uploading. Needs no token."""

    @override
    def run(self) -> str:
        from electra.exchange import hub

        files = hub.files_to_upload(checked_path(self.source, "source"), self.revision)
        with display_for(self.progress) as display:
            if self.dry_run:
                hub.require_valid_name(self.repo)
                for file in files:
                    display.say(f"{file.branch}: {file.name} ({_size(file.size)})")
                total = _size(sum(file.size for file in files))
                display.say(f"{len(files)} files, {total}; nothing was uploaded")
                return ""
            address = hub.push(files, self.repo, private=self.private, say=display.say)
            display.say(f"{address}\nnote: add the licence and the language to the model card there")
            return address


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"


push = function(Push)
