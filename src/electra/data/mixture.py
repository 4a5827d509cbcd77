"""Mixtures: how often the documents of several named corpora occur in a store.

The share of a corpus of n tokens is proportional to n ** exponent (Conneau and Lample 2019, who use 0.5
for languages): 1 leaves the corpora as they are, 0 gives each the same share. The total length stays the
same, so documents of small corpora are repeated and documents of large ones left out. Within a corpus, the
numbers of repetitions differ by at most one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.data.sources import Argument, Texts
from electra.foundation import seeds
from electra.foundation.arrays import Floats, Ints
from electra.foundation.errors import ConfigError, CorpusError

_BLOCK = 1 << 12  # documents copied at a time


def parse_corpora(arguments: Sequence[Argument]) -> dict[str, list[Argument]]:
    """Returns the sources of each corpus by its name, from arguments such as de=PATH.

    Raises:
        ConfigError: an argument is not NAME=SOURCE, or there are fewer than two corpora.
    """
    sources: dict[str, list[Argument]] = {}
    fix = "Name each corpus, and at least two, such as de=texts/de fi=texts/fi"
    for argument in arguments:
        name, sign, source = str(argument).partition("=")
        if not (name.isidentifier() or name.replace("-", "_").isidentifier()) or not sign or not source:
            expected = "NAME=SOURCE, with a name of letters, digits, - and _ that does not begin with a digit"
            problem = f"invalid corpus {str(argument)!r}; expected {expected}"
            raise ConfigError(problem, key="data.mix_exponent", fix=fix)
        sources.setdefault(name, []).append(argument if isinstance(argument, Texts) else source)
    if len(sources) < 2:
        raise ConfigError("a mixture needs at least two corpora", key="data.mix_exponent", fix=fix)
    return sources


class Mixture:
    """Counts the documents of each corpus in each split, and repeats or leaves out training documents."""

    def __init__(self, names: Sequence[str], exponent: float, seed: int) -> None:
        self.names, self.exponent, self.seed = list(names), exponent, seed
        self._documents = {split: np.zeros(len(names), np.int64) for split in ("train", "heldout")}

    def count(self, split: str, corpora: Ints) -> None:
        """Counts documents as they are written to a split; `corpora` is the corpus index of each.

        All documents of a corpus must be written before the next corpus begins.
        """
        self._documents[split] += np.bincount(corpora, minlength=len(self.names))

    def swap_splits(self) -> None:
        """Exchanges the counts of both splits."""
        counts = self._documents
        counts["train"], counts["heldout"] = counts["heldout"], counts["train"]

    def uncount_training(self, indices: Ints) -> None:
        """Removes documents, given by their indices in the training split, from the counts of that split."""
        corpus_index = np.searchsorted(np.cumsum(self._documents["train"]), indices, side="right")
        self._documents["train"] -= np.bincount(corpus_index, minlength=len(self.names))

    def mix_texts(self, texts: Sequence[Sequence[str]]) -> list[str]:
        """Returns the `texts` of all corpora in the shares of the mixture, to train a vocabulary on."""
        sizes = [np.array([len(text) for text in corpus], np.int64) for corpus in texts]
        rates = self._rates(np.array([lengths.sum() for lengths in sizes], np.int64))
        mixed_texts: list[str] = []
        for index, (corpus, lengths, rate) in enumerate(zip(texts, sizes, rates, strict=True)):
            times = self._repetitions(lengths, float(rate), index)
            for text, count in zip(corpus, times.tolist(), strict=True):
                mixed_texts += [text] * count
        return mixed_texts

    def mix_in_place(self, documents: Path, index: Path, dtype: np.dtype[Any]) -> list[dict[str, Any]]:
        """Mixes the training split in place and returns counts for the audit, one entry per corpus.

        Args:
            documents: the file of token ids.
            index: the file of document ends.
            dtype: the type of the ids.

        Raises:
            CorpusError: a corpus has no training tokens.
        """
        ends = np.fromfile(index, dtype="<u8").astype(np.int64)
        sizes, counts = np.diff(ends, prepend=0), self._documents["train"]
        sizes_by_corpus = np.split(sizes, np.cumsum(counts)[:-1])
        tokens = np.array([lengths.sum() for lengths in sizes_by_corpus], np.int64)
        for name, size in zip(self.names, tokens, strict=True):
            if not size:
                fix = "Add text to it: some is held out, and duplicates of earlier corpora are dropped"
                raise CorpusError("this corpus has no training text left", where=name, fix=fix)
        rates = self._rates(tokens)
        times = [self._repetitions(lengths, float(rates[i]), i) for i, lengths in enumerate(sizes_by_corpus)]
        _copy(documents, index, ends, np.concatenate(times), dtype)
        pairs = zip(sizes_by_corpus, times, strict=True)
        mixed_tokens = np.array([int((lengths * n).sum()) for lengths, n in pairs])
        return [
            {
                "name": name,
                "documents": len(n),
                "documents_repeated": int((n > 1).sum()),
                "documents_left_out": int((n == 0).sum()),
                "tokens": int(tokens[i]),
                "tokens_mixed": int(mixed_tokens[i]),
                "share": float(mixed_tokens[i] / mixed_tokens.sum()),
            }
            for i, (name, n) in enumerate(zip(self.names, times, strict=True))
        ]

    def _rates(self, sizes: Ints) -> Floats:
        """Returns how often to read each corpus of `sizes` tokens: the tokens due to it, over its own."""
        weights = np.where(sizes > 0, sizes.astype(np.float64) ** self.exponent, 0.0)
        rates: Floats = weights / max(weights.sum(), 1) * sizes.sum() / np.maximum(sizes, 1)
        return rates

    def _repetitions(self, sizes: Ints, rate: float, corpus: int) -> Ints:
        """Returns how often to read each document: about `rate` on average over tokens, at least one once."""
        minimum = int(rate)
        times = np.full(len(sizes), minimum, dtype=np.int64)
        order = np.argsort(seeds.keys(self.seed, "mixture", corpus, np.arange(len(sizes))), kind="stable")
        missing_tokens = (rate - minimum) * sizes.sum()
        ends = np.cumsum(sizes[order])
        # Rounds to the nearest document.
        count = int(np.searchsorted(ends - sizes[order] / 2, missing_tokens))
        times[order[: max(count, int(minimum == 0))]] += 1
        return times


def _copy(documents: Path, index: Path, ends: Ints, times: Ints, dtype: npt.DTypeLike) -> None:
    """Rewrites a split with each document `times` times: first all that occur, then the repeated ones."""
    tokens, sizes = np.memmap(documents, dtype=dtype, mode="r"), np.diff(ends, prepend=0)
    mixed_file = documents.with_name("mixed")
    lengths = []
    with open(mixed_file, "wb") as file:
        for repetition in range(1, int(times.max()) + 1):
            for first in range(0, len(times), _BLOCK):
                block = slice(first, first + _BLOCK)
                selected = times[block] >= repetition
                ids = tokens[int(ends[first] - sizes[first]) : int(ends[block][-1])]
                file.write(ids[np.repeat(selected, sizes[block])].tobytes())
                lengths.append(sizes[block][selected])
    del tokens
    mixed_file.replace(documents)
    index.write_bytes(np.cumsum(np.concatenate(lengths)).astype("<u8").tobytes())
