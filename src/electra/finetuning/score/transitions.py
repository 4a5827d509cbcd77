"""Transitions: which tag follows which, by which the tags of a sentence are chosen together.

A tagger has probabilities for each word by itself, and the best tag of each may not make an entity: I-LOC
after B-PER. Predicted is the sequence with the highest sum of the words' log-probabilities and, for each pair
of neighbours, WEIGHT times log p(tag | tag before) - log p(tag), estimated from the training tags. Both ends
of a sentence count as a tag, EDGE. The probabilities of words stay as they are.

The weight and the smoothing were chosen on parts of the training data of entities and chunks in three
languages (results/states-and-counts).

Shapes: W words, L labels.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from electra.foundation.arrays import Floats

WEIGHT = 0.5
LEAST = 1e-9  # of a word's probabilities
Transitions = tuple[tuple[int, int, int], ...]
"""How often which label (its number) follows which: (before, after, count). EDGE has the number L."""


def count_transitions(sentences: Iterable[Sequence[int]], num_labels: int) -> Transitions:
    """Returns the transitions in the labels of sentences, without those of unknown labels (negative)."""
    paths = ([num_labels, *labels, num_labels] for labels in sentences)
    counts = Counter(pair for path in paths for pair in pairwise(path) if min(pair) >= 0)
    return tuple((*pair, count) for pair, count in sorted(counts.items()))


@cache
def transition_scores(transitions: Transitions, num_labels: int) -> Floats:
    """Returns WEIGHT times log p(tag | tag before) - log p(tag) [L + 1, L + 1]; the last one is EDGE.

    To the transitions of each tag, L are added that are as frequent as the tags themselves.
    """
    counts = np.zeros((num_labels + 1, num_labels + 1))
    for before, after, count in transitions:
        counts[before, after] = count
    shares = counts.sum(0) / max(1.0, counts.sum())
    lift = np.divide(counts, shares, out=np.zeros_like(counts), where=shares > 0)
    ratios: Floats = (lift + num_labels) / (counts.sum(1, keepdims=True) + num_labels)
    return WEIGHT * np.log(ratios)


def best_sequence(probabilities: npt.NDArray[np.float32], transitions: Transitions) -> list[int]:
    """Returns the labels [W] of the best sequence (Viterbi), from the words' probabilities [W, L]."""
    if not len(probabilities):
        return []
    scores = transition_scores(transitions, probabilities.shape[1])
    of_words = np.log(np.maximum(probabilities.astype(np.float64), LEAST))
    best, steps = scores[-1, :-1] + of_words[0], list[npt.NDArray[np.int64]]()
    for of_word in of_words[1:]:
        totals = best[:, None] + scores[:-1, :-1]
        steps.append(totals.argmax(0))
        best = totals.max(0) + of_word
    labels = [int((best + scores[:-1, -1]).argmax())]
    for step in reversed(steps):
        labels.append(int(step[labels[-1]]))
    return labels[::-1]
