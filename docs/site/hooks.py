"""What mkdocs builds the site from: the repository's own pages, in its own folders, so that a link works in both.

The menu is docs/README.md: each `## Heading` is a tab, each `- [Title](page.md)` below it an entry.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
TAKEN = [
    "*.md",
    "CITATION.cff",
    "LICENSE",
    "docs/*.md",
    "tests/*.md",
    "docs/pictures/*",
    "docs/site/*.css",
    "examples/*.*",
    "src/**/*.toml",
]
TAKEN += ["results/README.md", "results/*.py", "results/*/*.*"]
SHELL = re.compile(r" {4}(?:#|\$|(?:electra|pip|make|python|pytest|git|curl|docker|torchrun|source|echo|cat|hf)\b)")


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
            index = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
            listed = re.findall(r"^\| \[[^\]]+\]\(([\w-]+)/README\.md\)", index, flags=re.M)
            pages = [ROOT / "results" / name / "README.md" for name in listed]
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


def on_page_markdown(markdown: str, page: Page, **kwargs: Any) -> str:
    """Results rank below guides in the search; indented commands get the colours of a shell."""
    if page.file.src_uri.startswith("results/"):
        page.meta["search"] = {"boost": 0.3}

    def colour(block: re.Match[str]) -> str:
        before, code = block.groups()
        in_a_list = re.match(r"\s|[-*] |\d+\. ", before)
        if in_a_list or not SHELL.match(code):
            return block.group()
        lines = [line[4:] for line in code.rstrip("\n").split("\n")]
        return "\n".join([before, "", "```sh", *lines, "```", ""])

    parts = re.split(r"^(```.*?^```$)", markdown, flags=re.M | re.S)
    parts[::2] = [re.sub(r"^(.*\S.*)\n\n((?: {4}.*\n)+)", colour, part, flags=re.M) for part in parts[::2]]
    return "".join(parts)
