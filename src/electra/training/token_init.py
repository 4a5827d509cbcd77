"""Co-occurrence initialisation of token embeddings and output biases, before the first update.

A network with random weights spends its first updates on learning how frequent each token is, and the next
ones on learning which tokens occur near each other. Counting both takes seconds.
"""

import numpy as np
import torch
from torch import Tensor, nn

from electra.data.corpus.cooccurrence import token_vectors
from electra.data.corpus.store import TokenStore
from electra.model.encoder import Encoder
from electra.model.heads import GeneratorHead
from electra.model.modern import ProjectedTable

MIN_TOKENS = 50  # of text per vocabulary entry
LENGTH = 0.9  # root mean square length of a vector, tuned with 128 dimensions


@torch.no_grad()
def initialise_tokens(networks: nn.Module, store: TokenStore) -> None:
    """Fills every token table and output bias of `networks` from the training text, if it is long enough.

    Rows of tokens without co-occurrences, such as those that never occur, keep their random values.
    """
    if store.vocab_size > store.train.num_tokens // MIN_TOKENS:
        return
    counts = store.counts + 0.5
    for head in networks.modules():
        if isinstance(head, GeneratorHead):
            head.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
    vectors_by_width: dict[int, Tensor] = {}
    for table in token_tables(networks):
        width = table.shape[1]
        if width not in vectors_by_width:
            vectors = token_vectors(store.train, store.vocab_size, width)
            vectors_by_width[width] = torch.from_numpy(LENGTH * width**-0.5 * vectors)
        new_rows = vectors_by_width[width].to(table)
        table.copy_(torch.where(new_rows.any(dim=1, keepdim=True), new_rows, table))


def token_tables(networks: nn.Module) -> list[nn.Parameter]:
    """Returns the tables of token embeddings [V, E], each once even if several networks share it."""
    tables: dict[int, nn.Parameter] = {}
    for module in networks.modules():
        if isinstance(module, Encoder):
            words = module.words.source if isinstance(module.words, ProjectedTable) else module.words
            if isinstance(words, nn.Embedding):
                tables[id(words.weight)] = words.get_parameter("weight")
    return list(tables.values())
