"""Picks short sentences from a token store, for examples and model cards in the corpus's language."""

from __future__ import annotations

import re

from electra.data.store import TokenDocuments
from electra.data.tokenizer import Tokenizer

_ENDS = ".!?\u2026\u3002\uff01\uff1f\u0964\u061f\u06d4"  # sentence ends in several scripts
# Followed by white space, except in scripts without spaces.
_SENTENCE = re.compile(f"[^{_ENDS}]+[{_ENDS}]+(?=\\s|$|(?<=[\u3002\uff01\uff1f]))")
_DOCUMENTS, _TOKENS = 500, 200  # documents searched, and tokens of each
SHORTEST, LONGEST = 5, 24  # tokens


def sentences_of(documents: TokenDocuments, tokenizer: Tokenizer, count: int) -> list[str]:
    """Returns up to `count` short sentences, each from a different document.

    If there are too few, the beginnings of documents follow.
    """
    sentences: list[str] = []
    beginnings: list[str] = []
    for index in range(min(_DOCUMENTS, documents.num_documents)):
        ids = documents.document(index)[:_TOKENS]
        for sentence in _SENTENCE.findall(tokenizer.decode(ids)):
            tokens = tokenizer.encode_corpus([sentence])[0]
            if tokenizer.specials.unk not in tokens and SHORTEST <= len(tokens) <= LONGEST:
                sentences.append(sentence.strip())
                break
        else:
            beginnings.append(tokenizer.decode(ids[:LONGEST]).strip())
        if len(sentences) == count:
            break
    return [text for text in dict.fromkeys([*sentences, *beginnings]) if text][:count]
