"""P(replaced) of tokens and words: offsets into any text, windows over long texts, any batch."""

import string
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.load import Loaded
from electra.inference.detection import detect, overlapping_windows, tokenize
from electra.model.pair import Pair

MakePair = Callable[..., Pair]
HOSTILE = [
    "The CHEF ate", "caf\u00e9 cafe\u0301 x", "\u0130stanbul I\u0307x \u0131",
    "\u6f22\u5b57\u304b\ud55c\uad6d", "a\u0000b\u200dc",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 family a\U0001f44db", 
    "\ufb01ne \u00df \u1e9e", "e\u0301\u0302\u0323e", "\u0301abc",
    "[MASK] [CLS]", " \t\n ", "", "\u1100\u1161\u11a8 \uac01", "a" * 300,
]  # fmt: skip
CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from([*"aAeEsS .,", *"".join(HOSTILE)])


@pytest.fixture(scope="module")
def loaded(uncased: Tokenizer, make_pair: MakePair) -> Loaded:
    network = make_pair(vocab_size=uncased.vocab_size).main
    assert network is not None
    short = replace(network.encoder.config, max_positions=64)
    return Loaded(network.encoder, network.head, short, uncased, "discriminator", (), Path("model"))


def normal(text: str, lowercase: bool) -> str:
    """BERT's cleaning, as far as a single token can show it, and the letters of a ligature."""
    text = "".join(unicodedata.normalize("NFKC", c) if "\ufb00" <= c <= "\ufb06" else c for c in text)
    text = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cn") and c != "\ufffd")
    if lowercase:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        text = "".join(c.lower() for c in text)
    return text


@pytest.mark.parametrize("case", ["cased", "uncased"])
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(text=st.text(CHARACTERS, max_size=40))
def test_each_token_is_the_text_at_its_offsets(case: str, text: str, request: pytest.FixtureRequest) -> None:
    check_offsets(request.getfixturevalue(case), text, lowercase=case == "uncased")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts(text: str, cased: Tokenizer, uncased: Tokenizer) -> None:
    check_offsets(cased, text, lowercase=False)
    check_offsets(uncased, text, lowercase=True)


def check_offsets(tokenizer: Tokenizer, text: str, lowercase: bool) -> None:
    pieces = tokenize(tokenizer, text)
    lengths = map(len, (pieces.ids, pieces.token_strings, pieces.offsets, pieces.word_indices))
    assert len(set(lengths)) == 1
    for name, (start, end) in zip(pieces.token_strings, pieces.offsets, strict=True):
        assert 0 <= start < end <= len(text)
        if name != "[UNK]":
            assert name.removeprefix("##") in normal(text[start:end], lowercase)
            # nothing but the token itself, save for a character that became several
            assert len(normal(text[start:end], lowercase)) == len(name.removeprefix("##")) or end - start == 1
    assert all(left[0] <= right[0] for left, right in pairwise(pieces.offsets))
    visible = {i for i, c in enumerate(text) if normal(c, lowercase).strip()}
    assert visible <= {i for start, end in pieces.offsets for i in range(start, end)}  # no character is lost


@pytest.mark.parametrize("fallback", [False, True], ids=["unknown", "bytes"])
@pytest.mark.parametrize("text", ["Hello, world. (x)", "q ,a", "one. two", "\u017d, \u20ac5; \u00bfq?", ", ."])
def test_words_of_sentencepiece_end_before_punctuation(text: str, fallback: bool) -> None:
    """They are those of BERT, in every kind of tokenizer."""
    pieces = ["<unk>", "<s>", "</s>", "<pad>", "<mask>", "\u2581", *string.ascii_letters, *".,();\u00bf?"]
    vocabulary = [(piece, -3.0) for piece in [*pieces, *(f"<0x{byte:02X}>" for byte in range(256))]]
    raw = tokenizers.Tokenizer(tokenizers.models.Unigram(vocabulary, 0, byte_fallback=fallback))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Metaspace(), tokenizers.decoders.Metaspace()
    tokens = tokenize(Tokenizer(raw.to_str(), {}), text)
    spans = [
        (min(tokens.offsets[i][0] for i in word), max(tokens.offsets[i][1] for i in word))
        for word in tokens.word_tokens()
    ]
    assert len([*tokenize(Tokenizer(raw.to_str(), {}), "a!!!").word_tokens()]) == 2
    expected = [span for _, span in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)]
    assert spans == expected


@given(st.integers(0, 400), st.integers(3, 60), st.data())
@settings(deadline=None, derandomize=True, database=None)
def test_windows_cover_every_token_once(length: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    windows = overlapping_windows(length, size, overlap)
    kept = [token for _, _, start, stop in windows for token in range(start, stop)]
    assert kept == list(range(length))
    for start, stop, keep_from, keep_to in windows:
        assert 0 <= start <= keep_from <= keep_to <= stop <= length
        assert stop - start == min(size, length)
    for one, other in pairwise(windows):
        assert one[1] - other[0] >= overlap  # neighbours see at least so much of each other


@torch.inference_mode()
def test_probabilities_are_the_model_s_own(loaded: Loaded) -> None:
    text = "The Chef cooked the meals"
    [actual] = detect(loaded, [text])
    encoding = loaded.tokenizer.encode(text)
    expected = loaded.logits(torch.tensor([encoding.ids]))[0].sigmoid()[1:-1]
    assert torch.tensor([token.p_replaced for token in actual.tokens]) == pytest.approx(expected, abs=1e-6)
    assert [word.text for word in actual.words] == ["The", "Chef", "cooked", "the", "meals"]
    assert actual.words[-1].p_replaced == max(token.p_replaced for token in actual.tokens[-2:])
    words = [text[token.start : token.end] for token in actual.tokens]
    assert words == ["The", "Chef", "cooked", "the", "meal", "s"]


@torch.inference_mode()
def test_long_text_is_read_to_its_end(loaded: Loaded) -> None:
    text = "the chef cooked the meal s " * 40
    [actual] = detect(loaded, [text])
    assert len(actual.tokens) == 240 > loaded.config.max_positions and actual.tokens[-1].end == len(text) - 1
    ids = torch.from_numpy(tokenize(loaded.tokenizer, text).ids)[-62:]  # the last window: as long as any
    specials = loaded.tokenizer.specials
    row = torch.cat([torch.tensor([specials.cls]), ids, torch.tensor([specials.sep])])[None]
    expected = loaded.logits(row)[0].sigmoid()[-11:-1]
    assert torch.tensor([token.p_replaced for token in actual.tokens[-10:]]) == pytest.approx(expected, abs=1e-6)
