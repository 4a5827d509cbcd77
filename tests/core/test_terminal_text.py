"""Untrusted text cannot control a terminal."""

import pytest

from electra.foundation.errors import ElectraError
from electra.foundation.terminal_text import make_visible, one_line

HOSTILE = "a\x1b[31mred\x1b]0;title\x07 b\u202eright\u2066c\x9b2Jd\r"


def test_control_characters_are_replaced_and_offsets_stay() -> None:
    shown = make_visible(HOSTILE)
    assert len(shown) == len(HOSTILE) and not set("\x1b\x07\x9b\r\u202e\u2066") & set(shown)
    assert shown.startswith("a\ufffd[31mred") and shown[1] == "\ufffd"
    plain = "na\u00efve \u6f22\u5b57 \U0001f600 e\u0301\u200d\ttab\nline"
    assert make_visible(plain) == plain


@pytest.mark.parametrize("part", ["what", "where", "fix"])
def test_an_error_is_one_line_without_control_characters(part: str) -> None:
    given = {"what": "w", "where": "x", "fix": "f"} | {part: f"file{HOSTILE}\nsecond line"}
    line = str(ElectraError(given["what"], where=given["where"], fix=given["fix"]))
    assert line == one_line(line) and "\n" not in line and "\x1b" not in line and "second line" in line
