"""Start from counts: before the first update, the networks' token tables and output biases say what counting
the text can say.

A fresh network spends its first updates on learning how frequent each token is, and the next ones on what
stands near what. Both can be counted in seconds.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from electra.data.cooccurrence import token_vectors
from electra.data.store import TokenStore, count_ids
from electra.foundation.errors import ConfigError
from electra.model.encoder import Embeddings
from electra.model.heads import GeneratorHead
from electra.model.modern import TokenTable
from electra.training.networks import WarmStart
from electra.training.recipe import Recipe

FEWEST = 50  # tokens of text for each entry of the vocabulary
LENGTH = 0.9  # of a vector, root mean square; chosen at 128 dimensions (results: more from counts)


def refuse_start(recipe: Recipe, store: TokenStore, warm: WarmStart | None) -> None:
    """Counts take the place of fresh weights, not of a model's, and where there is text enough to count."""
    if recipe.model.start == "counts" and warm is None:
        refuse_little_text(store)


def starts_from_counts(recipe: Recipe, store: TokenStore, warm: WarmStart | None) -> bool:
    if warm is not None:
        return False
    enough = store.vocab_size <= store.train.num_tokens // FEWEST
    return recipe.model.start == "counts" or (recipe.model.start == "auto" and enough)


def refuse_little_text(store: TokenStore) -> None:
    most = store.train.num_tokens // FEWEST
    if store.vocab_size > most:
        raise ConfigError(
            f"{store.train.num_tokens:,} tokens are too few to count what stands near what among"
            f" {store.vocab_size:,} kinds",
            key="model.start",
            fix=f"Use `model.start=fresh`, or a vocabulary of at most {most:,}",
        )


@torch.no_grad()
def start_from_counts(networks: nn.Module, store: TokenStore) -> None:
    """Fill every token table and every output layer's bias of `networks` from the training text.

    Tokens without neighbours ([MASK] and the other special ones, those that never occur) keep their fresh
    rows.
    """
    counts = count_ids(store.train, store.vocab_size) + 0.5
    for head in networks.modules():
        if isinstance(head, GeneratorHead):
            head.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
    of_width: dict[int, Tensor] = {}
    for table in token_tables(networks):
        width = table.shape[1]
        if width not in of_width:
            vectors = token_vectors(store.train, store.vocab_size, width)
            of_width[width] = torch.from_numpy(LENGTH * width**-0.5 * vectors)
        counted = of_width[width].to(table)
        table.copy_(torch.where(counted.any(dim=1, keepdim=True), counted, table))


def token_tables(networks: nn.Module) -> list[nn.Parameter]:
    """The tables of token embeddings [V, E], each once, however many networks share it."""
    found: dict[int, nn.Parameter] = {}
    for module in networks.modules():
        table = module.words if isinstance(module, Embeddings) else module
        if isinstance(table, TokenTable) or (table is not module and isinstance(table, nn.Embedding)):
            weight = table.weight
            assert isinstance(weight, nn.Parameter)
            found[id(weight)] = weight
    return list(found.values())
