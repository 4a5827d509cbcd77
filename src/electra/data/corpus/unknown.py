"""The share of unknown tokens, which every command says above 1 % and refuses above 20 %.

Texts of unknown tokens cannot be told apart. Tokenizers count what they encode, and a store has an audit.
"""

import json
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from electra.data.corpus.tokenizer import CHARACTERS, EXAMPLES, Count, Tokenizer
from electra.data.tables.lines import garbled
from electra.data.tables.printed import without_ligatures
from electra.foundation.errors import TokenizerError, UnknownTokens

__all__ = ["Count", "note", "read", "warn", "words_in"]

SAID, REFUSED = 0.01, 0.2  # shares of the tokens
MIN_REFUSED = 5  # unknown tokens; fewer are only refused if no token is known
TEXTS_AHEAD = 1024  # of a stream that are read before the first is used
_BYTES = "train a tokenizer that knows every character: electra prepare --kind bpe"
_OTHER = f"Use a model or tokenizer made for such text, or {_BYTES}"


def note(tokenizer: Tokenizer, allow: bool, count: Count | None = None) -> str:
    """Returns a line about the unknown tokens of what was counted, "" if there are few.

    Without `count`, that is all that the tokenizer encoded since its `counted` was set. Raises TokenizerError
    for too many unknown tokens, unless the user accepts any share (`allow`).
    """
    count = count or tokenizer.counted
    share = count.unknown / max(1, count.tokens)
    if share <= SAID:
        return ""
    cause, fix = _cause(tokenizer, count.texts)
    problem = f"{100 * share:.3g} % of the tokens are unknown to the tokenizer{cause}"
    is_certain = count.unknown >= MIN_REFUSED or count.unknown == count.tokens
    if share > REFUSED and is_certain and not allow:
        problem += ", so the model cannot tell such texts apart"
        fix = f"{fix}; `allow_unknown` uses them nevertheless"
        raise TokenizerError(problem, where=tokenizer.origin, fix=fix)
    return f"{problem}. {fix}"


def words_in(texts: Iterable[str], tokenizer: Tokenizer) -> list[str]:
    """Returns some words of texts that are unknown, each once."""
    words = (word[:CHARACTERS] for text in texts for word in tokenizer.unknown_words(text[:CHARACTERS]))
    return list(islice(dict.fromkeys(words), EXAMPLES))


def warn(tokenizer: Tokenizer, allow: bool) -> None:
    """Issues the `note` on what the tokenizer encoded as a warning, and raises the same."""
    if line := note(tokenizer, allow):
        warnings.warn(line, UnknownTokens, stacklevel=3)


def read(tokenizer: Tokenizer, texts: Iterable[str], allow: bool) -> Iterator[str]:
    """Yields texts, of which `TEXTS_AHEAD` are counted ahead of the first, and warns of unknown tokens once.

    Raises TokenizerError if too many tokens are unknown so far.
    """
    source, count, said = iter(texts), Count(), ""
    while ahead := list(islice(source, TEXTS_AHEAD)):
        tokenizer.counted = count
        tokenizer.encode_corpus([*map(without_ligatures, ahead)])
        if (line := note(tokenizer, allow)) and not said:
            warnings.warn(said := line, UnknownTokens, stacklevel=2)
        tokenizer.counted = Count()  # the model encodes the same texts
        yield from ahead


def _cause(tokenizer: Tokenizer, texts: Iterable[str]) -> tuple[str, str]:
    """Returns the likely cause of unknown tokens in these texts, to follow their share, and what to do."""
    limit = json.loads(tokenizer.definition)["model"].get("max_input_chars_per_word") or 1 << 30
    words, entries = [word for text in texts for word in tokenizer.unknown_words(text)], tokenizer.vocabulary
    reasons = {word: _reason(word, limit, entries) for word in words}
    if not words:
        return "", _OTHER
    (cause, fix), _ = Counter(map(reasons.__getitem__, words)).most_common(1)[0]
    example = next(word for word in words if reasons[word] == (cause, fix))
    shown = f"{example[:20]}..." if len(example) > 20 else example
    return f" ({cause.format(shown)})", fix


def _reason(word: str, limit: int, entries: Mapping[str, int]) -> tuple[str, str]:
    """Returns why a word is unknown, with {} for the word, and what to do."""
    if len(word) > limit:
        cause = f"words of more than {limit} letters, such as {{}}: no spaces between letters or words?"
        return cause, f"Separate letters or words by spaces, or {_BYTES}"
    if garbled(word):
        return "such as {}: UTF-8 read as cp1252?", "Repair it: iconv -f UTF-8 -t CP1252 FILE > FIXED"
    letter = next((letter for letter in word if letter not in entries), word[0])
    script = unicodedata.name(letter, "Other").replace("-", " ").partition(" ")[0].title()
    if letter.isalpha():
        return f"text in {script} letters, such as {{}}: another language?", _OTHER
    return "such as {}", _OTHER
