"""What a package index shows: README.md with links that work there, and the addresses of the project.

They begin with the address of the repository, which is not written down anywhere: it is that of the
workflow that builds (GITHUB_REPOSITORY), or of the clone's remote `origin`. Without either, the links
stay relative.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\]\([^)]*\))*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
REMOTE = re.compile(r"(?:https://(?:[^@/]+@)?|git@|ssh://git@)([\w.-]+)[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")


def repository(root: Path) -> str:
    """Returns the web address of the repository ("": unknown)."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    words = ["git", "-C", str(root), "config", "--get", "remote.origin.url"]
    try:
        found = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git here
        return ""
    match = REMOTE.fullmatch(found)
    return f"https://{match[1]}/{match[2]}" if match else ""


def absolute(text: str, address: str) -> str:
    """Returns Markdown whose links to files of the repository begin with its `address`."""

    def link(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}[{absolute(match[2], address)}]({address}/{kind}/main/{match[3]})"

    return LINK.sub(link, text) if address else text


class IndexPage(MetadataHookInterface):
    """Sets `readme` and `urls` of the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds them to `metadata`, in place."""
        root = Path(self.root)
        address = repository(root)
        text = absolute((root / "README.md").read_text(encoding="utf-8"), address)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        pages = {"Source": "", "Issues": "/issues", "Documentation": "/blob/main/docs/README.md"}
        pages["Changes"] = "/blob/main/CHANGELOG.md"
        metadata["urls"] = {name: address + path for name, path in pages.items()} if address else {}
