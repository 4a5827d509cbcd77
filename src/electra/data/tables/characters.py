"""Characters that readers do not see, or take for others, in labels, tags and names of columns."""

import re
import unicodedata
from functools import lru_cache

# Soft hyphen, grapheme joiner, zero-width space, bidirectional marks, word joiner, byte order mark.
_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff]+")
_JOINERS = re.compile("[\u200c\u200d]+")  # letters of some scripts and emoji need them
_FIXED_SPACES = re.compile("[\u00a0\u2007\u202f]")
_LOOKALIKES = {  # capitals and small letters of Cyrillic and Greek, and the Latin ones they look like
    **dict(zip(map(ord, "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d"), "ABESIJKMH", strict=True)),
    **dict(zip(map(ord, "\u041e\u0420\u0421\u0422\u0423\u0425\u04c0"), "OPCTYXI", strict=True)),
    **dict(zip(map(ord, "\u0430\u0435\u043e\u0440\u0441\u0443\u0445"), "aeopcyx", strict=True)),
    **dict(zip(map(ord, "\u0456\u0455\u0458\u04bb\u0501"), "isjhd", strict=True)),
    **dict(zip(map(ord, "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c"), "ABEZHIKM", strict=True)),
    **dict(zip(map(ord, "\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf"), "NOPTYXo", strict=True)),
    **dict.fromkeys([0x2212, 0xFE63, *range(0x2010, 0x2016)], "-"),
}


@lru_cache(maxsize=1 << 12)
def visible(text: str) -> str:
    """Returns a name without characters that show nothing, with plain spaces, none of them around it.

    Joiners stay where they carry meaning: between letters of scripts that need them, such as Persian or
    Hindi, after a virama, and between emoji.
    """
    if text.isascii():
        return text.strip()
    text = _INVISIBLE.sub("", _FIXED_SPACES.sub(" ", text)).strip()
    return _JOINERS.sub(_meant, text).strip()


def _meant(match: re.Match[str]) -> str:
    before, after = match.string[: match.start()][-1:], match.string[match.end() :][:1]
    is_meant = _is_joined(before) and (_is_joined(after) or unicodedata.combining(before) == 9)
    return match[0][0] if is_meant else ""


def _is_joined(character: str) -> bool:
    is_beyond = character > "\u05ff" and not unicodedata.name(character, "").startswith("LATIN")
    return is_beyond and unicodedata.category(character)[0] in "LMS"


@lru_cache(maxsize=1 << 12)
def latin(text: str) -> str:
    """Returns a text with the Latin characters that others in it look like."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_LOOKALIKES)


def strange_character(text: str) -> str:
    """Returns the name of the first character of a text that looks like another; "" if there is none."""
    strange = next((each for each in text if latin(each) != each), "")
    return unicodedata.name(strange, f"U+{ord(strange):04X}") if strange else ""
