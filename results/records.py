"""The records behind a page of results: one file a folder, records.tar.xz.

    python results/records.py unpack results/FOLDER...   # writes results/FOLDER/records/ (git ignores it)
    python results/records.py list results/FOLDER...
    python results/records.py pack results/FOLDER...     # writes records.tar.xz from records/

`tar -xJf results/FOLDER/records.tar.xz -C results/FOLDER` unpacks, too. The same records give the same bytes.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

NAME = "records"


def archive(folder: Path) -> Path:
    return folder / f"{NAME}.tar.xz"


def pack(folder: Path) -> None:
    """Write folder/records.tar.xz from the files under folder/records."""
    with tarfile.open(archive(folder), "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as tar:
        for path in sorted(path for path in (folder / NAME).rglob("*") if path.is_file()):
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())  # no owner and no time: the same bytes again
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def unpack(folder: Path) -> None:
    """Write the files of folder/records.tar.xz under folder/records."""
    with tarfile.open(archive(folder)) as tar:
        for entry in tar:
            file, target = tar.extractfile(entry), folder / entry.name
            if file is None or target.parts[: len(folder.parts) + 1] != (folder / NAME).parts or ".." in target.parts:
                sys.exit(f"{archive(folder)}: {entry.name} is not a file under {NAME}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read())


def names(folder: Path) -> list[str]:
    with tarfile.open(archive(folder)) as tar:
        return tar.getnames()


def main(verb: str, folders: list[Path]) -> None:
    for folder in folders:
        if verb == "list":
            sys.stdout.write("".join(f"{folder / name}\n" for name in names(folder)))
        else:
            {"pack": pack, "unpack": unpack}[verb](folder)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("pack", "unpack", "list"):
        sys.exit(f"usage: python {sys.argv[0]} pack|unpack|list FOLDER...")
    main(sys.argv[1], list(map(Path, sys.argv[2:])))
