"""Warm start: initialises a run's networks from other weights, for continued pre-training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from electra.data.tokenizer import Tokenizer
from electra.exchange.huggingface import exported_weights
from electra.exchange.layers import in_vocabulary, keep_layers
from electra.exchange.load import Loaded, load, load_language_model
from electra.exchange.source import locate
from electra.foundation.errors import ModelError
from electra.model.adapted import PublishedHead
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.modern import ProjectedTable
from electra.model.pair import Pair
from electra.model.token_table import DisentangledTable

PROJECTION_TOLERANCE = 1e-3  # relative error up to which a token table counts as a projection of another
SIZES_DIFFER = "Set the model's size, width and depth to those of the folder"


@dataclass(frozen=True)
class Start:
    """The models that the networks of a run start from (None: random weights), in the run's vocabulary."""

    discriminator: Loaded | None  # which may also be a masked language model or an encoder
    generator: Loaded | None
    language_model: Loaded | None  # that of full size beside the discriminator

    @torch.no_grad()
    def load_into(self, pair: Pair) -> tuple[str, ...]:
        """Copies the weights into the networks of `pair`; what these share is taken from the discriminator.

        Returns notes for the log. Raises ModelError if sizes differ or the objective has no generator.
        """
        notes: list[str] = []
        if self.discriminator is not None:
            notes += [*self._start_discriminator(pair, self.discriminator), *self.discriminator.notes]
        if self.generator is not None:
            if "generator" not in pair.named:
                raise ModelError(
                    "this objective has no generator", key="init", fix="Use `init_discriminator`"
                )
            kept = nn.ModuleList([pair.named["discriminator"]] if self.discriminator is not None else [])
            fixed_ids = {id(parameter) for parameter in kept.parameters()}
            tables = [module for module in kept.modules() if isinstance(module, DisentangledTable)]
            old_tables = [table.weight.detach().clone() for table in tables]
            differing_names = _copy(pair.named["generator"], self.generator, fixed_ids, "generator")
            # The generator's table, which is a summand of these tables, has changed.
            for table, weight in zip(tables, old_tables, strict=True):
                table.set_table(weight)
            notes += self.generator.notes
            if differing_names:
                notes.append(
                    "shared weights differ between the two folders; the discriminator's are used"
                    f" ({', '.join(differing_names[:3])}, ...)"
                )
        return tuple(notes)

    def _start_discriminator(self, pair: Pair, loaded: Loaded) -> list[str]:
        """Copies the encoder, and the heads that both the run and the model (or the one beside it) have."""
        mlm_heads = [head for head in pair.heads.values() if isinstance(head, GeneratorHead)]
        notes, mlm = list[str](), loaded
        if isinstance(loaded.head, DiscriminatorHead):
            _copy(pair.named["discriminator"], loaded, set(), "discriminator")
            mlm = self.language_model or loaded
            if self.language_model is not None and not mlm_heads:
                notes = ["its MLM head is ignored; use the objective rtd_mlm to train it too"]
        else:
            encoder = nn.ModuleDict({"encoder": pair.main.encoder})
            _copy(encoder, replace(loaded, head=None), set(), "discriminator")
            is_mlm = isinstance(loaded.head, GeneratorHead)
            origin = "a masked language model's encoder" if is_mlm else "an encoder"
            notes = [f"the discriminator starts from {origin}"]
        for head in mlm_heads:
            if isinstance(mlm.head, GeneratorHead):
                _require_tied(mlm)
                head.load_state_dict(mlm.head.state_dict())
        return notes


def open_start(
    discriminator: str | Path | None = None,
    generator: str | Path | None = None,
    tokenizer: Tokenizer | None = None,
    layers: Sequence[int] | None = None,
) -> Start:
    """Loads what a run starts from: model folders, runs or hub names.

    A masked language model beside the discriminator is loaded too, and only the `layers` of the discriminator
    are used. Models whose vocabulary the `tokenizer`'s was cut from get that vocabulary. Raises ModelError if
    tokenizers differ otherwise, or a generator's head belongs to another library.
    """
    main = auxiliary = language_model = None
    if discriminator is not None:
        loaded = load(discriminator, "encoder")
        main = _fitted(loaded if layers is None else keep_layers(loaded, layers), tokenizer)
        beside = load_language_model(locate(os.fspath(discriminator)))
        language_model = None if beside is None else _fitted(beside, tokenizer)
    if generator is not None:
        auxiliary = load(generator, "generator")
        if isinstance(auxiliary.head, PublishedHead):
            problem = (
                "the head of a masked language model that runs through transformers is not trained further"
            )
            fix = "Start from its encoder, with an objective that has a discriminator: `init_discriminator`"
            raise ModelError(problem, where=auxiliary.folder, fix=fix)
        _require_tied(auxiliary)
        auxiliary = _fitted(auxiliary, tokenizer)
    return Start(main, auxiliary, language_model)


