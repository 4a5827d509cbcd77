"""Checks what would be published: `make release-check` runs it after `make test-package`, in minutes.

The files of dist/ must come from a clean tree and fit the tag, hold the licence and a page that an index can show.
The wheel is installed in an empty environment outside the repository, and README's commands run there, with little
data and few steps.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
LARGEST = 100  # MB, which the package index takes
SHORTER = ("30m", "20steps")
WITHOUT_TORCH = """
import contextlib, sys
from electra.commands.framework.main import main
with contextlib.suppress(SystemExit):
    main(["--help"])
assert "torch" not in sys.modules, "electra --help loads torch"
"""


def run(*words: str | Path, cwd: Path, code: int = 0) -> str:
    """Returns what a command printed; it must end with `code`."""
    print("  $", *(getattr(word, "name", word) for word in words if "\n" not in str(word)), flush=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}\nended with {done.returncode}, not {code}")
    return done.stdout if code == 0 else done.stderr


def environment(folder: Path, *packages: str | Path) -> Path:
    """Makes an environment with `packages` alone; returns its bin/."""
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages, cwd=folder)
    return folder / "bin"


def check_files(wheel: Path, sdist: Path) -> None:
    """Sizes, licence, and the version beside the tag and CHANGELOG.md."""
    with zipfile.ZipFile(wheel) as zipped, tarfile.open(sdist) as tarred:
        names = {wheel: zipped.namelist(), sdist: tarred.getnames()}
    for path, found in names.items():
        size = path.stat().st_size / 1e6
        print(f"{path.name}: {size:.1f} MB, {len(found)} files")
        assert size < LARGEST, f"larger than {LARGEST} MB"
        assert any(Path(name).name == "LICENSE" for name in found), f"{path.name} has no LICENSE"
    if dirty := run("git", "status", "--porcelain", cwd=ROOT).strip():
        sys.exit(f"commit or remove these first:\n{dirty}")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in re.findall("^v(.*)$", run("git", "tag", "--points-at", "HEAD", cwd=ROOT), re.M):
        assert wheel.name.split("-")[1] == version, f"{wheel.name} is not of the tag v{version}"
        assert re.search(rf"^## \[{re.escape(version)}\] - [\d-]+$", changes, re.M), (
            f"CHANGELOG.md: {version}, its date"
        )


def write_data(folder: Path) -> None:
    """The files that README names: documentation of Python's modules, and sentences with two labels."""
    (folder / "texts").mkdir()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef)]
        (folder / "texts" / f"{path.stem}.txt").write_text("\n".join(filter(None, texts)), encoding="utf-8")
    things = ("film", "meal", "book", "song", "house", "road", "play", "garden", "story", "bridge")
    rows = [(f"the {thing} by the {other} is", i) for i, thing in enumerate(things) for other in things[:4]]
    table = "\n".join(["text,label", *(f"{text} {('fine', 'grim')[i % 2]},{i % 2}" for text, i in rows)])
    for name in ("questions.csv", "reviews.csv", "new.csv"):
        (folder / name).write_text(table + "\n", encoding="utf-8")


def follow_readme(bin: Path, folder: Path) -> None:
    """Types README's commands, except those of a clone, and its Python; without the extra, `serve` names it."""
    page = (ROOT / "README.md").read_text(encoding="utf-8").replace(*SHORTER)
    for line in re.findall(r"^    electra (.*)$", page, re.M):
        words = re.findall(r'"[^"]*"|\S+', line)
        said = run(bin / "electra", *(word.strip('"') for word in words), cwd=folder, code=2 * (words[0] == "serve"))
        assert words[0] != "serve" or "serve" in said, said
        if "tiny-en" in words:
            shown = page.partition(line)[2].split("\n\n")[1]
            wanted, told = (re.sub(r"\d\.\d+", "", text).split() for text in (shown, said))
            assert told[: len(wanted)] == wanted, f"README shows\n{shown}\nand this is\n{said}"
    for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S):
        run(bin / "python", "-c", block, cwd=folder)


def main() -> None:
    """Runs every check; the first that fails ends it."""
    [wheel], [sdist] = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    check_files(wheel, sdist)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pinned = ("--no-deps", "--require-hashes", "-r", ROOT / ".github" / "release.lock")
        twine = environment(folder / "twine", *pinned)
        print(run(twine / "twine", "check", "--strict", wheel, sdist, cwd=folder), end="")
        electra = environment(folder / "electra", "-c", ROOT / "constraints.txt", wheel)
        where = run(electra / "python", "-c", "import electra; print(electra.__file__)", cwd=folder)
        assert Path(where).is_relative_to(folder), where
        run(electra / "python", "-c", WITHOUT_TORCH, cwd=folder)
        write_data(folder)
        follow_readme(electra, folder)
    print(f"{wheel.name} and {sdist.name} can be published")


if __name__ == "__main__":
    main()
