"""Text for a terminal or a log: articles, plurals, and a filter against control characters.

Control characters (C0 and C1, hence escape sequences) and characters that change the direction of writing
become U+FFFD. Newlines and tabs stay; `one_line` turns them into spaces.
"""

from collections.abc import Sequence

HIDDEN_CODES = (  # code points that a terminal or a viewer obeys instead of showing them
    *(code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"),
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029),  # direction marks, line and paragraph separators
    *range(0x202A, 0x202F),  # direction embeddings and overrides
    *range(0x2066, 0x206A),  # isolates
)
_TABLE = dict.fromkeys(HIDDEN_CODES, "\ufffd")


def make_visible(text: str) -> str:
    """Returns the text with each of HIDDEN_CODES replaced by one U+FFFD, so that offsets do not change."""
    return text.translate(_TABLE)


def one_line(text: str) -> str:
    """Returns the visible text on one line, with each run of white space replaced by one space."""
    return " ".join(make_visible(text).split())


def decode_argument(text: str) -> str:
    """Returns a command-line argument with the bytes that the locale could not decode read as UTF-8."""
    if not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def with_article(noun: str) -> str:
    """Returns a noun with its indefinite article: "a run", "an evaluation"."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def plural(count: int, noun: str) -> str:
    """Returns a count with its noun: `1 seed`, `3 seeds`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def some_of(names: Sequence[str], count: int | None = None, most: int = 3) -> str:
    """Returns the first names and how many others there are, of `count` in all (None: all of `names`)."""
    others = (len(names) if count is None else count) - most
    return ", ".join(names[:most]) + when(others > 0, f" and {others:,} more")


def when(applies: object, text: str) -> str:
    """Returns a clause if it applies; else ""."""
    return text if applies else ""