def _fitted(loaded: Loaded, tokenizer: Tokenizer | None) -> Loaded:
    """Returns the model in the vocabulary of `tokenizer`, which must be its own or cut from it."""
    fitted = loaded if tokenizer is None else in_vocabulary(loaded, tokenizer)
    if fitted is None:
        problem = "its tokenizer is not the one with which the text was encoded"
        fix = f"Prepare the text with this one: electra prepare ... --tokenizer {loaded.folder}"
        raise ModelError(problem, where=loaded.folder, fix=fix)
    return fitted


def _require_tied(loaded: Loaded) -> None:
    if isinstance(loaded.head, GeneratorHead) and loaded.head.weight is not None:
        problem = "its output layer is not its token table; models trained here use one table for both"
        fix = "Start from a masked language model with tie_word_embeddings, or from its encoder alone"
        raise ModelError(problem, where=loaded.folder, fix=fix)


def _copy(network: nn.Module, loaded: Loaded, fixed: set[int], name: str) -> list[str]:
    """Copies weights into `network`, except into the parameters whose `id` is in `fixed`.

    Returns the names of fixed parameters whose values differ from the loaded ones.
    """
    state = exported_weights(loaded.encoder, loaded.head)
    differing_names = []
    derived: tuple[str, ...] = ()  # tables that are derived from another network's
    for key, module in network.named_modules():
        if isinstance(module, DisentangledTable | ProjectedTable):
            derived, table = (*derived, f"{key}."), state.pop(f"{key}.weight", None)
            if isinstance(module, ProjectedTable):
                shape = [len(module.source.weight), len(module.projection.weight)]
                _solve_projection(
                    module, _checked(f"{key}.weight", table, shape, loaded, name), fixed, loaded
                )
            else:
                module.set_table(_checked(f"{key}.weight", table, module.delta.shape, loaded, name))
    named = network.named_parameters()
    parameters = {key: parameter for key, parameter in named if not key.startswith(derived)}
    for key, parameter in parameters.items():
        _checked(key, state.get(key), parameter.shape, loaded, name)
        if id(parameter) not in fixed:
            parameter.copy_(state[key])
        elif not torch.equal(parameter.cpu(), state[key]):
            differing_names.append(key)
    if unknown := sorted(set(state) - set(parameters)):
        problem = f"this run's {name} has no parameter for tensor {unknown[0]}"
        raise ModelError(problem, where=loaded.folder, fix=SIZES_DIFFER)
    return differing_names


def _checked(key: str, tensor: Tensor | None, shape: Sequence[int], loaded: Loaded, name: str) -> Tensor:
    if tensor is None or list(tensor.shape) != list(shape):
        found = "missing" if tensor is None else f"of the shape {list(tensor.shape)}"
        problem = f"tensor {key} is {found}; this run's {name} needs {list(shape)}"
        raise ModelError(problem, where=loaded.folder, fix=SIZES_DIFFER)
    return tensor


def _solve_projection(tokens: ProjectedTable, table_VD: Tensor, fixed: set[int], loaded: Loaded) -> None:
    """Sets the projection that turns the shared table into `table_VD`: an export has only the product."""
    source = tokens.source.weight
    if id(source) not in fixed:
        problem = "this generator's token table is a projection of its discriminator's"
        fix = "Set `init_discriminator` too, or `model.sharing=none`"
        raise ModelError(problem, where=loaded.folder, fix=fix)
    shared_table = source.detach().cpu().double()
    solution = torch.linalg.lstsq(shared_table, table_VD.double()).solution
    relative_error = torch.linalg.norm(shared_table @ solution - table_VD) / torch.linalg.norm(table_VD)
    if relative_error > PROJECTION_TOLERANCE:
        problem = "this generator's token table is not a projection of the discriminator's"
        fix = "Start both networks from one pair, or set `model.sharing=none`"
        raise ModelError(problem, where=loaded.folder, fix=fix)
    tokens.projection.weight.copy_(solution.T)
