"""Token vectors from counts: what stands near what, factorised, with no network.

The positive pointwise mutual information of tokens within a few positions of each other, as a matrix of few
dimensions: what skip-gram learns by gradient descent (Levy & Goldberg 2014; Levy, Goldberg & Dagan 2015), in
seconds. Shapes: V vocabulary, D dimensions.
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
CONTEXT_POWER = 0.75  # of the frequencies of the neighbours, or rare ones would count for most
MOST_TOKENS = 8_000_000  # read, from all over the text: half a second a million
ROUNDS = 5  # of subspace iteration
GRID = 2.0**-12  # in deviations: vectors are rounded to it, since last bits differ between processors
BLOCK = 1 << 21  # tokens counted at once


def neighbours(documents: TokenDocuments, vocab_size: int, window: int = WINDOW) -> sparse.csr_array:
    """How often two tokens stand within `window` of each other in a document [V, V]: symmetric and exact, in
    units of 1 / lcm(1 ... window). Of a long text, in blocks spread evenly over it.
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


def mutual_information(together: sparse.csr_array) -> sparse.csr_array:
    """log p(a, b) / (p(a) q(b)) of counts [V, V] where it is positive; elsewhere nothing. q is p to the power
    CONTEXT_POWER, normalised.
    """
    counts = together.tocoo()
    row, column = counts.coords
    tokens = together.sum(axis=1).astype(np.float64)
    contexts = tokens**CONTEXT_POWER
    values = np.log(counts.data * (contexts.sum() / (tokens[row] * contexts[column])))
    kept = values > 0
    return sparse.csr_array((values[kept], (row[kept], column[kept])), shape=together.shape)


def factors(matrix: sparse.csr_array, dimensions: int) -> Float64:
    """Vectors [V, D] for a matrix M = U S V^T [V, V]: U sqrt(S) of the D largest S, turned.

    Subspace iteration with M M^T from random columns to a basis Q; then Q (B^T B)^(1/4), where B = M^T Q. No
    single singular vector is computed: their signs and order are up to the linear algebra library.
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
    """The inner products of `columns` [V, D] to that power [D, D]; by -1/2 columns become orthonormal."""
    values, vectors = np.linalg.eigh(columns.T @ columns)
    real = values > values[-1] * 1e-10
    powers = np.zeros_like(values)
    powers[real] = values[real] ** exponent
    return np.asarray((vectors * powers) @ vectors.T)


def token_vectors(documents: TokenDocuments, vocab_size: int, dimensions: int) -> Float64:
    """Vectors [V, D] of mean 0 and deviation 1 over the tokens that have neighbours; zeros for the others.

    The same on any number of threads and, but for a chance of about one in a thousand, on any processor.
    """
    matrix = mutual_information(neighbours(documents, vocab_size))
    vectors = factors(matrix, dimensions)
    seen = np.diff(matrix.indptr) > 0
    vectors[seen] -= vectors[seen].mean(axis=0)
    vectors[seen] /= vectors[seen].std()
    vectors[~seen] = 0
    return np.asarray(np.round(vectors / GRID) * GRID)
