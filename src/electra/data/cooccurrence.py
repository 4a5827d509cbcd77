"""Token vectors from co-occurrence counts, without a network, for the initialisation of embeddings.

The matrix of positive pointwise mutual information of tokens within a few positions of each other is
factorised. Skip-gram approximates the same by gradient descent (Levy & Goldberg 2014; Levy, Goldberg & Dagan
2015). Shapes: V vocabulary, D dimensions.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import sparse

from electra.data.store import TokenDocuments
from electra.foundation import seeds

Float64 = npt.NDArray[np.float64]

WINDOW = 4  # tokens on either side; a neighbour at distance d weighs 1 / d
CONTEXT_POWER = 0.75  # exponent of the neighbours' frequencies, so that rare ones do not dominate
MOST_TOKENS = 8_000_000  # read from evenly spaced blocks; half a second per million
ROUNDS = 5  # rounds of subspace iteration
GRID = 2.0**-12  # standard deviations: vectors are rounded to it, since last bits differ between processors
BLOCK = 1 << 21  # tokens counted at once


def cooccurrence_counts(documents: TokenDocuments, vocab_size: int, window: int = WINDOW) -> sparse.csr_array:
    """Counts how often two tokens occur within `window` of each other in a document.

    Returns a symmetric matrix [V, V] of int64, in units of 1 / lcm(1 ... window), so that it is exact. A long
    corpus is sampled in evenly spaced blocks.
    """
    ends = np.asarray(documents.ends).astype(np.int64)
    unit = math.lcm(*range(1, window + 1))
    total = sparse.csr_array((vocab_size, vocab_size), dtype=np.int64)
    blocks, most = -(-documents.num_tokens // BLOCK), max(1, MOST_TOKENS // BLOCK)
    for number in range(min(blocks, most)):
        start = number * blocks // min(blocks, most) * BLOCK
        tokens = np.asarray(documents.tokens[start : start + BLOCK + window]).astype(np.int64)
        document = np.searchsorted(ends, np.arange(start, start + len(tokens)), side="right")
        for away in range(1, window + 1):
            first, second = tokens[:-away][:BLOCK], tokens[away : BLOCK + away]
            together = document[:-away][:BLOCK] == document[away : BLOCK + away]
            weights = np.full(int(together.sum()), unit // away, dtype=np.int64)
            pairs = sparse.coo_array((weights, (first[together], second[together])), shape=total.shape)
            total = total + pairs.tocsr()
    return sparse.csr_array(total + total.T)


def positive_pmi(together: sparse.csr_array) -> sparse.csr_array:
    """Returns log p(a, b) / (p(a) q(b)) of counts [V, V], without entries that are not positive.

    q is p to the power CONTEXT_POWER, normalised.
    """
    counts = together.tocoo()
    row, column = counts.coords
    tokens = together.sum(axis=1).astype(np.float64)
    contexts = tokens**CONTEXT_POWER
    values = np.log(counts.data * (contexts.sum() / (tokens[row] * contexts[column])))
    kept = values > 0
    return sparse.csr_array((values[kept], (row[kept], column[kept])), shape=together.shape)


def factorise(matrix: sparse.csr_array, dimensions: int) -> Float64:
    """Returns vectors [V, D] of a matrix M = U S V^T [V, V]: a rotation of U sqrt(S) for the D largest S.

    Subspace iteration with M M^T from random columns gives a basis Q; the result is Q (B^T B)^(1/4), where B
    = M^T Q. No single singular vector is computed, because signs and order depend on the linear algebra
    library.
    """
    keys = seeds.keys(0, "cooccurrence", 0, np.arange(matrix.shape[0]))
    vectors = seeds.uniforms(keys, dimensions) - 0.5
    across = matrix.T.tocsr()
    for _ in range(ROUNDS):
        for half in (across, matrix):
            vectors = half @ vectors
            vectors = vectors @ _power(vectors, -0.5)
    return np.asarray(vectors @ _power(across @ vectors, 0.25))


def _power(columns: Float64, exponent: float) -> Float64:
    """Returns a power of the Gram matrix of `columns` [V, D], [D, D]; -1/2 orthonormalises them."""
    values, vectors = np.linalg.eigh(columns.T @ columns)
    real = values > values[-1] * 1e-10
    powers = np.zeros_like(values)
    powers[real] = values[real] ** exponent
    return np.asarray((vectors * powers) @ vectors.T)


def token_vectors(documents: TokenDocuments, vocab_size: int, dimensions: int) -> Float64:
    """Returns vectors [V, D] with mean 0 and standard deviation 1; zeros for tokens without neighbours.

    They are equal for any number of threads and, with a probability of about 99.9 %, on any processor.
    """
    matrix = positive_pmi(cooccurrence_counts(documents, vocab_size))
    vectors = factorise(matrix, dimensions)
    seen = np.diff(matrix.indptr) > 0
    vectors[seen] -= vectors[seen].mean(axis=0)
    vectors[seen] /= vectors[seen].std()
    vectors[~seen] = 0
    return np.asarray(np.round(vectors / GRID) * GRID)
