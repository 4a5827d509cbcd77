"""What verbs say while they work."""

from __future__ import annotations

import sys

from electra.visible import visible


def say(line: str) -> None:
    """One line, at once: whoever watches a pipe sees it too."""
    sys.stdout.write(visible(line) + "\n")
    sys.stdout.flush()
