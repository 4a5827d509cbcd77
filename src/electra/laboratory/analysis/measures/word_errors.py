"""Word errors: the substitutions, deletions and insertions between a reference and its hypotheses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from electra.foundation.arrays import Ints


def word_errors(reference: Sequence[str], hypotheses: Sequence[Sequence[str]]) -> Ints:
    """Returns the edit distance in words (Levenshtein 1966) from the reference to each hypothesis: [N].

    All hypotheses are compared at once, with one row of the table for each reference word. Within a row,
    insertions run from left to right: cell[j] = min over k <= j of cell[k] + (j - k), which is a running
    minimum once j is subtracted.
    """
    width = max(map(len, hypotheses), default=0)
    index = {word: i for i, word in enumerate(dict.fromkeys(reference))}
    word_index = np.full((len(hypotheses), width), -1)
    for row, hypothesis in enumerate(hypotheses):
        word_index[row, : len(hypothesis)] = [index.get(word, -1) for word in hypothesis]
    columns = np.arange(width + 1)
    costs = np.tile(columns, (len(hypotheses), 1))
    for word in reference:
        best = costs + 1  # delete the reference's word
        best[:, 1:] = np.minimum(
            best[:, 1:], costs[:, :-1] + (word_index != index[word])
        )  # match or substitute
        costs = np.minimum.accumulate(best - columns, axis=1) + columns
    lengths = np.array([len(hypothesis) for hypothesis in hypotheses], np.int64)
    return costs[np.arange(len(hypotheses)), lengths].astype(np.int64)
