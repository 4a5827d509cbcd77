"""The base of the commands that make a model of another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from electra.commands.framework.command import Command, Source
from electra.commands.framework.display import display_for
from electra.commands.results.model import Model, load
from electra.foundation.options import as_name, checked_path


@dataclass(frozen=True)
class Reshape(Command[Model], group="Train", examples=()):
    """A command that makes a model of another shape from a trained one."""

    model: Source
    """A run, a pair of networks (both are converted), a model folder, a hub name, or one that comes with the
    package (tiny-en, small-en); not a fine-tuned model.
    """
    _: KW_ONLY
    out: Source
    """The folder to write. It must be new, or contain only exported models."""

    def reshape(self, write: Callable[[str, Path, int], Iterable[str]], size: int) -> Model:
        """Calls `write(model, out, size)`, shows the lines it yields, and returns the model in `out`."""
        with display_for(self.progress) as display:
            for line in write(as_name(self.model, "model"), checked_path(self.out, "out"), size):
                display.say(line)
        return load(self.out)
