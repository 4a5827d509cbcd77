"""Records that display well: a list of dicts, shown as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from electra.foundation.machine import library
from electra.foundation.terminal_text import when

if TYPE_CHECKING:
    import pandas

MAX_ROWS_SHOWN = 20  # rows that are displayed


class Rows(list[dict[str, Any]]):
    """A list of records (plain dicts). `frame()` returns them as a pandas DataFrame."""

    def frame(self) -> pandas.DataFrame:
        """Returns the rows as a DataFrame. Raises ConfigError if pandas is not installed."""
        frame: pandas.DataFrame = library("pandas", "notebook").DataFrame.from_records(list(self))
        return frame

    def __repr__(self) -> str:
        return self.table(MAX_ROWS_SHOWN) + when(len(self) > MAX_ROWS_SHOWN, f"\n... {len(self)} rows")

    def table(self, most: int | None = None) -> str:
        """Returns the rows, or the first of them, as a table with aligned columns."""
        columns = list(dict.fromkeys(key for row in self for key in row))
        rows = [[str(name) for name in columns]]  # pandas names some 0, 1, ...
        rows += [[_cell(row.get(name)) for name in columns] for row in self[:most]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
