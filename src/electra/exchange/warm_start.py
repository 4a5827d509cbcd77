"""Continued pre-training: a run's networks start from the weights of others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from electra.artifacts.model import ModelFolder
from electra.artifacts.run import PairFolder
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import Loaded, load
from electra.exchange.run_folder import PRETRAINED
from electra.exchange.source import locate
from electra.foundation.errors import AbsentNetwork, ModelError
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.modern import ModernEncoder, ProjectedTable
from electra.model.pair import Pair
from electra.model.token_table import DisentangledTable

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer

TOLERANCE = 1e-3  # relative error at which a token table still counts as a projection of another

SIZES_DIFFER = "Choose the model's size, width and depth as the folder has them"


def load_weights_into(
    pair: Pair,
    *,
    discriminator: str | Path | None = None,
    generator: str | Path | None = None,
    tokenizer: Tokenizer | None = None,
) -> tuple[str, ...]:
    """Fill the networks of `pair` from model folders, runs or hub names; one that is not given stays as it
    is.

    Returns notes for the log. `tokenizer` is the run's: a checkpoint that was trained with another is
    refused. What the pair shares comes from the discriminator, when one is given.
    """
    notes: list[str] = []
    judge, writer = pair.named.get("discriminator"), pair.named.get("generator")
    if discriminator is not None:
        if judge is None:
            raise ModelError(
                "this objective has no discriminator to start",
                key="init_discriminator",
                fix="Use `init_generator`" if writer is not None else "Omit the option",
            )
        loaded = load_main(discriminator)
        _check_tokenizer(loaded, tokenizer)
        if isinstance(loaded.head, DiscriminatorHead):
            _copy(judge, loaded, set(), "discriminator")
            notes += _start_naming_head(pair, PairFolder(locate(os.fspath(discriminator))).language_model)
        else:
            notes.append(_start_from_language_model(pair, loaded))
        notes += loaded.notes
    if generator is not None:
        if writer is None:
            raise ModelError(
                "this objective has no generator to start",
                key="init_generator",
                fix="Use `init_discriminator`" if judge is not None else "Omit the option",
            )
        loaded = load(generator, "generator")
        _check_tokenizer(loaded, tokenizer)
        _refuse_untied(loaded)
        kept = _parameters(judge) if discriminator is not None else set()
        judged_by = (
            []
            if discriminator is None
            else [(table, table.weight.detach().clone()) for table in _sums(judge)]
        )
        differing = _copy(writer, loaded, kept, "generator")
        for table, weight in judged_by:  # the generator's table beneath has changed
            table.set_table(weight)
        notes += loaded.notes
        if differing:
            notes.append(
                "shared weights that differ in the two folders: the discriminator's are used"
                f" ({', '.join(differing[:3])}, ...)"
            )
    return tuple(notes)


def start_from(pair: Pair, loaded: Loaded, tokenizer: Tokenizer | None = None) -> tuple[str, ...]:
    """Fill the discriminator of `pair`, or its encoder alone where the model has no such head."""
    _check_tokenizer(loaded, tokenizer)
    if isinstance(loaded.head, DiscriminatorHead):
        _copy(pair.main, loaded, set(), "discriminator")
        return loaded.notes
    return (_start_from_language_model(pair, loaded), *loaded.notes)


def load_main(source: str | Path) -> Loaded:
    """The network that a discriminator can start from: a discriminator, or else a masked language model, or
    else an encoder.
    """
    first: AbsentNetwork | None = None
    for kind in PRETRAINED:
        try:
            return load(source, kind)
        except AbsentNetwork as absent:
            first = first or absent
    assert first is not None
    raise first


@torch.no_grad()
def _start_from_language_model(pair: Pair, loaded: Loaded) -> str:
    """The encoder's weights, and the output layer where the objective keeps one beside the discriminator."""
    _copy(nn.ModuleDict({"encoder": pair.main.encoder}), replace(loaded, head=None), set(), "discriminator")
    _fill_naming_heads(pair, loaded)
    of = " of a masked language model" if isinstance(loaded.head, GeneratorHead) else ""
    return f"the discriminator starts from the encoder{of}"


def _start_naming_head(pair: Pair, folder: ModelFolder) -> list[str]:
    """The output layer of an objective that names as well, where the same encoder was kept as a masked
    language model beside the discriminator. Returns notes for the log.
    """
    if not folder.exists():
        return []
    if any(isinstance(head, GeneratorHead) for head in pair.heads.values()):
        _fill_naming_heads(pair, load(folder.path, "generator"))
        return []
    return ["its masked language model is not trained further; the objective rtd_mlm trains both"]


def _fill_naming_heads(pair: Pair, loaded: Loaded) -> None:
    for head in pair.heads.values():
        if isinstance(head, GeneratorHead) and isinstance(loaded.head, GeneratorHead):
            _refuse_untied(loaded)
            head.load_state_dict(loaded.head.state_dict())


