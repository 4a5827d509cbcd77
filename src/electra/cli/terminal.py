"""What verbs say while they work."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """One line, at once: whoever watches a pipe sees it too."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
