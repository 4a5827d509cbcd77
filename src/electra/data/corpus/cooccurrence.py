"""Token vectors from co-occurrence counts, to initialise embeddings.

They factorise the matrix of positive pointwise mutual information between tokens that are a few positions
apart. Skip-gram approximates this by gradient descent (Levy & Goldberg 2014; Levy, Goldberg & Dagan 2015).
Shapes: V vocabulary, D dimensions.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import sparse

from electra.data.corpus.store import TokenDocuments
from electra.foundation import seeds

Float64 = npt.NDArray[np.float64]

WINDOW = 4  # tokens on either side; a neighbour at distance d weighs 1 / d
CONTEXT_POWER = 0.75  # exponent of the neighbours' frequencies, so that rare neighbours do not dominate
MAX_TOKENS = 8_000_000  # at most so many are counted, in whole blocks; takes half a second per million
ROUNDS = 5  # rounds of subspace iteration
ROUNDING = 2.0**-12  # vectors are rounded to multiples of this, since processors differ in the last bits
BLOCK = 1 << 21  # tokens counted at once


def cooccurrence_counts(documents: TokenDocuments, vocab_size: int, window: int = WINDOW) -> sparse.csr_array:
    """Counts how often each pair of tokens occurs within `window` of each other in a document.

    A neighbour at distance d counts 1 / d. Returns a symmetric matrix [V, V] of int64, in units of
    1 / lcm(1 ... window), so that it is exact. A long corpus is sampled in evenly spaced blocks.
    """
    ends = np.asarray(documents.ends).astype(np.int64)
    unit = math.lcm(*range(1, window + 1))
    counts = sparse.csr_array((vocab_size, vocab_size), dtype=np.int64)
    num_blocks, max_blocks = -(-documents.num_tokens // BLOCK), max(1, MAX_TOKENS // BLOCK)
    for index in range(min(num_blocks, max_blocks)):
        start = index * num_blocks // min(num_blocks, max_blocks) * BLOCK
        tokens = np.asarray(documents.tokens[start : start + BLOCK + window]).astype(np.int64)
        document = np.searchsorted(ends, np.arange(start, start + len(tokens)), side="right")
        for distance in range(1, window + 1):
            left, right = tokens[:-distance][:BLOCK], tokens[distance : BLOCK + distance]
            same_document = document[:-distance][:BLOCK] == document[distance : BLOCK + distance]
            weights = np.full(int(same_document.sum()), unit // distance, dtype=np.int64)
            coordinates = (left[same_document], right[same_document])
            pairs = sparse.coo_array((weights, coordinates), shape=counts.shape)
            counts = counts + pairs.tocsr()
    return sparse.csr_array(counts + counts.T)


def positive_pmi(counts: sparse.csr_array) -> sparse.csr_array:
    """Returns log(p(a, b) / (p(a) q(b))), or 0 if that is negative; q is p ** CONTEXT_POWER, normalised."""
    entries = counts.tocoo()
    row, column = entries.coords
    token_counts = counts.sum(axis=1).astype(np.float64)
    context_weights = token_counts**CONTEXT_POWER
    values = np.log(entries.data * (context_weights.sum() / (token_counts[row] * context_weights[column])))
    positive = values > 0
    return sparse.csr_array((values[positive], (row[positive], column[positive])), shape=counts.shape)


def factorise(matrix: sparse.csr_array, dimensions: int) -> Float64:
    """Returns vectors [V, D] of a matrix M = U S V^T [V, V]: a rotation of U sqrt(S) for the D largest S.

    Subspace iteration with M M^T from random columns gives a basis Q. The result is Q (B^T B)^(1/4) with B =
    M^T Q, because signs and order of singular vectors depend on the linear algebra library.
    """
    keys = seeds.keys(0, "cooccurrence", 0, np.arange(matrix.shape[0]))
    vectors = seeds.uniforms(keys, dimensions) - 0.5
    transposed = matrix.T.tocsr()
    for _ in range(ROUNDS):
        for factor in (transposed, matrix):
            vectors = factor @ vectors
            vectors = vectors @ _power(vectors, -0.5)
    return np.asarray(vectors @ _power(transposed @ vectors, 0.25))


def _power(columns: Float64, exponent: float) -> Float64:
    """Returns a power [D, D] of the Gram matrix of `columns` [V, D]; -1/2 orthonormalises them."""
    values, vectors = np.linalg.eigh(columns.T @ columns)
    nonzero = values > values[-1] * 1e-10
    powers = np.zeros_like(values)
    powers[nonzero] = values[nonzero] ** exponent
    return np.asarray((vectors * powers) @ vectors.T)


def token_vectors(documents: TokenDocuments, vocab_size: int, dimensions: int) -> Float64:
    """Returns vectors [V, D] with mean 0 in each dimension and an overall standard deviation of 1.

    These figures leave out the tokens that co-occur with none more often than by chance, which get zeros. The
    vectors do not depend on the number of threads nor, in about 99.9 % of cases, on the processor.
    """
    matrix = positive_pmi(cooccurrence_counts(documents, vocab_size))
    vectors = factorise(matrix, dimensions)
    has_neighbours = np.diff(matrix.indptr) > 0
    vectors[has_neighbours] -= vectors[has_neighbours].mean(axis=0)
    vectors[has_neighbours] /= vectors[has_neighbours].std()
    vectors[~has_neighbours] = 0
    return np.asarray(np.round(vectors / ROUNDING) * ROUNDING)
