"""Counts in messages."""


def counted(count: int, what: str) -> str:
    """`3 seeds`, `1 seed`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
