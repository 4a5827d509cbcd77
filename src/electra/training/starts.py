"""What a run starts from: the models of its networks and its teacher, each opened once.

`open_starts` opens them, `Starts.fitted` gives them the vocabulary of the store, `Starts.load_into`
copies their weights into the networks of the run. Nobody else opens them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from electra.artifacts.network_names import EXPORTED
from electra.data.corpus.store import RANDOM, TokenStore
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.huggingface import exported_weights
from electra.exchange.layers import in_vocabulary, keep_layers, with_vocab_size
from electra.exchange.load import Loaded, load, load_language_model
from electra.exchange.pooling import MEAN, TextVector
from electra.exchange.run_folder import holds_networks, network_kinds
from electra.exchange.source import locate
from electra.foundation.errors import ConfigError, ModelError
from electra.foundation.options import Source, optional_name
from electra.model.adapted import PublishedHead
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.modern import ProjectedTable
from electra.model.networks import Network, Networks
from electra.model.pair import Pair
from electra.model.sizes import EncoderConfig
from electra.model.token_table import DisentangledTable
from electra.objectives import module_of
from electra.training.recipe import ModelSection

PROJECTION_TOLERANCE = 1e-3  # relative error up to which a token table counts as a projection of another
SIZES_DIFFER = "Set the model's size, width and depth to those of the folder"
_CUT = re.compile(r"(.*)\[(\d+(?:,\d+)*)\]", re.DOTALL)


# Which models


def initial_models(
    objective: Mapping[str, Any], init: Source | None, discriminator: Source | None
) -> tuple[str | None, str | None]:
    """Returns the models that the discriminator and the generator start from (None: random weights).

    `init` names both. Raises ConfigError if both are passed or the `objective` (a recipe's section) trains no
    discriminator, and ModelError if there is no such model.
    """
    trains_discriminator = main_network(objective) == EXPORTED[0]
    if discriminator is not None and init is not None:
        raise ConfigError("both it and `init_discriminator` were passed", key="init", fix="Pass one of them")
    if discriminator is not None and not trains_discriminator:
        problem = f"the objective {objective.get('name')} trains no discriminator"
        raise ConfigError(problem, key="init_discriminator", fix="Use `init`")
    name = optional_name(init)
    if name is None or not trains_discriminator:
        return optional_name(discriminator), name
    path = locate(name)
    has_both = holds_networks(path) and set(network_kinds(path)) >= set(EXPORTED)
    return name, name if has_both else None


def main_network(objective: Mapping[str, Any]) -> str:
    """Returns the name of the network that an objective (a recipe's section) trains."""
    return str(module_of(str(objective.get("name", "rtd"))).Objective.main)


def split_layers(name: str) -> tuple[str, list[int] | None]:
    """Splits a name such as tiny-en[0,2] into the model and the layers to use (None: all)."""
    match = _CUT.fullmatch(name)
    return (match[1], [int(number) for number in match[2].split(",")]) if match else (name, None)


# The models


@dataclass(frozen=True)
class Starts:
    """The models that a run starts from; without any, its networks start from random weights.

    Attributes:
        names: The source of each network that starts from one, by the network's name.
        shapes: The shape of each such network.
        models: What each such network starts from, by its name (of the discriminator: any encoder, with its
            head), and as `language_model` the masked language model of full size beside the discriminator.
        encoders: The opened encoders by source, the teacher among them.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, EncoderConfig] = field(default_factory=dict)
    models: Mapping[str, Loaded] = field(default_factory=dict)
    encoders: Mapping[str, Loaded] = field(default_factory=dict)

    def text_vector(self, network: str) -> TextVector:
        """Returns how the model that a network starts from turns a text into a vector (default: the mean)."""
        return self.models[network].text_vector if network in self.models else MEAN

    def fitted(self, tokenizer: Tokenizer) -> Self:
        """Returns the models with the vocabulary of `tokenizer`, which must be theirs or cut from theirs.

        Raises ModelError for any other tokenizer. The teacher is fitted when it becomes a network.
        """
        models = {name: _fitted(each, tokenizer) for name, each in self.models.items()}
        rates = {name: (shape.dropout, shape.attention_dropout) for name, shape in self.shapes.items()}
        shapes = {name: _with_dropout(models[name].config, *each) for name, each in rates.items()}
        return replace(self, models=models, shapes=shapes)

    @torch.no_grad()
    def load_into(self, pair: Pair) -> tuple[str, ...]:
        """Copies the weights into the networks of `pair`; what these share is taken from the discriminator.

        Returns notes for the log. Raises ModelError if sizes differ or the objective has no generator.
        """
        notes: list[str] = []
        discriminator, generator = (self.models.get(name) for name in EXPORTED)
        if discriminator is not None:
            notes += [*self._start_discriminator(pair, discriminator), *discriminator.notes]
        if generator is not None:
            if "generator" not in pair.named:
                fix = "Use `init_discriminator`"
                raise ModelError("this objective has no generator", key="init", fix=fix)
            kept = nn.ModuleList([pair.named["discriminator"]] if discriminator is not None else [])
            fixed_ids = {id(parameter) for parameter in kept.parameters()}
            tables = [module for module in kept.modules() if isinstance(module, DisentangledTable)]
            old_tables = [table.weight.detach().clone() for table in tables]
            differing_names = _copy(pair.named["generator"], generator, fixed_ids, "generator")
            # The generator's table, which is a summand of these tables, has changed.
            for table, weight in zip(tables, old_tables, strict=True):
                table.set_table(weight)
            notes += generator.notes
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
            mlm = self.models.get("language_model", loaded)
            if mlm is not loaded and not mlm_heads:
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


def open_starts(
    main: str | None = None,
    generator: str | None = None,
    model: ModelSection = ModelSection(),  # noqa: B008
    teacher: str = "",
) -> Starts:
    """Opens what a run starts from: model folders, runs or hub names, and a teacher ("": none).

    Of `main` there may be only some layers (`split_layers`). A masked language model beside it is opened,
    too. The networks get the dropout rates of `model`. Raises ModelError if there is no such model, or a
    generator's head belongs to another library.
    """
    source, layers = split_layers(main) if main else (None, None)
    encoders = {name: load(name, "encoder") for name in dict.fromkeys((teacher, source)) if name}
    models, rates = dict[str, Loaded](), (model.dropout, model.attention_dropout)
    if source:
        whole = encoders[source]
        models["discriminator"] = whole if layers is None else keep_layers(whole, layers)
    if generator:
        models["generator"] = auxiliary = load(generator, "generator")
        if isinstance(auxiliary.head, PublishedHead):
            why = "the head of a masked language model that runs through transformers is not trained further"
            fix = "Start from its encoder, with an objective that has a discriminator: `init_discriminator`"
            raise ModelError(why, where=auxiliary.folder, fix=fix)
        _require_tied(auxiliary)
    named = zip(EXPORTED, (main, generator), strict=True)
    names: dict[str, str] = {network: name for network, name in named if name}
    shapes = {name: _with_dropout(loaded.config, *rates) for name, loaded in models.items()}
    if source and (language_model := load_language_model(locate(source))) is not None:
        models["language_model"] = language_model
    return Starts(names, shapes, models, {teacher: encoders[teacher]} if teacher else {})


def open_frozen(
    networks: Networks, store: TokenStore, encoders: Mapping[str, Loaded]
) -> tuple[Networks, dict[str, Loaded]]:
    """Opens the frozen encoders that are not in `encoders`; returns the table with their shapes, and them.

    They must have been trained with the store's tokenizer, or have a larger vocabulary from which the store's
    was cut; then only the rows of their tables for the store's entries are used. With a store of random ids,
    they get tables of that size. Raises ConfigError if a frozen network has no source, and ModelError if a
    network cannot be opened, or was trained with another tokenizer.
    """
    opened = {row.name: _frozen(row, store, encoders) for row in networks.frozen}
    shapes = {name: loaded.config for name, loaded in opened.items()}
    rows = [replace(row, shape=shapes.get(row.name, row.shape)) for row in networks.rows]
    return Networks.in_order(rows), opened


def _frozen(row: Network, store: TokenStore, encoders: Mapping[str, Loaded]) -> Loaded:
    if not row.source:
        problem = "required: a run, a model folder or a hub name"
        raise ConfigError(problem, key=f"objective.{row.name}")
    loaded = encoders.get(row.source) or load(row.source, "encoder")
    if store.tokenizer_digest == RANDOM:
        return with_vocab_size(loaded, store.vocab_size)
    return _fitted(loaded, store.tokenizer, row.source)


def _with_dropout(config: EncoderConfig, dropout: float, attention: float) -> EncoderConfig:
    return replace(config, dropout=dropout, attention_dropout=attention)


def _fitted(loaded: Loaded, tokenizer: Tokenizer, name: str = "") -> Loaded:
    """Returns the model `name` in the vocabulary of `tokenizer`, which must be its own or cut from it."""
    fitted = in_vocabulary(loaded, tokenizer)
    if fitted is None:
        problem = "its tokenizer is not the one with which the text was encoded"
        fix = f"Prepare the text with this one: electra prepare ... --tokenizer {name or loaded.folder}"
        raise ModelError(problem, where=loaded.folder, fix=fix)
    return fitted


def _require_tied(loaded: Loaded) -> None:
    if isinstance(loaded.head, GeneratorHead) and loaded.head.weight is not None:
        problem = "its output layer is not its token table; models trained here use one table for both"
        fix = "Start from a masked language model with tie_word_embeddings, or from its encoder alone"
        raise ModelError(problem, where=loaded.folder, fix=fix)


def _copy(network: nn.Module, loaded: Loaded, fixed: set[int], name: str) -> list[str]:
    """Copies weights, except into `fixed` parameters (by `id`); returns the names of those that differ."""
    state = exported_weights(loaded.encoder, loaded.head)
    differing_names = []
    derived: tuple[str, ...] = ()  # tables that are derived from another network's
    for key, module in network.named_modules():
        if isinstance(module, DisentangledTable | ProjectedTable):
            derived, table = (*derived, f"{key}."), state.pop(f"{key}.weight", None)
            if isinstance(module, ProjectedTable):
                shape = [len(module.source.weight), len(module.projection.weight)]
                checked = _checked(f"{key}.weight", table, shape, loaded, name)
                _solve_projection(module, checked, fixed, loaded)
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
