"""Trains byte-level BPE vocabularies, whose tokens include the space before a word.

A text is split as BERT does, into words, numbers and punctuation, and a space is put before the first word,
so that a word is the same token everywhere. Runs of white space become one space. Every character is
represented by its bytes (Sennrich et al. 2016; bytes: Radford et al. 2019).
"""

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from electra.data.corpus.wordpiece import MIN_FREQUENCY, SPECIAL_TOKENS, add_special_tokens
from electra.data.text_settings import TokenizerConfig
from electra.foundation.errors import TokenizerError

SPACE = "\u2581"  # stands for the space before a word in SentencePiece
BYTE_SPACES = "\u0120\u010a\u010d\u0109"  # space, line feed, carriage return and tab in byte-level BPE
_WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+"


def train(texts: Iterable[str], config: TokenizerConfig) -> tokenizers.Tokenizer:
    """Trains byte-level BPE on `texts`, iterated twice; TokenizerError without text or below 261 entries."""
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
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(_WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
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


def _normalizer(config: TokenizerConfig) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = [normalizers.NFC()]
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    if config.lowercase if config.strip_accents is None else config.strip_accents:
        steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    steps += [normalizers.Replace(tokenizers.Regex(r"\s+"), " ")]
    steps += [normalizers.Strip(), normalizers.Prepend(" ")]
    return normalizers.Sequence(steps)
