"""Byte-level BPE: offsets, words, equal ids in other libraries, and reproducible vocabularies."""

import pytest
from hypothesis import given, settings
from test_tokenizer import HOSTILE, corpus

from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import TokenizerConfig
from electra.foundation.errors import TokenizerError
from electra.inference.detection import build_detection, tokenize


def trained(**settings: bool) -> Tokenizer:
    return Tokenizer.train(corpus(), TokenizerConfig(kind="bpe", vocab_size=400, **settings))


@pytest.fixture(scope="module")
def cased() -> Tokenizer:
    return trained(lowercase=False)


def covered(tokenizer: Tokenizer, text: str) -> list[str]:
    encoding = tokenizer.encode(text)
    return [text[a:b] for (a, b), own in zip(encoding.offsets, encoding.special, strict=True) if not own]


@settings(max_examples=100, deadline=None)
@given(text=HOSTILE)
def test_offsets_cover_the_text_and_no_white_space(cased: Tokenizer, text: str) -> None:
    encoding = cased.encode(text)
    end, seen = 0, set()
    for (start, stop), special in zip(encoding.offsets, encoding.special, strict=True):
        if not special:
            part = text[start:stop]
            assert end <= stop <= len(text) and part == part.strip()
            end = stop
            seen |= set(range(start, stop))
    words = [word for word in encoding.words if word is not None]
    assert words == sorted(words)
    assert cased.encode_corpus([text])[0].tolist() == encoding.ids[1:-1]
    if text.isascii():
        assert all(at in seen for at, letter in enumerate(text) if letter.isprintable() and letter != " ")


def test_word_offsets_with_unusual_spaces_and_multibyte_characters(cased: Tokenizer) -> None:
    text = "  The  chef,\n\ncafe\u0301 \u6f22 (don't)\t"
    pieces = tokenize(cased, text)
    words = [word.text for word in build_detection(text, pieces, pieces.ids * 0.0, 0.5).words]
    assert words == ["The", "chef", ",", "cafe\u0301", "\u6f22", "(", "don", "'", "t", ")"]


def test_each_byte_piece_has_the_offsets_of_its_character(cased: Tokenizer) -> None:
    tokenizer = cased
    assert covered(tokenizer, "a \u6f22\U0001f468") == ["a", "", *3 * ["\u6f22"], *4 * ["\U0001f468"]]
    assert tokenizer.specials.unk not in tokenizer.encode("\u6f22 \x00 \U0001f468").ids
    assert tokenizer.decode(tokenizer.encode("The \u6f22, chef").ids) == "The \u6f22, chef"


def test_a_word_has_the_same_tokens_everywhere(cased: Tokenizer) -> None:
    once = cased.encode_corpus(["chef"])[0].tolist()
    assert cased.encode_corpus(["\n chef \t chef"])[0].tolist() == 2 * once
    assert not cased.continues[once[0]] and all(cased.continues[i] for i in once[1:])


def test_continuation_pieces_are_marked_when_displayed(cased: Tokenizer) -> None:
    ids = cased.encode("Zzq, chef").ids
    shown = [cased.readable(i) for i in ids]
    assert shown[0] == "[CLS]" and shown[-1] == "[SEP]"
    assert [cased.continues[i] for i in ids] == [name.startswith("##") for name in shown]
    assert "##," in shown and not cased.continues[list(cased.specials)].any()


def test_impossible_vocabulary_sizes_are_refused() -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.vocab_size.*261"):
        Tokenizer.train(corpus(), TokenizerConfig(kind="bpe", vocab_size=260))
    with pytest.raises(TokenizerError):
        Tokenizer.train([" "], TokenizerConfig(kind="bpe", vocab_size=300))
