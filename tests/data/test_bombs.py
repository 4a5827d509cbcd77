"""Small files that expand to gigabytes are read in bounded memory, or refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20
READ = """
import re, sys
from pathlib import Path
from electra.data.readers import read_source
from electra.data.sources import find_sources
from electra.foundation.errors import CorpusError
def peak():  # MiB of this process alone: getrusage begins with the peak of the one that started it
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10
before = peak()
total = 0
try:
    for source in find_sources(sys.argv[1:], Path(sys.argv[1]).parent):
        for text in read_source(source, "file", "text"):
            total += len(text.text)
            if total > 600 << 20:
                break
except CorpusError as error:
    print("refused:", error)
print(peak() - before, total >> 20)
"""


def read(path: Path) -> tuple[int, str]:
    """Returns the MiB of memory for reading the first 600 MiB of text, and what was printed."""
    ended = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout.splitlines()[-1].split()[0]), ended.stdout


def test_a_zstd_bomb_is_refused(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    packer = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    with open(tmp_path / "bomb.txt.zst", "wb") as file:
        for _ in range(64):
            file.write(packer.compress(b"a" * (16 * MIB)))
        file.write(packer.flush())
    assert (tmp_path / "bomb.txt.zst").stat().st_size < MIB // 4
    used, _ = read(tmp_path / "bomb.txt.zst")
    assert used < 250


def test_a_zstd_window_of_gigabytes_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    header = b"\x28\xb5\x2f\xfd" + bytes([0x00, (31 - 10) << 3])  # a frame that asks for 2 GiB
    (tmp_path / "window.txt.zst").write_bytes(header + b"\x01\x00\x00")
    used, message = read(tmp_path / "window.txt.zst")
    assert "refused: " in message and "window.txt.zst: " in message and used < 100


@pytest.mark.slow
@pytest.mark.parametrize("repeated", [True, False])
def test_a_parquet_bomb_is_refused(repeated: bool, tmp_path: Path) -> None:
    """One long value that many rows repeat; one page that unfolds a thousandfold."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    one = pyarrow.array(["b" * MIB if repeated else "c" * 400 * MIB])
    many = pyarrow.DictionaryArray.from_arrays([0] * 2000, one)
    table = pyarrow.table({"text": many if repeated else one})
    options = {"compression": "zstd", "use_dictionary": repeated}
    parquet.write_table(
        table, tmp_path / "bomb.parquet", store_schema=False, **options
    )  # tells no dictionary
    assert (tmp_path / "bomb.parquet").stat().st_size < MIB // 4
    used, message = read(tmp_path / "bomb.parquet")
    assert used < 250
    assert repeated or "refused: " in message
