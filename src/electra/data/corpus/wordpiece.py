"""Trains WordPiece vocabularies reproducibly.

The trainer of `tokenizers` is not reproducible by itself: it numbers the `##x` pieces in the order of a hash
map, which decides ties between merges (huggingface/tokenizers#1794). So the alphabet is counted here, the
`##x` pieces are passed to the trainer as special tokens in a fixed order, and the tokenizer is rebuilt from
the vocabulary with only the five special tokens. The pipeline is BERT's (Devlin et al. 2019), as ELECTRA's.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from electra.data.text_settings import TokenizerConfig
from electra.foundation.errors import TokenizerError

# Ids 0 to 4, in this order
SPECIAL_TOKENS = {role: f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
PREFIX = "##"
MIN_FREQUENCY = 2  # rarer characters and pairs get no entry
_COVERAGE = 0.9999  # fraction of the text's characters that the alphabet covers; the rarest are left out
# Accents on a smaller fraction of characters are removed (English encyclopaedias: 0.0005, German: 0.012).
_RARE_ACCENTS = 0.0025
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
# VT, FF and NEL: white space that BERT's cleaner deletes, which would join words
_BREAK = r"[\x0b\x0c\u0085]"
# Steps that may precede BERT's normaliser, as in a tokenizer.json
BREAKS = {"type": "Replace", "pattern": {"Regex": _BREAK}, "content": " "}
COMPOSED = {"type": "NFC"}
_LONG = re.compile(r"\S{1000}")
_SPACE = re.compile(r"[ \t\n\r]+")


def choose_accents(texts: Iterable[str], config: TokenizerConfig) -> tuple[TokenizerConfig, dict[str, Any] | None]:
    """Decides whether to remove accents; by default, they are kept if they are frequent in the text.

    Without, Japanese \u304b and \u304c, or Russian \u043c\u043e\u0439 and \u043c\u043e\u0438, are equal.
    Returns the settings with the decision, and "removed", whether to remove the marks that Unicode's NFD
    separates from letters, with the "share" of characters that have any (None: there are none, or they stay).
    """
    if config.strip_accents is False or not (config.lowercase or config.strip_accents):
        return config, None
    keep, strip = (normalizers.BertNormalizer(lowercase=False, strip_accents=on) for on in (False, True))
    letters: Counter[str] = Counter()  # beyond ASCII
    total = 0
    for text in texts:
        total += len(text)
        letters.update("".join(_BEYOND_ASCII.findall(text)))
    marked = (n for each, n in letters.items() if keep.normalize_str(each) != strip.normalize_str(each))
    share = sum(marked) / max(1, total)
    removed = config.strip_accents is True or share < _RARE_ACCENTS
    config = config if removed else replace(config, strip_accents=False)
    return config, {"removed": removed, "share": share} if share else None


def train(texts: Iterable[str], config: TokenizerConfig, has_forms: bool = False) -> tokenizers.Tokenizer:
    """Trains a WordPiece vocabulary on `texts`, which are iterated repeatedly.

    With little text, the vocabulary is smaller than requested: entries must occur MIN_FREQUENCY times.
    `has_forms`: whether other texts are not in Unicode's form NFC. Raises TokenizerError without text.
    """
    normalizer = _normalizer(texts, config, has_forms)
    texts = [_LONG.sub(r"\g<0> ", text) for text in texts]  # training is quadratic in the length of a word
    alphabet = _alphabet(texts, normalizer, config)
    if not alphabet:
        raise TokenizerError("no text to train a vocabulary on")
    words = sorted(count_words(texts))
    occurring_pieces = _vocabulary(words, alphabet, [], normalizer, size=0)
    continuations = (PREFIX + character for character in alphabet)
    fixed = [*SPECIAL_TOKENS.values(), *(piece for piece in continuations if piece in occurring_pieces)]
    vocabulary = _vocabulary(texts, alphabet, fixed, normalizer, size=config.vocab_size)
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(vocabulary, unk_token=SPECIAL_TOKENS["unk"], continuing_subword_prefix=PREFIX)
    )
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=PREFIX)
    return add_special_tokens(tokenizer)


def add_special_tokens(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Changes `tokenizer` to put [CLS] and [SEP] around a text or a pair; returns it."""
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS.values()))
    begin, end = SPECIAL_TOKENS["cls"], SPECIAL_TOKENS["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin}:0 $A:0 {end}:0",
        pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (begin, end)],
    )
    return tokenizer


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Counts the whitespace-separated words of the texts."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(_SPACE.split(text))
    del words[""]
    return words


def _normalizer(texts: Iterable[str], config: TokenizerConfig, has_forms: bool) -> normalizers.Normalizer:
    """Returns BERT's normaliser, after two steps that only some texts need; others keep their tokenizer.

    VT, FF and NEL become spaces; where accents are kept, the two forms of a letter with an accent become one.
    """
    bert = normalizers.BertNormalizer(lowercase=config.lowercase, strip_accents=config.strip_accents)
    keeps_accents = not (config.lowercase if config.strip_accents is None else config.strip_accents)
    has_forms = has_forms or not all(unicodedata.is_normalized("NFC", text) for text in texts)
    has_breaks = any(re.search(_BREAK, text) for text in texts)
    steps: list[normalizers.Normalizer] = []
    if has_breaks:
        steps.append(normalizers.Replace(tokenizers.Regex(_BREAK), " "))
    if keeps_accents and has_forms:
        steps.append(normalizers.NFC())
    return normalizers.Sequence([*steps, bert]) if steps else bert


def bert_steps(normalizer: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Returns the steps of BERT's normaliser in a tokenizer.json, itself last; [] for another normaliser."""
    steps = (normalizer or {}).get("normalizers", [normalizer or {}])
    is_known = steps and all(step in (BREAKS, COMPOSED) for step in steps[:-1])
    return list(steps) if is_known and steps[-1].get("type") == "BertNormalizer" else []


def _alphabet(texts: Iterable[str], normalizer: normalizers.Normalizer, config: TokenizerConfig) -> list[str]:
    """Returns the sorted alphabet of normalised words.

    It consists of the most frequent characters, until they make up 99.99 % of the text or a quarter of the
    vocabulary (in a small vocabulary, up to 500). Each character needs up to two entries, x and ##x.
    """
    counts: Counter[str] = Counter()
    for word, count in count_words(texts).items():
        for character in "".join(normalizer.normalize_str(word).split()):
            counts[character] += count
    uncovered = _COVERAGE * counts.total()
    limit = max(config.vocab_size // 4, min((config.vocab_size - len(SPECIAL_TOKENS)) // 2, 500))
    alphabet: list[str] = []
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if uncovered <= 0 or count < MIN_FREQUENCY or len(alphabet) >= limit:
            break
        alphabet.append(character)
        uncovered -= count
    return sorted(alphabet)


def _vocabulary(
    texts: Iterable[str], alphabet: list[str], fixed: list[str], normalizer: normalizers.Normalizer, size: int
) -> dict[str, int]:
    """Returns the trainer's vocabulary, sorted by id; the pieces in `fixed` come first."""
    raw = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizer
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
