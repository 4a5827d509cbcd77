"""Kinds of words without annotation: closed classes by list, other words by their number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LISTS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "article, demonstrative": "a an the this that these those",
        "preposition": (
            "about above across after against along among around at before behind below between by down"
            " during for from in into near of off on onto out over since through till to towards under until"
            " up upon with within without"
        ),
        "pronoun": (
            "i me my mine myself you your yours he him his himself she her hers herself it its itself we us"
            " our ours they them their theirs who whom whose which what there"
        ),
        "auxiliary": (
            "am is are was were be been being have has had having do does did will would shall should can"
            " could may might must"
        ),
        "conjunction": "and or but nor so because although though if while when whereas than as",
    },
    "de": {
        "article, demonstrative": (
            "der die das den dem des ein eine einen einem einer eines kein keine keinen dieser diese dieses"
            " diesen"
        ),
        "preposition": (
            "an auf aus bei bis durch f\u00fcr gegen hinter im in mit nach neben ohne seit \u00fcber um unter"
            " von vom vor w\u00e4hrend wegen zu zum zur zwischen am beim"
        ),
        "pronoun": (
            "ich mich mir du dich dir er ihn ihm sie ihr ihnen es wir uns euch sich mein meine dein sein"
            " seine ihre unser man was wer"
        ),
        "auxiliary": (
            "bin bist ist sind seid war waren habe hast hat haben hatte hatten werde wird werden wurde wurden"
            " kann k\u00f6nnen konnte muss m\u00fcssen musste soll sollen sollte will wollen wollte darf"
            " d\u00fcrfen mag m\u00f6chte"
        ),
        "conjunction": "und oder aber denn sondern weil dass ob wenn als obwohl w\u00e4hrend damit",
    },
}
_KINDS = {
    language: {word: kind for kind, words in lists.items() for word in words.split()}
    for language, lists in _LISTS.items()
}


def kind_of(word: str, num_tokens: int, language: str) -> str:
    """Returns the kind of a word. A word of many tokens is rare or misspelt.

    Closed classes are known for the languages en and de only.
    """
    if not any(letter.isalnum() for letter in word):
        return "punctuation"
    if any(letter.isdigit() for letter in word):
        return "number"
    closed = _KINDS.get(language, {}).get(word.lower())
    if closed is not None:
        return closed
    return (
        f"other word, {num_tokens} token{'' if num_tokens == 1 else 's'}"
        if num_tokens < 3
        else "other word, 3 tokens or more"
    )
