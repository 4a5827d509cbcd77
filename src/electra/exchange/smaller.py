"""A smaller model cut out of a trained one: some of its layers, and a part of its vocabulary.

What stays is what it was. The function changes with the layers, so that it must be trained further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from electra.data import cut_vocabulary
from electra.data.tokenizer import Tokenizer
from electra.exchange.configs import DEFAULT_THRESHOLD
from electra.exchange.load import Loaded
from electra.foundation.errors import ConfigError, ModelError
from electra.model.heads import DiscriminatorHead
from electra.model.pair import build_encoder

TABLES = ("embeddings.words.weight", "tokens.weight")


def keep_layers(model: Loaded, layers: Sequence[int]) -> Loaded:
    """The model with these of its layers, counted from 0, in rising order."""
    old = model.config
    if not layers or sorted(set(layers)) != list(layers) or layers[0] < 0 or layers[-1] >= old.num_layers:
        asked = " ".join(map(str, layers)) or "none"
        what = f"must be some of the layers 0 to {old.num_layers - 1} in rising order, not {asked}"
        raise ConfigError(what, key="keep_layers")
    if old.global_every > 1:
        what = f"only one layer in {old.global_every} attends to all tokens, so that none can be left out"
        raise ModelError(what, where=model.folder, fix="Give `layers` and `hidden_size` instead")
    config = replace(old, num_layers=len(layers))
    encoder, given = build_encoder(config), model.encoder.state_dict()
    state = encoder.state_dict()  # modern: a first layer has no norm of its own
    for name in state:
        number, _, rest = name.removeprefix("layers.").partition(".")
        theirs = f"layers.{layers[int(number)]}.{rest}" if name.startswith("layers.") else name
        state[name] = given.get(theirs, state[name])
    encoder.load_state_dict(state)
    return replace(model, encoder=encoder.eval(), config=config, threshold=DEFAULT_THRESHOLD)


def in_vocabulary(model: Loaded, tokenizer: Tokenizer) -> Loaded | None:
    """The model's encoder, reading the ids of `tokenizer`; None where that is not its own or cut from it."""
    if model.tokenizer.digest == tokenizer.digest:
        return model
    kept = cut_vocabulary.entries(tokenizer, model.tokenizer)
    if kept is None:
        return None
    config = replace(model.config, vocab_size=len(kept), pad_id=tokenizer.specials.pad)
    encoder, state = build_encoder(config), model.encoder.state_dict()
    for name in TABLES:
        if name in state:
            state[name] = state[name][torch.from_numpy(kept)]
    encoder.load_state_dict(state)
    head = model.head if isinstance(model.head, DiscriminatorHead) else None  # others name tokens
    return replace(model, encoder=encoder.eval(), head=head, config=config, tokenizer=tokenizer)
