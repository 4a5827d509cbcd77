"""Vectors for a domain, Python's own documentation: its text, and how well its descriptions are found.

python domain.py text WIKIPEDIA      writes domain.txt, general.txt (a paragraph or sentence a line) and pairs.json
python domain.py score STS-B MODEL ... [QUERIES//DOCUMENTS ...]   QUERIES embeds the queries, DOCUMENTS what is searched

A query is the first paragraph of a docstring, its document the rest (at most 600 characters). The 1,000 pairs are of
three modules in ten, which give no text; general.txt has as many characters of Wikipedia.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PAIRS, LONGEST = 1000, 600
Embed = Callable[[Sequence[str]], Any]


def lines_of(texts: Iterable[str], rng: random.Random) -> Iterator[str]:
    for paragraph in (" ".join(part.split()) for text in texts for part in text.split("\n\n")):
        if len(paragraph.split()) >= 5:
            halves = re.split(r"(?<=[.!?]) +(?=[A-Z])", paragraph) if rng.random() < 0.5 else [paragraph]
            yield from (half[:3000] for half in halves if len(half.split()) >= 4)


def write(wikipedia: str) -> None:
    import zstandard

    from electra.data.corpus import python_docs

    rng, texts, pairs, seen = random.Random(1), list[str](), dict[str, str](), set[str]()
    for docstrings in python_docs._modules():
        docstrings = [text for text in map(python_docs.prose, docstrings) if text and text not in seen]
        seen.update(docstrings)
        held_out = bool(docstrings) and hashlib.sha256(docstrings[0].encode()).digest()[0] < 77
        texts += [] if held_out else docstrings
        for text in docstrings if held_out else ():
            query, _, rest = (" ".join(part.split()) for part in text.partition("\n\n"))
            if len(query.split()) >= 4 and len(rest.split()) >= 20:
                pairs.setdefault(query, rest[:LONGEST])
    pairs = {rest: query for query, rest in pairs.items()}  # no document twice, either
    chosen = rng.sample(sorted(pairs.items()), min(PAIRS, len(pairs)))
    Path("pairs.json").write_text(json.dumps([[query, rest] for rest, query in chosen], indent=0))
    lines = list(lines_of(texts, rng))
    rng.shuffle(lines)
    Path("domain.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    size, articles = sum(map(len, lines)), list[str]()
    with open(wikipedia, "rb") as file:
        for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8"):
            articles.append(json.loads(line)["text"].replace("\n", "\n\n"))
    rng.shuffle(articles)
    general = []
    for line in lines_of(articles, rng):
        general.append(line)
        if (size := size - len(line)) < 0:
            break
    rng.shuffle(general)
    Path("general.txt").write_text("".join(f"{line}\n" for line in general), encoding="utf-8")
    print(f"{len(pairs)} pairs, {len(lines)} and {len(general)} lines")


def retrieval(similarity: Any) -> tuple[float, float]:
    """Recall at 1 and the mean reciprocal rank up to 10, in percent."""
    ranks = (similarity >= similarity.diagonal()[:, None]).sum(1)
    return 100 * (ranks == 1).mean(), 100 * np.where(ranks <= 10, 1 / ranks, 0).mean()


def score(sts_b: str, names: Sequence[str]) -> None:
    from scipy.stats import spearmanr
    from sklearn.feature_extraction.text import TfidfVectorizer

    import electra

    queries, documents = zip(*json.loads(Path("pairs.json").read_text()), strict=True)
    rows = [line.split("\t") for line in (Path(sts_b) / "dev.tsv").read_text(encoding="utf-8").splitlines()]
    first, second, number = (rows[0].index(name) for name in ("sentence1", "sentence2", "score"))
    rows = [row for row in rows[1:] if len(row) == len(rows[0])]
    sides = [[row[column] for row in rows] for column in (first, second)]
    gold = [float(row[number]) for row in rows]

    def show(name: str, embed_queries: Embed, embed_documents: Embed) -> None:
        a, b = embed_queries(sides[0]), embed_documents(sides[1])
        cosine = spearmanr((a * b).sum(1), gold)[0]
        recall, rank = retrieval(embed_queries(queries) @ embed_documents(documents).T)
        print(f"{name}: recall@1 {recall:.1f}, MRR@10 {rank:.1f}, STS-B {cosine:.3f}", flush=True)

    tfidf = TfidfVectorizer(sublinear_tf=True).fit([*queries, *documents])
    general = TfidfVectorizer(sublinear_tf=True).fit(sides[0] + sides[1])

    def counted(texts: Sequence[str]) -> Any:
        return (general if texts in sides else tfidf).transform(texts).toarray()

    show("TF-IDF", counted, counted)
    known: dict[tuple[str, int], Any] = {}

    def embedder(name: str) -> Embed:
        def embed(texts: Sequence[str]) -> Any:
            if (name, key := hash(tuple(texts))) not in known:
                vectors = electra.load(name).embed(texts)
                known[name, key] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            return known[name, key]

        return embed

    for name in names:
        one, _, other = name.partition("//")
        show(name, embedder(one), embedder(other or one))


if __name__ == "__main__":
    write(sys.argv[2]) if sys.argv[1] == "text" else score(sys.argv[2], sys.argv[3:])
