"""A vocabulary that was cut to a text encodes it as before: the oracle is transformers, on both folders."""

import json
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from electra.data.corpus.cut_vocabulary import counts_in, cut, ids_in_original
from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.errors import TokenizerError

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>"]


def words(seed: int, syllables: str, count: int = 400) -> list[str]:
    draw = random.Random(seed)
    parts = ["".join(pair) for pair in product(syllables[::2], syllables[1::2])]
    return ["".join(draw.choices(parts, k=draw.randint(1, 4))) for _ in range(count)]


def texts(seed: int, vocabulary: list[str], count: int = 60) -> list[str]:
    draw = random.Random(seed)
    ranks = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    return [" ".join(draw.choices(vocabulary, ranks, k=draw.randint(1, 12))) + "." for _ in range(count)]


OURS, THEIRS = words(1, "katosimune"), words(2, "lørødåvepyx")
TEXT, OTHER = texts(3, OURS), texts(4, THEIRS)


def roberta_processor(raw: tokenizers.Tokenizer, cls: str, sep: str) -> Any:
    ids = [(token, raw.token_to_id(token)) for token in (cls, sep)]
    return processors.TemplateProcessing(f"{cls} $A {sep}", f"{cls} $A {sep} {sep} $B {sep}", ids)


def wordpiece() -> tokenizers.Tokenizer:
    raw = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer, raw.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    raw.train_from_iterator(TEXT + OTHER, trainers.WordPieceTrainer(vocab_size=500, special_tokens=BERT))
    raw.post_processor, raw.decoder = roberta_processor(raw, "[CLS]", "[SEP]"), decoders.WordPiece()
    raw.add_special_tokens(["[E1]"])
    raw.add_tokens([tokenizers.AddedToken("<ent>", lstrip=True)])
    return raw


def byte_level() -> tokenizers.Tokenizer:
    raw = tokenizers.Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    specials = [*ROBERTA, "<mask>"]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=specials, initial_alphabet=alphabet)
    raw.train_from_iterator(TEXT + OTHER, trainer)
    raw.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return raw


def end_of_word() -> tokenizers.Tokenizer:
    raw = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder("</w>")
    specials = [*ROBERTA, "<mask>"]
    raw.train_from_iterator(
        TEXT + OTHER, trainers.BpeTrainer(vocab_size=600, special_tokens=specials, end_of_word_suffix="</w>")
    )
    raw.post_processor = roberta_processor(raw, "<s>", "</s>")
    return raw


def sentencepiece_bpe() -> tokenizers.Tokenizer:
    """As converted from SentencePiece: bytes for what is unknown, and a merge for every split of a piece."""
    pieces = sorted(tokenizers.Tokenizer.from_str(unigram().to_str()).get_vocab().items(), key=lambda e: e[1])
    names = [piece for piece, _ in pieces if piece not in (*ROBERTA, "<mask>")]
    ordered = [*ROBERTA, *(f"<0x{byte:02X}>" for byte in range(256)), *names, "<mask>"]
    vocab = {piece: index for index, piece in enumerate(ordered)}
    splits = ((name[:at], name[at:]) for name in names for at in range(1, len(name)))
    merges = [(left, right) for left, right in splits if left in vocab and right in vocab]
    raw = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    raw.normalizer = normalizers.Replace(" ", "\u2581")
    raw.decoder = decoders.Sequence([
        decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()
    ])  # fmt: skip
    raw.add_special_tokens([*ROBERTA, "<mask>"])
    raw.post_processor = roberta_processor(raw, "<s>", "</s>")
    return raw


def unigram() -> tokenizers.Tokenizer:
    """As XLM-RoBERTa's: the four special tokens first (fairseq's), <mask> last."""
    trained = tokenizers.Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(TEXT + OTHER, trainers.UnigramTrainer(vocab_size=500, unk_token="<unk>"))
    found = [entry for entry in json.loads(trained.to_str())["model"]["vocab"] if entry[0] != "<unk>"]
    pieces = [*((token, 0.0) for token in ROBERTA), *map(tuple, found), ("<mask>", 0.0)]
    raw = tokenizers.Tokenizer(models.Unigram(pieces, 3, False))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    raw.add_special_tokens([*ROBERTA, tokenizers.AddedToken("<mask>", lstrip=True)])
    raw.post_processor = roberta_processor(raw, "<s>", "</s>")
    return raw