def _refuse_untied(loaded: Loaded) -> None:
    if isinstance(loaded.head, GeneratorHead) and loaded.head.weight is not None:
        what = "its output layer is a table of its own; those trained here share the table of tokens"
        fix = "Start from a masked language model with tie_word_embeddings, or from its encoder alone"
        raise ModelError(what, where=loaded.folder, fix=fix)


def _parameters(network: nn.Module | None) -> set[int]:
    return {id(parameter) for parameter in network.parameters()} if network is not None else set()


def _sums(network: nn.Module | None) -> list[DisentangledTable]:
    return (
        [module for module in network.modules() if isinstance(module, DisentangledTable)]
        if network is not None
        else []
    )


@torch.no_grad()
def _copy(network: nn.Module, loaded: Loaded, kept: set[int], name: str) -> list[str]:
    """Copy weights in. Parameters in `kept` stay; returns the names of those among them that would have
    changed.
    """
    state = exported_weights(loaded.encoder, loaded.head)
    differing = []
    encoder = network.get_submodule("encoder")
    if isinstance(encoder, ModernEncoder) and isinstance(encoder.tokens, ProjectedTable):
        _unfold(encoder.tokens, state.pop("encoder.tokens.weight"), kept, loaded)
    for key, module in network.named_modules():
        if isinstance(module, DisentangledTable):
            _check_shape(f"{key}.weight", state.get(f"{key}.weight"), module.delta, loaded, name)
            module.set_table(state.pop(f"{key}.weight"))
    own = {key: parameter for key, parameter in network.named_parameters() if not _is_made(key, encoder)}
    for key, parameter in own.items():
        _check_shape(key, state.get(key), parameter, loaded, name)
        if id(parameter) not in kept:
            parameter.copy_(state[key])
        elif not torch.equal(parameter.cpu(), state[key]):
            differing.append(key)
    stray = sorted(set(state) - set(own))
    if stray:
        raise ModelError(
            f"tensor {stray[0]} has no place in this run's {name}", where=loaded.folder, fix=SIZES_DIFFER
        )
    return differing


def _check_shape(key: str, there: Tensor | None, here: Tensor, loaded: Loaded, name: str) -> None:
    if there is None:
        raise ModelError(
            f"there is no tensor {key}, which this run's {name} has", where=loaded.folder, fix=SIZES_DIFFER
        )
    if there.shape != here.shape:
        shapes = f"{list(there.shape)} there and {list(here.shape)} in this run's {name}"
        raise ModelError(f"tensor {key} has the shape {shapes}", where=loaded.folder, fix=SIZES_DIFFER)


def _is_made(key: str, encoder: nn.Module) -> bool:
    """Whether a parameter makes a token table together with another network's: it has been dealt with before
    the others.
    """
    projected = (
        isinstance(encoder, ModernEncoder)
        and isinstance(encoder.tokens, ProjectedTable)
        and key.startswith("encoder.tokens.")
    )
    return projected or key in [
        f"encoder.{name}.delta"
        for name, module in encoder.named_modules()
        if isinstance(module, DisentangledTable)
    ]


def _unfold(tokens: ProjectedTable, table_VD: Tensor, kept: set[int], loaded: Loaded) -> None:
    """Find the projection that makes `table_VD` out of the shared table: exported generators hold only their
    product.
    """
    source = tokens.source.weight
    if table_VD.shape != (source.shape[0], tokens.projection.weight.shape[0]):
        needed = [source.shape[0], tokens.projection.weight.shape[0]]
        raise ModelError(
            f"its token table has the shape {list(table_VD.shape)}, not {needed}",
            where=loaded.folder,
            fix=SIZES_DIFFER,
        )
    if id(source) not in kept:
        fix = "Give `init_discriminator` too, or set `model.sharing=none`"
        raise ModelError(
            "this generator's token table is made of its discriminator's", where=loaded.folder, fix=fix
        )
    shared = source.detach().cpu().double()
    solution = torch.linalg.lstsq(shared, table_VD.double()).solution
    error = torch.linalg.norm(shared @ solution - table_VD) / torch.linalg.norm(table_VD)
    if error > TOLERANCE:
        raise ModelError(
            "this generator's token table is no projection of the discriminator's",
            where=loaded.folder,
            fix="Start both networks from one pair, or set `model.sharing=none`",
        )
    tokens.projection.weight.copy_(solution.T)


def _check_tokenizer(loaded: Loaded, tokenizer: Tokenizer | None) -> None:
    if tokenizer is not None and loaded.tokenizer.digest != tokenizer.digest:
        raise ModelError(
            "this model was trained with another tokenizer than the text was encoded with",
            where=loaded.folder,
            fix=f"Prepare the text with its own: electra prepare ... --tokenizer {loaded.folder}",
        )
