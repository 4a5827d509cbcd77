"""What a command has read of many files, in a file beside its output: rerun, it goes on where it stopped."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.foundation import durable


class Journal:
    """What was read of files, by their names: lines of JSON, of which the first is the settings."""

    def __init__(self, path: Path | None, settings: Sequence[Any]) -> None:
        self.path, self.files, first = path, dict[str, Any](), f"{json.dumps(settings)}\n".encode()
        if path is not None:
            content = durable.plain(path).read_bytes() if path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]  # the rest was being written
            whole = whole if whole.startswith(first) else first
            durable.commit_file(path, whole)
            self.files = dict(json.loads(line) for line in whole.removeprefix(first).splitlines())

    def add(self, name: str, found: Any) -> None:
        """Keeps what was read of a file."""
        self.files[name] = found
        if self.path is not None:
            with durable.explain_disk_errors(self.path), open(self.path, "ab") as file:
                file.write(f"{json.dumps([name, found])}\n".encode())
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        """Deletes the file, once the output is written."""
        if self.path is not None:
            self.path.unlink()
