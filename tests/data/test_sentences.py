"""Example sentences come from the text itself, whatever its language and script."""

from __future__ import annotations

import numpy as np
import pytest

from electra.data.sentences import LONGEST, sentences_of
from electra.data.settings import TokenizerConfig
from electra.data.store import TokenDocuments
from electra.data.tokenizer import Tokenizer

GERMAN = [
    "\u00dcberschrift ohne Punkt",
    "Kapitel 3.5 steht hier. Die K\u00f6chin kochte das Essen. Danach a\u00dfen alle.",
    "Der Zug f\u00e4hrt morgen fr\u00fch in die Stadt! Niemand wei\u00df, wann.",
]
JAPANESE = [
    "\u6599\u7406\u4eba\u304c\u98df\u4e8b\u3092\u4f5c\u3063\u305f\u3002\u7686\u304c\u98df\u3079\u305f\u3002",
    "\u96e8\u304c\u964d\u308b\u3068\u8a00\u3063\u305f\u3002",
]


def stored(texts: list[str], tokenizer: Tokenizer) -> TokenDocuments:
    ids = [tokenizer.encode_corpus([text])[0] for text in texts]
    return TokenDocuments(np.concatenate(ids), np.cumsum([len(one) for one in ids]).astype(np.uint64))


@pytest.mark.parametrize("texts", [GERMAN, JAPANESE], ids=["German", "Japanese"])
def test_sentences_are_parts_of_the_text(texts: list[str]) -> None:
    tokenizer = Tokenizer.train(texts * 20, TokenizerConfig(vocab_size=200, lowercase=False))
    actual = sentences_of(stored(texts, tokenizer), tokenizer, 2)
    assert len(actual) == 2
    for sentence in actual:
        whole = [text for text in texts if sentence.replace(" ", "") in text.replace(" ", "")]
        assert len(whole) == 1 and sentence[-1] in ".!\u3002"
        assert len(tokenizer.encode_corpus([sentence])[0]) <= LONGEST


def test_text_without_sentence_ends_gives_line_beginnings() -> None:
    texts = ["eins zwei drei", "vier f\u00fcnf"]
    tokenizer = Tokenizer.train(texts * 20, TokenizerConfig(vocab_size=100, lowercase=False))
    assert sentences_of(stored(texts, tokenizer), tokenizer, 2) == texts
