"""Byte-level BPE and Unigram vocabularies, whose tokens carry the space before a word. Same text, same bytes.

Both split a text into words as BERT does, into letters, digits and signs, and put one space before the first
word, so that a word is the same token wherever it stands. White space is only a boundary: its runs become one
space. Byte-level BPE (Sennrich et al. 2016; bytes: Radford et al. 2019) knows every character, by its bytes.

Unigram (Kudo 2018) is estimated here, since the library's trainer adds up its probabilities in the order of a
hash map and gives others every time: candidates are the pieces of a larger BPE vocabulary; again and again
every word is cut into its likeliest pieces, counted, and the least used candidates go. All counts are whole
numbers, so nothing depends on an order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from electra.data.settings import TokenizerConfig
from electra.data.wordpiece import MIN_FREQUENCY, SPECIAL_TOKENS, alphabet_of, frame, words_in
from electra.foundation.errors import TokenizerError

SPACE = "\u2581"  # how Unigram writes the space before a word, as SentencePiece does
BYTE_SPACES = (
    "\u0120\u010a\u010d\u0109"  # how byte-level BPE writes space, line feed, carriage return and tab
)
_WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+"
_CANDIDATES = 3  # as many times the vocabulary as was asked for
_KEPT = 0.8  # of the candidates, each time


def train_bpe(texts: Iterable[str], config: TokenizerConfig) -> tokenizers.Tokenizer:
    """Byte-level BPE trained on `texts`. Needs 261 entries: the special tokens and the bytes."""
    if not any(text.strip() for text in texts):
        raise TokenizerError("no text to train a vocabulary on")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    if config.vocab_size < len(SPECIAL_TOKENS) + len(letters):
        least = len(SPECIAL_TOKENS) + len(letters)
        raise TokenizerError(
            f"byte-level BPE needs at least {least} entries, not {config.vocab_size}",
            where="tokenizer.vocab_size",
        )
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = _normalizer(config)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [_split(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=letters,
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    made.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return frame(made)


def train_unigram(texts: Iterable[str], config: TokenizerConfig) -> tokenizers.Tokenizer:
    """Unigram trained on `texts`. Characters too rare for the alphabet become [UNK]."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.normalizer = _normalizer(config)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [_split(), pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never", split=False)]
    )
    counts: Counter[str] = Counter()
    for word, count in words_in(texts).items():
        for piece, _ in made.pre_tokenizer.pre_tokenize_str(made.normalizer.normalize_str(word)):
            counts[piece] += count
    if not counts:
        raise TokenizerError("no text to train a vocabulary on")
    made.model = _estimate(counts, config)
    made.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return frame(made)


def _estimate(words: Counter[str], config: TokenizerConfig) -> models.Unigram:
    alphabet = alphabet_of(words, config, entries=1)
    room = max(config.vocab_size - len(SPECIAL_TOKENS), len(alphabet))
    order = sorted(words)
    pieces = {letter: 1 for letter in alphabet} | dict.fromkeys(_candidates(words, alphabet, config), 1)
    for _ in range(2):  # one count to begin with that knows how often each candidate is used
        pieces = _count(words, order, pieces)
    while len(pieces) > room:
        inner = sorted((p for p in pieces if len(p) > 1), key=lambda piece: (-pieces[piece], piece))
        size = max(room, int(len(pieces) * _KEPT))
        pieces = {p: pieces[p] for p in [*alphabet, *inner[: size - len(alphabet)]]}
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
    # each as often as it occurs; more often than that tells no more about which pieces are candidates
    raw.train_from_iterator((" ".join([word] * min(count, 10_000)) for word, count in words.items()), trainer)
    return sorted(raw.get_vocab())


def _count(words: Counter[str], order: list[str], pieces: dict[str, int]) -> dict[str, int]:
    """How often each piece is used where every word is cut into its likeliest pieces; at least once."""
    total = sum(pieces.values())
    names = ["[UNK]", *sorted(pieces)]
    model = models.Unigram(
        [(names[0], 0.0), *((name, math.log(pieces[name] / total)) for name in names[1:])], unk_id=0
    )
    raw = tokenizers.Tokenizer(model)
    used = Counter(dict.fromkeys(range(1, len(names)), 1))
    for word, encoding in zip(order, raw.encode_batch_fast(order, add_special_tokens=False), strict=True):
        for number in encoding.ids:
            used[number] += words[word]
    return {names[number]: count for number, count in used.items() if number}


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
