"""WordPiece vocabularies trained on text, the same to the last entry every time.

The `tokenizers` trainer is not reproducible by itself: it numbers the `##x` pieces in the order of a hash
map, which decides ties between merges (huggingface/tokenizers#1794). So the alphabet is counted here, the
`##x` pieces are handed to the trainer as special tokens in a fixed order, and the tokenizer is built anew
from the vocabulary, with the five real specials only. The pipeline is BERT's (Devlin et al. 2019), which the
ELECTRA paper takes over.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from electra.data.settings import TokenizerConfig
from electra.foundation.errors import TokenizerError

SPECIAL_TOKENS = {
    "pad": "[PAD]",
    "unk": "[UNK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
}  # ids 0 to 4, in this order
PREFIX = "##"
MIN_FREQUENCY = 2  # characters and pairs seen less often make no entry
_COVERAGE = 0.9999  # share of the text's characters that the alphabet holds, rarest left out
_RARE_ACCENTS = 0.0025  # share of the characters; 0.0005 in English encyclopaedias, 0.012 in German ones
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_LONG = re.compile(r"\S{1000}")
_SPACE = re.compile(r"[ \t\n\r]+")


class Accents(NamedTuple):
    """What a tokenizer does with the marks that Unicode takes letters apart into (NFD)."""

    removed: bool
    share: float  # of the characters, that removing them changes


class Characters:
    """How often each character beyond ASCII occurs, and how many there are in all."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self.total = 0
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        self.total += len(text)
        for found in _BEYOND_ASCII.findall(text):
            self.counts.update(found)

    def share(self, wanted: Callable[[str], bool]) -> float:
        return sum(count for letter, count in self.counts.items() if wanted(letter)) / max(1, self.total)


def settle_accents(texts: Iterable[str], config: TokenizerConfig) -> tuple[TokenizerConfig, Accents | None]:
    """Keep accents by default in text whose letters have them often: without, Japanese \u304b and \u304c, or
    Russian \u043c\u043e\u0439 and \u043c\u043e\u0438, are the same. None: removing them changes nothing,
    or was ruled out.
    """
    if config.strip_accents is False or not (config.lowercase or config.strip_accents):
        return config, None
    keep, strip = (normalizers.BertNormalizer(lowercase=False, strip_accents=each) for each in (False, True))
    share = Characters(texts).share(lambda letter: keep.normalize_str(letter) != strip.normalize_str(letter))
    removed = config.strip_accents is True or share < _RARE_ACCENTS
    return (config if removed else replace(config, strip_accents=False)), Accents(
        removed, share
    ) if share else None


def loses_marks(letter: str, normalized: str) -> bool:
    """Whether a letter's marks are gone from what a tokenizer makes of it."""
    return any(map(_is_mark, unicodedata.normalize("NFD", letter))) and not any(
        map(_is_mark, unicodedata.normalize("NFD", normalized))
    )


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) == "Mn"


def train(texts: Iterable[str], config: TokenizerConfig) -> tokenizers.Tokenizer:
    """Train on `texts`, which are gone through twice. Little text makes a smaller vocabulary than was asked
    for: what does not occur twice in it makes no entry.
    """
    texts = _Cut(texts)
    alphabet = _alphabet(texts, config)
    if not alphabet:
        raise TokenizerError("no text to train a vocabulary on")
    words = sorted(words_in(texts))
    inner = [PREFIX + character for character in alphabet]  # those that never continue a word get no entry
    occurring = _vocabulary(words, alphabet, [], config, size=0)
    fixed = [*SPECIAL_TOKENS.values(), *(piece for piece in inner if piece in occurring)]
    vocabulary = _vocabulary(texts, alphabet, fixed, config, size=config.vocab_size)
    return frame(pipeline(vocabulary, lowercase=config.lowercase, strip_accents=config.strip_accents))


@dataclass(frozen=True)
class _Cut:
    """The texts with what has no white space cut up where it is longest: the trainer takes time quadratic in
    the length of a word.
    """

    texts: Iterable[str]

    def __iter__(self) -> Iterator[str]:
        return (_LONG.sub(r"\g<0> ", text) for text in self.texts)


def pipeline(
    vocabulary: dict[str, int],
    *,
    lowercase: bool,
    strip_accents: bool | None,
    chinese: bool = True,
    unknown: str = SPECIAL_TOKENS["unk"],
) -> tokenizers.Tokenizer:
    """BERT's pipeline around a vocabulary, without special tokens."""
    made = tokenizers.Tokenizer(
        models.WordPiece(vocabulary, unk_token=unknown, continuing_subword_prefix=PREFIX)
    )
    made.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=chinese
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix=PREFIX)
    return made


def frame(made: tokenizers.Tokenizer, names: Mapping[str, str] = SPECIAL_TOKENS) -> tokenizers.Tokenizer:
    """With the special tokens, by their roles, put around a text and a pair."""
    made.add_special_tokens(list(names.values()))
    begin, end = names["cls"], names["sep"]
    made.post_processor = processors.TemplateProcessing(
        single=f"{begin}:0 $A:0 {end}:0",
        pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
        special_tokens=[(token, made.token_to_id(token)) for token in (begin, end)],
    )
    return made


def words_in(texts: Iterable[str]) -> Counter[str]:
    """How often each occurs of what stands between white space."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(_SPACE.split(text))
    del words[""]
    return words


def _alphabet(texts: Iterable[str], config: TokenizerConfig) -> list[str]:
    normalizer = normalizers.BertNormalizer(lowercase=config.lowercase, strip_accents=config.strip_accents)
    words: Counter[str] = Counter()
    for word, count in words_in(texts).items():
        words[normalizer.normalize_str(word)] += count
    return alphabet_of(words, config, entries=2)  # x and ##x


def alphabet_of(words: Counter[str], config: TokenizerConfig, entries: int) -> list[str]:
    """The characters of words that were normalised, sorted: the most frequent, 99.99 % of them, and up to a
    quarter of the vocabulary. `entries`: that each may make.
    """
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    for character in [character for character in counts if character.isspace()]:
        del counts[character]
    wanted = _COVERAGE * counts.total()
    most = max(config.vocab_size // 4, min((config.vocab_size - len(SPECIAL_TOKENS)) // entries, 500))
    kept: list[str] = []
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if wanted <= 0 or count < MIN_FREQUENCY or len(kept) >= most:
            break
        kept.append(character)
        wanted -= count
    return sorted(kept)


def _vocabulary(
    texts: Iterable[str], alphabet: list[str], fixed: list[str], config: TokenizerConfig, size: int
) -> dict[str, int]:
    raw = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(
        lowercase=config.lowercase, strip_accents=config.strip_accents
    )
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=fixed,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    vocabulary: dict[str, int] = raw.get_vocab()
    return dict(sorted(vocabulary.items(), key=lambda item: item[1]))
