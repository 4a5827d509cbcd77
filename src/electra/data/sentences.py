"""Short sentences out of a token store, for worked examples and model cards in the corpus's language."""

from __future__ import annotations

import re

from electra.data.store import TokenDocuments
from electra.data.tokenizer import Tokenizer

_ENDS = ".!?\u2026\u3002\uff01\uff1f\u0964\u061f\u06d4"  # of sentences, in several scripts
# with white space behind it, or none where the script has none
_SENTENCE = re.compile(f"[^{_ENDS}]+[{_ENDS}]+(?=\\s|$|(?<=[\u3002\uff01\uff1f]))")
_DOCUMENTS, _TOKENS = 500, 200  # looked at, and of each document
SHORTEST, LONGEST = 5, 24  # tokens


def sentences_of(documents: TokenDocuments, tokenizer: Tokenizer, count: int) -> list[str]:
    """One short sentence of each of the first documents that have one, or else beginnings of documents."""
    found: list[str] = []
    begun: list[str] = []
    for number in range(min(_DOCUMENTS, documents.num_documents)):
        ids = documents.document(number)[:_TOKENS]
        for sentence in _SENTENCE.findall(tokenizer.decode(ids)):
            tokens = tokenizer.encode_corpus([sentence])[0]
            known = tokenizer.specials.unk not in tokens
            if known and SHORTEST <= len(tokens) <= LONGEST:
                found.append(sentence.strip())
                break
        else:
            begun.append(tokenizer.decode(ids[:LONGEST]).strip())
        if len(found) == count:
            break
    return [text for text in dict.fromkeys([*found, *begun]) if text][:count]
