"""How much a client may ask for, so that no request can exhaust the machine."""

from __future__ import annotations

from dataclasses import dataclass

from electra.foundation.config import check_positive

MAX_CANDIDATES = 100_000  # in one answer: places to fill, times how many for each
BATCH_CHARACTERS = 200_000  # of texts of several requests, computed together
BATCH_READ = 20_000  # tokens read for several requests by a language model that judges


@dataclass(frozen=True, kw_only=True)
class Limits:
    max_texts: int = 256
    """Most texts in one request."""
    max_characters: int = 20_000
    """Most characters in one text."""
    max_read: int = 400_000
    """Most tokens to read for one request where a language model judges, which reads a text once a word."""
    max_body: int = 1 << 20
    """Most bytes in one request."""
    timeout: float = 30.0
    """Seconds after which an unanswered request fails."""
    queue: int = 1024
    """Requests that may wait; further ones are answered with 503."""
    batch_size: int = 256
    """Texts to compute together, in a batch of several requests."""

    def __post_init__(self) -> None:
        check_positive(self, vars(self))


DEFAULT = Limits()


class Refused(Exception):
    """A request that gets no answer: its HTTP status, what is wrong, and what to do about it."""

    def __init__(self, status: int, what: str, fix: str = "", where: str = "") -> None:
        self.status, self.what, self.fix, self.where = status, what, fix, where
        super().__init__(what)
