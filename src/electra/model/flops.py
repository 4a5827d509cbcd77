"""FLOPs by the conventions of the paper's published script, so that they can be compared with its Table 1.

The script (google-research/electra, flops_computation.py) counts 2 x m x n for a matrix product, as much for
the backward pass as for the forward pass, and a dense product with a one-hot vector for an embedding lookup.
The last is an overestimate: on real hardware, lookups are nearly free, which is how `dense_lookup=False`
counts them. In RTD two networks look up embeddings, so the script makes it appear more expensive than it is.
Extensions: a gated feed-forward network has three matrices instead of two, and rotary positions replace the
position table.
"""

from collections.abc import Iterable

from electra.artifacts.network_names import Head
from electra.model.networks import Network, Networks
from electra.model.sizes import EncoderConfig

DROPOUT, LAYER_NORM, ACTIVATION, SOFTMAX = 4, 5, 8, 5  # operations per element
MASKED_FRACTION = 0.15625  # default fraction of masked positions in the script


def layer_flops(config: EncoderConfig, length: int) -> float:
    """Returns the FLOPs of the forward pass of one layer on one sequence of `length` tokens."""
    h, i, heads = config.hidden_size, config.intermediate_size, config.num_heads
    products = 4 * 2 * h * h + 2 * 2 * h * length + config.feed_forward_matrices * 2 * h * i
    attention = 3 * h + (SOFTMAX + DROPOUT + 1) * length * heads
    output = h + DROPOUT * h + h + LAYER_NORM
    feed_forward = ACTIVATION * i + i + h + (DROPOUT + 1 + LAYER_NORM) * h
    return (products + attention + output + feed_forward) * length


def input_flops(config: EncoderConfig, length: int, dense_lookup: bool) -> float:
    """Returns the forward FLOPs of the embeddings and their projection on one sequence."""
    e, h = config.embedding_size, config.hidden_size
    per_token = 2.0 * e * config.vocab_size if dense_lookup else 0.0
    per_token += (2 * e * (length + 2) if dense_lookup else 0) + 2 * e + (LAYER_NORM + DROPOUT) * e
    if e != h:
        per_token += 2 * h * e + h
    return per_token * length


def generator_head_flops(config: EncoderConfig, length: int, fraction: float) -> float:
    """Returns the forward FLOPs of the generator's head and output layer at `fraction` of the positions."""
    e, v = config.embedding_size, config.vocab_size
    per_token = 2 * e * v + 2 * config.hidden_size * e + e + (ACTIVATION + LAYER_NORM) * e + (SOFTMAX + 2) * v
    return fraction * per_token * length


def discriminator_head_flops(config: EncoderConfig, length: int) -> float:
    """Returns the forward FLOPs of the discriminator's head, which covers every position."""
    h = config.hidden_size
    return (2 * h * h + h + ACTIVATION * h + 2 * h) * length


def forward_flops(
    networks: Iterable[Network],
    length: int,
    *,
    masked_fraction: float = MASKED_FRACTION,
    dense_lookup: bool = True,
) -> float:
    """Returns the FLOPs of one forward pass of `networks` over a sequence of `length` tokens."""
    rows, total = list(networks), 0.0
    for row in rows:
        total += row.config.num_layers * layer_flops(row.config, length)
        total += input_flops(row.config, length, dense_lookup)
    for row in rows:
        if row.head == "generator":
            total += generator_head_flops(row.config, length, masked_fraction)
        elif row.head == "discriminator":
            total += discriminator_head_flops(row.config, length)
    return total


def training_flops(networks: Networks, length: int, *, masked_fraction: float = MASKED_FRACTION) -> float:
    """Returns the FLOPs of training on one sequence; frozen networks only run forward."""
    trained_flops = forward_flops(networks.trained, length, masked_fraction=masked_fraction)
    return 2 * trained_flops + forward_flops(networks.frozen, length, masked_fraction=masked_fraction)


def sequence_flops(
    generator: EncoderConfig | None,
    discriminator: EncoderConfig | None,
    length: int,
    *,
    masked_fraction: float = MASKED_FRACTION,
    dense_lookup: bool = True,
) -> float:
    """Returns the FLOPs of training a generator, a discriminator or both (unless None) on one sequence."""
    shapes: dict[Head, EncoderConfig | None] = {"generator": generator, "discriminator": discriminator}
    rows = [Network(head, "main", shape, head) for head, shape in shapes.items() if shape is not None]
    return 2 * forward_flops(rows, length, masked_fraction=masked_fraction, dense_lookup=dense_lookup)
