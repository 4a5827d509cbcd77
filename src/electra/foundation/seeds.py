"""Derives the key of every random draw.

Randomness is derived, never saved: each draw is a pure function of (seed, stream, step, index), so it does
not depend on the number of processes or workers, or on where a run was interrupted. Keys have 64 bits.
Numbers come from SplitMix64 (Steele, Lea, Flood 2014): its n-th output is a hash of `key + n * GOLDEN`, so
that whole arrays can be computed at once.
"""

import hashlib

import numpy as np
import numpy.typing as npt

SCHEME = 1  # part of a run's identity: change it whenever any function here changes its output

UInt64 = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


def mix(x: UInt64) -> UInt64:
    """Applies SplitMix64's finalizer, a bijection that spreads each of the 64 input bits over the output."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def keys(seed: int, stream: str, step: int, indices: npt.ArrayLike) -> UInt64:
    """Returns a 64-bit key (uint64) for each of `indices`; `stream` is the use: order, mask, dropout, ..."""
    stream_hash = int.from_bytes(hashlib.blake2b(stream.encode(), digest_size=8).digest(), "little")
    with np.errstate(over="ignore"):
        key = np.asarray(indices, dtype=np.uint64)
        for word in (step, stream_hash, seed):
            key = mix((key + _GOLDEN) ^ mix(np.asarray(word & _MASK, dtype=np.uint64) + _GOLDEN))
    return key


def key(seed: int, stream: str, step: int = 0, index: int = 0) -> int:
    """Returns the key of a single draw as a Python int, which `torch.manual_seed` accepts."""
    return int(keys(seed, stream, step, np.asarray([index & _MASK], dtype=np.uint64))[0])


def uniforms(row_keys: npt.ArrayLike, count: int) -> npt.NDArray[np.float64]:
    """Returns uniform numbers in [0, 1), shape (*row_keys.shape, count), with 53 bits each."""
    with np.errstate(over="ignore"):
        offsets = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
        bits = mix(np.asarray(row_keys, dtype=np.uint64)[..., None] + offsets)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permute(indices: npt.ArrayLike, size: int, permutation_key: int) -> UInt64:
    """Returns where a keyed permutation of range(size) sends each index (uint64, the shape of `indices`).

    A four-round Feistel network with cycle walking gives random access: the order of an epoch costs no
    memory and no start-up time, whatever the size of the corpus. If `size` is at most 1, returns zeros.
    Otherwise raises ValueError for an index outside range(size).
    """
    if size <= 1:
        return np.zeros_like(np.asarray(indices, dtype=np.uint64))
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    low = np.uint64((1 << half) - 1)
    shift = np.uint64(half)
    round_keys = keys(permutation_key, "feistel", 0, np.arange(4))

    def encrypt(x: UInt64) -> UInt64:
        left, right = x >> shift, x & low
        for round_key in round_keys:
            with np.errstate(over="ignore"):
                left, right = right, left ^ (mix(right + round_key) & low)
        return (left << shift) | right

    values = np.atleast_1d(np.asarray(indices, dtype=np.uint64))
    if values.size and int(values.max()) >= size:
        raise ValueError(f"index {values.max()} outside range({size})")
    values = encrypt(values)
    outside = values >= size
    while outside.any():  # each walk ends: encrypt is a bijection on 2^(2 half) >= size values
        values[outside] = encrypt(values[outside])
        outside = values >= size
    return values.reshape(np.shape(indices))
