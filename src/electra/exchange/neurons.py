"""Removes feed-forward neurons from a trained model; those that stay are refitted to do without them.

In each layer, the neuron whose removal changes the layer's output least is removed, again and again, and the
output matrix is adjusted by least squares each time (Hassibi and Stork 1993, Optimal Brain Surgeon; for whole
neurons Kurtic et al. 2023, ZipLM). What changes least is measured on text that the model reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from electra.data.store import TokenStore
from electra.exchange.configs import DEFAULT_THRESHOLD
from electra.exchange.layers import in_vocabulary
from electra.exchange.transfer import export
from electra.exchange.warm_start import load_main
from electra.foundation.arrays import Ints
from electra.foundation.errors import ConfigError, CorpusError, ModelError
from electra.foundation.visible import plural
from electra.model.pair import build_encoder

MAX_TOKENS = 65_536  # of text that is read: about forty for each neuron of a layer
ROW = 128  # tokens in a row
ROWS = 32  # rows in a forward pass
DAMPING = 1e-3  # added to the diagonal of the second moments, relative to its mean
COMPACT = 64  # removals after which the matrices are made smaller


def prune(source: str, out: Path, store: TokenStore, neurons: int) -> Iterator[str]:
    """Writes a copy of `source` with fewer feed-forward neurons in each layer. Yields lines for the user.

    The vocabulary becomes that of `store`, which must be the model's own or cut from it.

    Args:
        source: A run, a model folder or a hub name; its discriminator, or else its masked language model or
            encoder, is used.
        out: The folder to write.
        store: Text, of which 65,536 tokens from all over are read.
        neurons: Number of neurons in each layer that stay.

    Raises:
        ConfigError: `neurons` is less than 1, or not less than the model has.
        CorpusError: the text has fewer tokens than a layer has neurons.
        ModelError: the store's tokenizer is another one, or `out` would replace something else.
        ElectraError: the other errors of `load` and `write_model`.
    """
    loaded = load_main(source)
    old = loaded.config.intermediate_size
    if not 1 <= neurons < old:
        raise ConfigError(f"must be from 1 to {old - 1:,}, not {neurons:,}", key="neurons")
    model = in_vocabulary(loaded, store.tokenizer)
    if model is None:
        fix = f"Prepare the text with this model's: electra prepare ... --tokenizer {source}"
        raise ModelError("the store was made with another tokenizer", where=store.place, fix=fix)
    rows = sample_rows(store, min(ROW, model.config.max_positions))
    if rows.size < old:
        problem = f"{plural(rows.size, 'token')} of text for {old:,} neurons in a layer"
        raise CorpusError(problem, where=store.place, fix="Pass more text")
    config = replace(model.config, intermediate_size=neurons)
    for number, layer in enumerate(model.encoder.layers, 1):
        changed = _prune_layer(model.encoder, layer, rows, neurons)
        yield f"layer {number}: {neurons:,} of {old:,} neurons stay; its update changes by {changed:.1%}"
    encoder = build_encoder(config)
    encoder.load_state_dict(model.encoder.state_dict())
    export(replace(model, encoder=encoder.eval(), config=config, threshold=DEFAULT_THRESHOLD), out, source)


def sample_rows(store: TokenStore, length: int) -> Ints:
    """Returns rows of `length` ids [N, T] from all over the text, each with [CLS] first and [SEP] last."""
    cls, sep, tokens, width = store.specials.cls, store.specials.sep, store.train.tokens, length - 2
    num_rows = min(MAX_TOKENS // length, len(tokens) // width)
    starts = [number * len(tokens) // num_rows for number in range(num_rows)]
    rows = np.empty((num_rows, length), np.int64)
    rows[:, 0], rows[:, -1] = cls, sep
    for row, start in zip(rows, starts, strict=True):
        row[1:-1] = tokens[start : start + width]
    return rows


@torch.no_grad()
def _prune_layer(encoder: nn.Module, layer: Any, rows: Ints, neurons: int) -> float:
    """Removes neurons from a layer in place. Returns by which fraction the feed-forward update changes."""
    down = layer.output
    second_moments = _second_moments(encoder, down, rows)
    bias = down.weight.new_zeros(len(down.weight)) if down.bias is None else down.bias
    if down.bias is None:  # the activations' mean cannot be moved into a bias
        second_moments[:, -1] = second_moments[-1, :] = 0
        second_moments[-1, -1] = 1
    weights = torch.cat([down.weight.T, bias[None]]).double()
    kept, refitted = remove_neurons(second_moments, weights, neurons)
    change = weights.clone()
    change[[*kept, -1]] -= refitted
    changed = _energy(change, second_moments) / _energy(weights, second_moments)

    up = layer.gated if hasattr(layer, "gated") else layer.intermediate
    parts = up.out_features // down.in_features  # two if gated
    which = torch.cat([torch.tensor(kept) + part * down.in_features for part in range(parts)])
    up.weight, up.out_features = nn.Parameter(up.weight[which]), len(which)
    if up.bias is not None:
        up.bias = nn.Parameter(up.bias[which])
    down.weight, down.in_features = nn.Parameter(refitted[:-1].T.float().contiguous()), neurons
    if down.bias is not None:
        down.bias = nn.Parameter(refitted[-1].float())
    return changed


def _energy(weights: Tensor, second_moments: Tensor) -> float:
    """Returns the mean squared length of the activations times `weights`."""
    return float((weights * (second_moments @ weights)).sum())


def _second_moments(encoder: nn.Module, down: nn.Linear, rows: Ints) -> Tensor:
    """Returns the mean of a a^T [I + 1, I + 1] over tokens, where a is the input of `down` and a one."""
    sums = torch.zeros(down.in_features + 1, down.in_features + 1, dtype=torch.float64)

    def add(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        activations = inputs[0].flatten(0, -2).float()
        with_one = torch.cat([activations, activations.new_ones(len(activations), 1)], dim=1)
        sums.add_((with_one.T @ with_one).double())

    with_hook = down.register_forward_pre_hook(add)
    try:
        for start in range(0, len(rows), ROWS):
            encoder(torch.from_numpy(rows[start : start + ROWS]))
    finally:
        with_hook.remove()
    return sums / rows.size


def remove_neurons(second_moments: Tensor, weights: Tensor, neurons: int) -> tuple[Sequence[int], Tensor]:
    """Removes all but `neurons` inputs of a matrix, one at a time, and refits the others.

    Args:
        second_moments: The mean of a a^T [I + 1, I + 1], where a is an input of the matrix and a one.
        weights: The matrix and, as its last row, the bias [I + 1, D].
        neurons: Number of inputs that stay.

    Returns:
        The indices of those that stay, in ascending order, and the weights for them and the bias
        [neurons + 1, D].
    """
    size = len(weights) - 1
    damping = DAMPING * second_moments.diagonal()[:-1].mean() * torch.ones(size + 1, dtype=torch.float64)
    damping[-1] = 0
    inverse = torch.linalg.inv(second_moments.double() + torch.diag(damping + 1e-12))
    weights, kept = weights.double().clone(), torch.arange(size + 1)
    removed: list[int] = []
    for count in range(1, size - neurons + 1):
        costs = weights.square().sum(1) / inverse.diagonal()  # the squared error with the best refitting
        costs[-1] = torch.inf  # the bias stays
        costs[removed] = torch.inf
        index = int(costs.argmin())
        column, scale = inverse[:, index].clone(), -1 / float(inverse[index, index])
        weights.addr_(column, weights[index].clone(), alpha=scale)
        inverse.addr_(column, column, alpha=scale)
        removed.append(index)
        if count % COMPACT == 0 or count == size - neurons:
            stays = torch.ones(len(kept), dtype=torch.bool)
            stays[removed] = False
            kept, weights, inverse = kept[stays], weights[stays], inverse[stays][:, stays]
            removed = []
    return kept[:-1].tolist(), weights
