"""How much a client may ask for, so that no request can exhaust the machine."""

from __future__ import annotations

from dataclasses import dataclass

from electra.foundation.config import check_positive

MAX_CANDIDATES = 100_000  # in one answer: places to fill, times how many for each
BATCH_CHARACTERS = 200_000  # of texts of several requests, computed together
BATCH_READ = 20_000  # tokens read for several requests by a language model that judges


@dataclass(frozen=True)
class Limits:
    max_texts: int = 256
    """Texts in one request."""
    max_characters: int = 20_000
    """Characters of one text."""
    max_read: int = 400_000
    """Tokens read for one request by a language model that judges: a text as often as it has words."""
    max_body: int = 1 << 20
    """Bytes of a request's body."""
    timeout: float = 30.0
    """Seconds for the body to arrive, and again for the answer, whose computation ends with them."""
    queue: int = 1024
    """Requests that wait or are computed; the next one is told to come again later (503)."""
    batch_size: int = 256
    """Texts that are computed together, in a batch of several requests."""

    def __post_init__(self) -> None:
        check_positive(self, vars(self))


DEFAULT = Limits()


class Refused(Exception):
    """A request that gets no answer: its HTTP status, what is wrong, and what to do about it."""

    def __init__(self, status: int, what: str, fix: str = "", where: str = "") -> None:
        self.status, self.what, self.fix, self.where = status, what, fix, where
        super().__init__(what)
