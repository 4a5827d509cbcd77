"""Trains byte-level BPE and Unigram vocabularies, whose tokens include the space before a word.

Both split a text as BERT does, into words, numbers and punctuation, and put a space before the first word, so
that a word is the same token everywhere. Runs of white space become one space. Byte-level BPE
(Sennrich et al. 2016; bytes: Radford et al. 2019) represents every character by its bytes.

Unigram (Kudo 2018) is estimated here, because the library's trainer sums probabilities in the order of a hash
map, so that its results vary. The candidates are the pieces of a larger BPE vocabulary. Every word is split
into its most likely pieces, these are counted, and the least used candidates are removed, until few enough
are left. All counts are integers, so that the order of summation does not matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from electra.data.settings import TokenizerConfig
from electra.data.wordpiece import (
    MIN_FREQUENCY,
    SPECIAL_TOKENS,
    add_special_tokens,
    choose_alphabet,
    count_words,
)
from electra.foundation.errors import TokenizerError

SPACE = "\u2581"  # stands for the space before a word in Unigram, as in SentencePiece
BYTE_SPACES = "\u0120\u010a\u010d\u0109"  # space, line feed, carriage return and tab in byte-level BPE
_WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+"
_CANDIDATES = 3  # initial candidates, as a multiple of the vocabulary size
_KEPT = 0.8  # fraction of candidates kept in each round


def train_bpe(texts: Iterable[str], config: TokenizerConfig) -> tokenizers.Tokenizer:
    """Trains byte-level BPE on `texts`, which are iterated twice.

    Raises TokenizerError if there is no text, or for fewer than 261 entries (special tokens and bytes).
    """
    if not any(text.strip() for text in texts):
        raise TokenizerError("no text to train a vocabulary on")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    if config.vocab_size < len(SPECIAL_TOKENS) + len(letters):
        minimum = len(SPECIAL_TOKENS) + len(letters)
        raise TokenizerError(
            f"byte-level BPE needs at least {minimum} entries, not {config.vocab_size}",
            where="tokenizer.vocab_size",
        )
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = _normalizer(config)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [_split(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=letters,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return add_special_tokens(tokenizer)


def train_unigram(texts: Iterable[str], config: TokenizerConfig) -> tokenizers.Tokenizer:
    """Trains Unigram on `texts`; characters too rare for the alphabet become [UNK].

    Raises TokenizerError if there is no text.
    """
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = _normalizer(config)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [_split(), pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never", split=False)]
    )
    counts: Counter[str] = Counter()
    for word, count in count_words(texts).items():
        for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(word)):
            counts[piece] += count
    if not counts:
        raise TokenizerError("no text to train a vocabulary on")
    tokenizer.model = _estimate(counts, config)
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return add_special_tokens(tokenizer)


def _estimate(words: Counter[str], config: TokenizerConfig) -> models.Unigram:
    alphabet = choose_alphabet(words, config, entries=1)
    limit = max(config.vocab_size - len(SPECIAL_TOKENS), len(alphabet))
    order = sorted(words)
    pieces = {letter: 1 for letter in alphabet} | dict.fromkeys(_candidates(words, alphabet, config), 1)
    for _ in range(2):  # two rounds before any candidate is removed
        pieces = _count(words, order, pieces)
    while len(pieces) > limit:
        longer = sorted((p for p in pieces if len(p) > 1), key=lambda piece: (-pieces[piece], piece))
        size = max(limit, int(len(pieces) * _KEPT))
        pieces = {p: pieces[p] for p in [*alphabet, *longer[: size - len(alphabet)]]}
        pieces = _count(words, order, pieces)
    pieces = _count(words, order, pieces)
    ranked = sorted(pieces, key=lambda piece: (-pieces[piece], piece))
    total = sum(pieces.values())
    scored = [(piece, math.log(pieces[piece] / total)) for piece in ranked]
    specials = [(token, 0.0) for token in SPECIAL_TOKENS.values()]
    return models.Unigram([*specials, *scored], unk_id=list(SPECIAL_TOKENS).index("unk"), byte_fallback=False)


def _candidates(words: Counter[str], alphabet: list[str], config: TokenizerConfig) -> list[str]:
    raw = tokenizers.Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=_CANDIDATES * config.vocab_size,
        min_frequency=MIN_FREQUENCY,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    # Repetitions beyond 10,000 do not change which pieces are candidates.
    raw.train_from_iterator((" ".join([word] * min(count, 10_000)) for word, count in words.items()), trainer)
    return sorted(raw.get_vocab())


def _count(words: Counter[str], order: list[str], pieces: dict[str, int]) -> dict[str, int]:
    """Returns the uses of each piece, at least 1, with every word split into its most likely pieces."""
    total = sum(pieces.values())
    names = ["[UNK]", *sorted(pieces)]
    model = models.Unigram(
        [(names[0], 0.0), *((name, math.log(pieces[name] / total)) for name in names[1:])], unk_id=0
    )
    raw = tokenizers.Tokenizer(model)
    uses = Counter(dict.fromkeys(range(1, len(names)), 1))
    for word, encoding in zip(order, raw.encode_batch_fast(order, add_special_tokens=False), strict=True):
        for index in encoding.ids:
            uses[index] += words[word]
    return {names[index]: count for index, count in uses.items() if index}


def _normalizer(config: TokenizerConfig) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = [normalizers.NFC()]
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    if config.lowercase if config.strip_accents is None else config.strip_accents:
        steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    steps += [
        normalizers.Replace(tokenizers.Regex(r"\s+"), " "),
        normalizers.Strip(),
        normalizers.Prepend(" "),
    ]
    return normalizers.Sequence(steps)


def _split() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(tokenizers.Regex(_WORDS), "isolated")
