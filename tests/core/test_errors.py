"""What messages say about errors of other libraries."""

from __future__ import annotations

import pytest

from electra.foundation.errors import reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("bad value\nwith a hint"), "bad value"),
        (ValueError("\n  bad value"), "bad value"),
        (ValueError(), "ValueError"),
        (OSError(" \n"), "OSError"),
    ],
)
def test_a_reason_is_one_line_and_never_empty(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
