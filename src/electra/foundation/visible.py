"""The one filter where other people's text meets a terminal or a log: it may not steer it.

Control characters (C0, C1, so escape sequences too) and the characters that turn the direction of writing
become U+FFFD. Line ends and tabs stay; `one_line` makes those spaces as well.
"""

from __future__ import annotations

STEERING = (
    *(code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"),
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029),  # marks of direction, separators of lines
    *range(0x202A, 0x202F),  # embeddings and overrides of direction
    *range(0x2066, 0x206A),  # isolates
)
_TABLE = dict.fromkeys(STEERING, "\ufffd")


def visible(text: str) -> str:
    """The text with every steering character replaced, one for one: offsets stay what they were."""
    return text.translate(_TABLE)


def one_line(text: str) -> str:
    return " ".join(visible(text).split())


def from_argument(text: str) -> str:
    """A text of the command line: bytes that the locale could not decode are read as UTF-8."""
    if not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