KINDS = [wordpiece, byte_level, end_of_word, sentencepiece_bpe, unigram]


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_text_whose_pieces_stay_is_encoded_as_before(
    make: Callable[[], tokenizers.Tokenizer], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    whole = Tokenizer(make().to_str(), {})
    folders, encoders = [tmp_path / "whole", tmp_path / "smaller"], []
    counts = counts_in(TEXT, whole)
    for coverage in (1.0, 0.9):
        smaller = cut(whole, counts, coverage)
        ids = ids_in_original(smaller, whole)
        assert ids is not None and len(ids) == smaller.vocab_size < whole.vocab_size
        kept, total = counts[ids].sum(), counts.sum()
        assert kept == total if coverage == 1 else coverage * total <= kept < total
        for folder, tokenizer in zip(folders, (whole, smaller), strict=True):
            folder.mkdir(exist_ok=True)
            tokenizer.save(folder)
        encoders = [AutoTokenizer.from_pretrained(folder) for folder in folders]
        same = 0
        for text in [*TEXT, *OTHER, "the quick brown fox <ent> [E1] <mask>", "", "  \u5b66 \U0001f600"]:
            before, after = (encoder(text, text)["input_ids"] for encoder in encoders)
            same += (stays := set(before) <= {*ids.tolist()})
            assert not stays or ids[after].tolist() == before, text
            assert smaller.encode(text, text).ids == Tokenizer.load(folders[1]).encode(text, text).ids
            if make in (byte_level, sentencepiece_bpe):  # no text is lost
                plain = [e.decode(e(text)["input_ids"], skip_special_tokens=True) for e in encoders]
                assert plain[0] == plain[1]
        assert same >= (len(TEXT) if coverage == 1 else 5)
        known = set(smaller.encode(" ".join(OURS)).ids)
        assert smaller.specials.unk not in known, "letters spell what left"
        assert {*whole.names.values()} | {*(token for token in ("<ent>", "[E1]") if token in whole.vocabulary)} <= {
            *smaller.vocabulary
        }
        again = cut(smaller, counts_in(TEXT, smaller), 1.0)
        assert ids_in_original(again, whole) is not None, "a cut of a cut"


def test_another_tokenizer_is_no_cut_and_other_kinds_are_refused() -> None:
    whole = Tokenizer(wordpiece().to_str(), {})
    smaller = cut(whole, counts_in(TEXT, whole), 0.9)
    assert ids_in_original(whole, smaller) is None
    content = json.loads(smaller.definition)
    content["normalizer"]["lowercase"] = False
    assert ids_in_original(Tokenizer(json.dumps(content), {}), whole) is None
    assert ids_in_original(smaller, Tokenizer(unigram().to_str(), {})) is None
    by_word = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(BERT)}, "[UNK]"))
    with pytest.raises(TokenizerError, match="WordLevel"):
        cut(Tokenizer(by_word.to_str(), {}), np.ones(5), 0.9)


def test_an_unknown_letter_costs_what_it_did() -> None:
    """In Unigram that is the lowest score of the vocabulary less ten, so the piece with that score stays."""
    scores = [("ab", -14.0), ("cd", -14.0), ("abc", -3.0), ("zzzz", -40.0), ("qq", -20.0), ("<mask>", 0.0)]
    raw = tokenizers.Tokenizer(models.Unigram([*((token, 0.0) for token in ROBERTA), *scores], 3, False))
    whole = Tokenizer(raw.to_str(), {})
    smaller = cut(whole, counts_in(["abcd", "abc"], whole), 1.0)
    assert "qq" not in smaller.vocabulary
    for tokenizer in (whole, smaller):
        assert [tokenizer.id_to_token(id_) for id_ in tokenizer.encode("abcd").ids] == ["ab", "cd"]
