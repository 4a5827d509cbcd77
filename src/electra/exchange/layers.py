"""Keeps some of a trained model's layers or vocabulary entries; weights that stay keep their values.

With other layers, the model computes a different function and must be trained further.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from electra.data.corpus import cut_vocabulary
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.configs import DEFAULT_THRESHOLD
from electra.exchange.load import Loaded
from electra.foundation.arrays import Ints
from electra.foundation.errors import ConfigError, ModelError
from electra.model.adapted import AdaptedEncoder, PublishedHead
from electra.model.encoder import LAYER
from electra.model.heads import GeneratorHead
from electra.model.pair import build_encoder


def keep_layers(model: Loaded, layers: Sequence[int]) -> Loaded:
    """Returns the model with copies of only the given layers, counted from 0 and in ascending order.

    If a layer lacks a parameter that it needs in its new place (the first layer of a modern encoder has no
    attention norm), the parameter keeps its initial value. The detection threshold is reset to its default.
    Raises ConfigError if no layers are given, they are not in ascending order, or the model does not have
    them; and ModelError if the layers of the model alternate between full attention and windows.
    """
    config = model.config
    if not layers or sorted(set(layers)) != list(layers) or layers[0] < 0 or layers[-1] >= config.num_layers:
        requested = " ".join(map(str, layers)) or "none"
        problem = f"must be layers from 0 to {config.num_layers - 1} in ascending order, not {requested}"
        raise ConfigError(problem, key="keep_layers")
    if config.global_every > 1:
        problem = f"one layer in {config.global_every} attends to all tokens, so no layer can be removed"
        raise ModelError(problem, where=model.folder, fix="Set `layers` and `hidden_size` instead")
    kept = replace(config, num_layers=len(layers))
    encoder, old_state = build_encoder(kept), model.encoder.state_dict()
    state = encoder.state_dict()
    for name in state:
        source_name = LAYER.sub(lambda match: match[0].replace(match[1], str(layers[int(match[1])])), name, 1)
        state[name] = old_state.get(source_name, state[name])
    encoder.load_state_dict(state)
    return replace(model, encoder=encoder.eval(), config=kept, threshold=DEFAULT_THRESHOLD)


def in_vocabulary(model: Loaded, tokenizer: Tokenizer) -> Loaded | None:
    """Returns the model with the vocabulary of `tokenizer`; None if that is neither its own nor cut from it.

    Heads keep their outputs for its entries.
    """
    if model.tokenizer.digest == tokenizer.digest:
        return model
    original_ids = cut_vocabulary.ids_in_original(tokenizer, model.tokenizer)
    if original_ids is None:
        return None
    return replace(_with_entries(model, original_ids), tokenizer=tokenizer)


def with_vocab_size(model: Loaded, size: int) -> Loaded:
    """Returns the model with a vocabulary of `size` of its entries, for measurements on random ids."""
    return _with_entries(model, np.arange(size) % model.config.vocab_size)


def _with_entries(model: Loaded, ids: Ints) -> Loaded:
    """Returns the model with the entries of these ids only, in their order: tables, output layers, biases."""
    rows, new_ids = torch.from_numpy(ids), {old: new for new, old in reversed([*enumerate(ids.tolist())])}
    config, head = replace(model.config, vocab_size=len(ids)), model.head
    config = replace(config, pad_id=new_ids.get(config.pad_id, 0))

    def filled(new: Any, old: nn.Module) -> Any:
        """Fills a module with another's weights; those that have another size there, with rows of them."""
        state, sizes = old.state_dict(), {name: each.shape for name, each in new.state_dict().items()}
        chosen = {name: each if each.shape == sizes[name] else each[rows] for name, each in state.items()}
        new.load_state_dict(chosen)
        return new.eval()

    settings = json.loads(config.settings or "{}")  # of transformers, which may name special tokens by id
    named = [(key, id_) for key, id_ in settings.items() if key.endswith("_token_id")]
    changes = {key: new_ids[id_] for key, id_ in named if isinstance(id_, int) and id_ in new_ids}
    if settings:
        config = replace(config, settings=json.dumps(settings | changes, sort_keys=True))
    if isinstance(head, PublishedHead):
        whole_config = deepcopy(head.whole.config)
        whole_config.update(changes | {"vocab_size": len(ids), "pad_token_id": config.pad_id})
        whole = filled(type(head.whole)(whole_config), head.whole)
        encoder, head = AdaptedEncoder(config, whole.base_model).eval(), PublishedHead(whole).eval()
    else:
        encoder = filled(build_encoder(config), model.encoder)
        if isinstance(head, GeneratorHead):
            head = filled(GeneratorHead(config, tied=head.weight is None), head)
    return replace(model, encoder=encoder, head=head, config=config)
