"""What mkdocs builds the site from: the repository's own pages, in its own folders, so that a link works in both.

The menu is docs/README.md: each `## Heading` is a tab, each `- [Title](page.md)` below it an entry.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
TAKEN = ["*.md", "LICENSE", "docs/*.md", "docs/pictures/*", "docs/site/*.css", "examples/*.*", "src/**/*.toml"]
TAKEN += ["results/README.md", "results/*.py", "results/*/*.*"]


def sources() -> list[str]:
    found = {path for pattern in TAKEN for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(str(path.relative_to(ROOT)) for path in found if path.name != "records.tar.xz")


def title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].strip("# ")


def menu() -> list[dict[str, Any]]:
    sections: list[dict[str, Any]] = [{"electra": "README.md"}]
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for heading, body in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, flags=re.M):
        entries: list[Any] = []
        for name, link in re.findall(r"^- \[([^\]]+)\]\(([^)#]+\.md)\)", body, flags=re.M):
            page = (ROOT / "docs" / link).resolve().relative_to(ROOT)
            entries.append({name: str(page)})
        if heading == "Results":
            pages = sorted((ROOT / "results").glob("*/README.md"), reverse=True)
            entries += [{title(page).replace("`", ""): str(page.relative_to(ROOT))} for page in pages]
        sections.append({heading: entries})
    return sections


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = menu()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The theme's own files, and ours by their path in the repository instead of that below docs/."""
    theirs = [file for file in files if not (file.src_dir and Path(file.src_dir) == Path(config.docs_dir))]
    ours = [File(path, str(ROOT), config.site_dir, config.use_directory_urls) for path in sources()]
    return Files([*theirs, *ours])
