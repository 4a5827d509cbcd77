"""Links of every page lead somewhere, anchors included; every result is listed and can be unpacked."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PLACES = (ROOT, ROOT / "docs", ROOT / "tests", RESULTS, ROOT / "examples", ROOT / "benchmarks")
LINK = re.compile(r"!?\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^()\s]+)\)")


def pages() -> list[Path]:
    return [page for place in PLACES for page in (place.glob("*.md") if place == ROOT else place.rglob("*.md"))]


def prose(page: Path) -> str:
    """The page without its code, in which brackets are no links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ {4,}(?![-*\d]).*$", "", text, flags=re.M))


def anchors(page: Path) -> set[str]:
    """What GitHub makes of headings: lower case, no punctuation, hyphens for spaces."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", text, flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(next(name for name in (slug, *(f"{slug}-{i}" for i in range(1, 99))) if name not in found))
    return found


def broken(page: Path, root: Path = ROOT) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(f"{page.relative_to(root)}: {link}")
    return found


def test_every_link_leads_somewhere() -> None:
    assert len(pages()) > 20
    assert [line for page in pages() for line in broken(page)] == []


def test_every_file_of_ours_that_a_page_names_is_there() -> None:
    named = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|toml|md))`")
    missing = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), RESULTS / "README.md"]:
        for name in named.findall(page.read_text(encoding="utf-8")):
            if not any((place / name).exists() for place in (ROOT, ROOT / "src" / "electra", RESULTS)):
                missing.append(f"{page.name}: {name}")
    assert [line for line in missing if "path/to/" not in line] == []


def folders() -> list[Path]:
    return sorted(path for path in RESULTS.iterdir() if (path / "README.md").is_file())


def test_every_result_is_a_question_and_listed() -> None:
    listed = (RESULTS / "README.md").read_text(encoding="utf-8")
    for folder in folders():
        assert f"({folder.name}/README.md)" in listed, folder.name
        first = (folder / "README.md").read_text(encoding="utf-8").partition("\n")[0]
        assert first.startswith("# ") and first.endswith("?"), f"{folder.name}: {first} is not a question"


def test_records_lie_in_one_file_of_their_folder() -> None:
    plain = {".md", ".svg", ".sh", ".py", ".toml", ".xz"}
    archives = 0
    for folder in folders():
        strays = [path.name for path in folder.iterdir() if path.is_file() and path.suffix not in plain]
        assert strays == [], f"{folder.name}: run results/records.py pack"
        if (archive := folder / "records.tar.xz").is_file():
            archives += 1
            with tarfile.open(archive) as tar:
                members = tar.getmembers()
            assert members and all(each.isreg() and each.name.startswith("records/") for each in members)
    assert archives


CLAIMS = ROOT / "results" / "the-papers-claims"
DIFFERENCE = re.compile(r"[+-]\d+\.\d \[-?\d+\.\d, -?\d+\.\d\]\*?, p [.\d]+ \([.\d]+\)")


def test_every_difference_with_a_p_is_computed_from_the_records(tmp_path: Path) -> None:
    with tarfile.open(CLAIMS / "records.tar.xz") as records:
        records.extractall(tmp_path, filter="data")
    script = [sys.executable, str(CLAIMS / "claims.py"), str(tmp_path / "records")]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    said = DIFFERENCE.findall((CLAIMS / "README.md").read_text())
    assert len(said) > 30 and set(said) <= set(DIFFERENCE.findall(printed))
    means = re.search(r"width-1 - width-0.25: (.*)  means (\d+\.\d), (\d+\.\d)", printed)
    assert means and f"{means[1]} ({means[2]}, {means[3]})" in (CLAIMS / "README.md").read_text()
