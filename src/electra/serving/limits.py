"""Size limits of requests, so that no request can exhaust the machine."""

from dataclasses import dataclass
from typing import ClassVar

from electra.foundation.config import check_positive

MAX_TEXTS = 256  # in one request
MAX_CHARACTERS = 20_000  # in one text
MAX_CANDIDATES = 100_000  # in one response: masks times candidates per mask


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits that depend on the machine, all positive; each is an option of `electra serve`."""

    HEADING: ClassVar[str] = "Limits"

    max_body: int = 1 << 20
    """Maximum bytes in one request."""
    timeout: float = 30.0
    """Seconds after which an unanswered request fails."""
    queue: int = 1024
    """Maximum number of waiting requests; further ones get status 503."""

    def __post_init__(self) -> None:
        check_positive(self, vars(self))


class RequestError(Exception):
    """An error response: HTTP status, what is wrong, what to do about it, and the field at fault."""

    def __init__(self, status: int, what: str, fix: str = "", where: str = "") -> None:
        self.status, self.what, self.fix, self.where = status, what, fix, where
        super().__init__(what)
