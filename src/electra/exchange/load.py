"""Loads a model from a run, an exported or published folder, or a name on the hub."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from electra.artifacts.finetuning import FinetuningFolder
from electra.artifacts.model import (
    CONFIG,
    HEAD,
    OTHER_WEIGHTS,
    SHARDS,
    SHARED_DIGEST,
    SHARED_TENSORS,
    WEIGHTS,
    ModelFolder,
    Pooling,
)
from electra.artifacts.run import PairFolder, RunFolder
from electra.data.tokenizer import Tokenizer
from electra.exchange import run_folder, weight_names
from electra.exchange.configs import CLASSES, DEFAULT_THRESHOLD, LOG_ODDS, FolderConfig, read_config
from electra.exchange.pooling import TextVector, read_text_vector, transformer_folder
from electra.exchange.quantized import dequantize
from electra.exchange.source import locate
from electra.exchange.weight_names import TUNED, Kind
from electra.exchange.weights import (
    digest,
    read_safetensors,
    read_shards,
    recorded_digest,
    require_numbers,
)
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, DamagedModel, ModelError
from electra.foundation.terminal_text import plural
from electra.model.adapted import PublishedHead
from electra.model.encoder import Encoder
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.pair import EncoderAlone, build_encoder
from electra.model.precision import finite
from electra.model.sizes import EncoderConfig

SAVING = "the run is still being saved: some of its networks are not there yet"
OWN_TOKENIZER = "Copy the tokenizer that the model was published with into the folder"
FEWEST = 0.5  # share of a model's embeddings that its tokenizer must name
PADDING = 128  # to a multiple of this, and no further, vocabularies are padded
KIND_PHRASES: dict[Kind, str] = {
    "discriminator": "a discriminator",
    "generator": "a generator (a masked language model)",
    "classifier": "a fine-tuned classifier",
    "tagger": "a fine-tuned tagger",
    "reader": "a fine-tuned reader",
}


@dataclass(frozen=True)
class Loaded:
    """A model ready for use: fp32, evaluation mode."""

    encoder: Encoder
    # None for an encoder without a head, and for a fine-tuned head, whose parameters are in `head_weights`
    # unless transformers runs it
    head: nn.Module | None
    config: EncoderConfig
    tokenizer: Tokenizer
    kind: Kind
    labels: tuple[str, ...]
    # the model folder, or the newest checkpoint that was used
    folder: Path
    head_weights: dict[str, Tensor] = field(default_factory=dict, repr=False)
    # lines for the user, for example about unused weights
    notes: tuple[str, ...] = ()
    # how token states become one vector of the text; for a classifier, the pooling of its head
    pooling: Pooling = "mean"
    # pooling and all further steps, as sentence-transformers stores them
    text_vector: TextVector = field(default_factory=TextVector)
    # meaning of a discriminator's logits: log-odds of "replaced", or energies
    output: str = LOG_ODDS
    # lowest P(replaced) at which `detect` marks a word
    threshold: float = DEFAULT_THRESHOLD

    def to(self, device: torch.device | str) -> Loaded:
        """Moves the weights in place and returns the model."""
        self.encoder.to(device)
        if self.head is not None:
            self.head.to(device)
        return self

    @property
    def device(self) -> torch.device:
        """The device of the encoder's weights."""
        return next(self.encoder.parameters()).device

    def logits(self, input_ids: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Returns a discriminator's logits [B, T] or a generator's [B, T, V], on the model's device.

        `input_ids` and `document_ids` are [B, T]; the latter are those of `Encoder.forward`.
        """
        document_ids = None if document_ids is None else document_ids.to(self.device)
        hidden = self.encoder(input_ids.to(self.device), document_ids=document_ids)
        if self.kind == "generator":
            return self.token_logits(hidden)
        assert self.head is not None
        return finite(self.head(hidden))

    def token_logits(self, hidden: Tensor) -> Tensor:
        """Returns a generator's logits [..., V] for hidden states [..., D].

        V is the size of the tokenizer's vocabulary; further rows of the token table are left out.
        """
        assert self.head is not None
        return finite(self.head(hidden, self.encoder.token_table()))[..., : self.tokenizer.vocab_size]


def load(source: str | Path, network: Kind = "discriminator", *, step: int | None = None) -> Loaded:
    """Loads a network from a run folder, a model folder or a name on the hub.

    Without `step`, a run's finished network is loaded, or its newest intact checkpoint.

    Args:
        source: a path or a name.
        network: the kind of network. "encoder" accepts any model; for a run, it means the discriminator, or
            the generator if there is no discriminator.
        step: the step of a run's checkpoint.

    Raises:
        AbsentNetwork: the model has no such network.
        ModelError: the model is missing, damaged or not supported, or is not a run although `step` is
            given.
        ElectraError: the run, its checkpoint or the tokenizer is missing or damaged.

    Warns:
        DamagedModel: other files of the model changed since it was saved, or damaged checkpoints were
            skipped.
    """
    path = locate(source)
    if step is not None and not RunFolder.is_at(path):
        problem = "not a run folder, so there are no checkpoints to choose from"
        raise ModelError(problem, where=path, fix="Omit `step`")
    tuned = FinetuningFolder(path).model
    if network == "encoder" and FinetuningFolder.is_at(path) and tuned.exists():
        return load_folder(tuned.path, network)
    if not run_folder.holds_networks(path):
        return load_folder(path, network)
    finished = None if step is not None else run_folder.finished_network(path, network)
    if finished is not None:
        loaded = load_folder(finished, network)
        if RunFolder.is_at(path) and not RunFolder(path).examples.exists():
            return replace(loaded, notes=(SAVING, *loaded.notes))
        return loaded
    opened = run_folder.open_checkpoint(path, network, step)
    for problem in opened.notes:
        warnings.warn(problem, DamagedModel, stacklevel=2)
    module = opened.network
    return Loaded(
        module.encoder,
        None if isinstance(module, EncoderAlone) else module.head,
        module.encoder.config,
        opened.tokenizer,
        opened.kind,
        (),
        opened.checkpoint.path,
        pooling=opened.text_vector.pooling,
        text_vector=opened.text_vector,
        notes=()
        if step is not None
        else (f"the run has not ended; this is step {opened.checkpoint.step:,}",),
        output=opened.output,
    )


def load_language_model(path: Path) -> Loaded | None:
    """Loads the full-size masked language model of the run or pair at `path`; None if there is none."""
    folder = PairFolder(path).language_model
    return load_folder(folder.path, "generator") if folder.exists() else None


def load_main(source: str | Path) -> Loaded:
    """Loads a network from which a discriminator can start.

    This is the discriminator if the source has one, otherwise the masked language model or the encoder.
    Raises the errors of `load`.
    """
    errors = []
    for kind in run_folder.PRETRAINED:
        try:
            return load(source, kind)
        except AbsentNetwork as absent:
            errors.append(absent)
    raise errors[0]


def load_folder(folder: Path, network: Kind = "discriminator") -> Loaded:
    """Loads a folder in the format of transformers or sentence-transformers: see `load`."""
    return durable.read_together(folder, lambda: _load_folder(folder, network))


def _load_folder(folder: Path, network: Kind) -> Loaded:
    described = read_text_vector(folder)
    folder = transformer_folder(folder)
    model, folder_config = ModelFolder(folder), read_config(folder)
    config = folder_config.encoder
    weights = read_tensors(folder)
    if (sibling := model.shares_encoder_with) is not None:
        weights = _shared_tensors(model, sibling, config.architecture) | weights
    require_numbers(weights, folder)
    head_weights: dict[str, Tensor] = {}
    if config.settings:
        from electra.exchange import adapted

        kind = folder_config.kind if network == "encoder" else network
        if kind not in ("encoder", folder_config.kind):
            raise _absent(folder_config.kind, network, config.architecture, folder)
        encoder, head, unused_names = adapted.read_networks(
            weights, config, kind, folder_config.labels, folder
        )
        own_notes: tuple[str, ...] = (adapted.NOTE,)
    else:
        kind, encoder, head, head_weights, unused_names = _own_networks(
            weights, folder_config, network, folder
        )
        own_notes = ()
    text_vector = described or TextVector(folder_config.pooling if kind == "classifier" else "mean")
    text_vector.check(config.hidden_size, folder)
    outputs = len(head_weights.get("output.bias", ()))
    if kind in TUNED and isinstance(head, PublishedHead):
        outputs = head.whole.config.num_labels
    labels = folder_config.labels or tuple(f"LABEL_{i}" for i in range(outputs))
    if kind in ("classifier", "tagger") and len(labels) != outputs:
        raise ModelError(
            f"{plural(len(labels), 'label')}, but the head has {plural(outputs, 'output')}",
            where=folder / CONFIG,
            key="id2label",
            fix="Name one label for each output",
        )
    for name, problem in model.changed_files().items():
        if name == HEAD and (folder / HEAD).is_file():
            raise ModelError(problem, where=folder, fix="Download or export the model again")
        warnings.warn(f"{folder}: {problem}: see electra verify", DamagedModel, stacklevel=2)
    tokenizer = Tokenizer.load(sibling or folder)
    require_entries(tokenizer, config, folder)
    notes = _notes_on_ids(model, tokenizer)
    if tokenizer.vocab_size < 0.99 * config.vocab_size - PADDING:
        sizes = f"{tokenizer.vocab_size:,} entries for {config.vocab_size:,} embeddings"
        notes = (f"the tokenizer has {sizes}: check that it is the model's", *notes)
    if unused_names:
        unused_names = [name.removeprefix(weight_names.FOREIGN) for name in unused_names]
        examples = f"{', '.join(unused_names[:3])}{', ...' if len(unused_names) > 3 else ''}"
        notes = (f"not used: {plural(len(unused_names), 'other tensor')} ({examples})", *notes)
    notes = (*own_notes, *notes)
    return Loaded(
        encoder,
        head,
        config,
        tokenizer,
        kind,
        labels,
        folder,
        head_weights,
        notes,
        folder_config.pooling if kind == "classifier" else text_vector.pooling,
        text_vector,
        folder_config.output,
        folder_config.threshold,
    )


def require_entries(tokenizer: Tokenizer, config: EncoderConfig, folder: Path) -> None:
    """Raises ModelError if the tokenizer has entries that the model has not, or too few to be the model's."""
    size, rows = tokenizer.vocab_size, config.vocab_size
    if size > rows or size < FEWEST * rows:
        problem = f"the tokenizer has {size:,} entries, but the model has {rows:,}"
        raise ModelError(problem, where=folder, fix=OWN_TOKENIZER)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Reads the weights of a folder, which must be safetensors. Raises ModelError."""
    model = ModelFolder(folder)
    if (path := model.weights).is_file():
        tensors = read_safetensors(path)
        return dequantize(tensors, path) if model.holds_integers else tensors
    if (index := folder / SHARDS).is_file():
        return read_shards(index)
    others = [name for name in OTHER_WEIGHTS if (folder / name).is_file()]
    fix = "Pass a folder that contains weights"
    if others:
        fix = f"Convert {others[0]} to safetensors with transformers, or with examples/from_pickle.py"
    elif model.graphs:
        fix += ", or use `backend=onnx` to run its ONNX graph"
    raise ModelError(f"no {WEIGHTS}", where=folder, fix=fix)


def shared_digest(encoder: Mapping[str, Tensor], tokenizer: Tokenizer) -> str:
    """Returns the digest that identifies what a network uses of its sibling: tensors and tokenizer."""
    return f"{digest(encoder)} {tokenizer.digest}"


def _shared_tensors(model: ModelFolder, sibling: Path, architecture: str) -> dict[str, Tensor]:
    """Returns the tensors that a model reads from the folder beside it."""
    names = model.record.get(SHARED_TENSORS)
    shared = {
        name: tensor
        for name, tensor in read_tensors(sibling).items()
        if (name in names if isinstance(names, list) else name.startswith(weight_names.PREFIX[architecture]))
    }
    saved_digest = recorded_digest(model.weights, SHARED_DIGEST)
    if saved_digest not in (None, shared_digest(shared, Tokenizer.load(sibling))):
        problem = f"this belongs to another encoder or tokenizer than those in {sibling.name}/"
        raise ModelError(problem, where=model.path, fix="Copy both folders from the same model")
    return shared


def _own_networks(
    weights: Mapping[str, Tensor], folder_config: FolderConfig, network: Kind, folder: Path
) -> tuple[Kind, Encoder, nn.Module | None, dict[str, Tensor], list[str]]:
    """Returns the kind, the encoder, its pre-training head, a fine-tuned head's weights, and unused names."""
    config = folder_config.encoder
    tensors = weight_names.normalise_names(
        weights, config.architecture, folder_config.position_offset, folder_config.kind
    )
    if not folder_config.decoder_bias and folder_config.kind == "generator":
        tensors = {weight_names.MODERN_BIAS: torch.zeros(config.vocab_size)} | tensors
    kind = _choose_kind(folder_config, set(tensors), network, folder)
    encoder, head, unused_names = _networks(tensors, folder_config, config, kind, folder)
    head_weights: dict[str, Tensor] = {}
    if head is None and kind != "encoder":
        head_weights, used = weight_names.finetuned_head(tensors, config.architecture, kind)
        unused_names = [name for name in unused_names if name not in used]
    if of_encoder := [n for n in unused_names if n.startswith(weight_names.PREFIX[config.architecture])]:
        more = f" and {len(of_encoder) - 1} more" if of_encoder[1:] else ""
        problem = f"the encoder in config.json has no parameter for tensor {of_encoder[0]}{more}"
        raise ModelError(problem, where=folder, fix=weight_names.CHECK_CONFIG)
    return kind, encoder, head, head_weights, unused_names


def _networks(
    tensors: Mapping[str, Tensor],
    folder_config: FolderConfig,
    config: EncoderConfig,
    kind: Kind,
    folder: Path,
) -> tuple[Encoder, nn.Module | None, list[str]]:
    """Returns the encoder and its pre-training head with their weights, and the names of unused tensors."""
    # As in transformers, weights that contain both a table and an output layer override config.json.
    table, decoder = weight_names.table_and_decoder(tensors, config.architecture)
    is_tied = folder_config.is_tied
    if table is not None and decoder is not None:
        is_tied = torch.equal(table, decoder)

    def build() -> nn.ModuleDict:
        modules: dict[str, nn.Module] = {"encoder": build_encoder(config)}
        if kind == "discriminator":
            modules["head"] = DiscriminatorHead(config)
        elif kind == "generator":
            modules["head"] = GeneratorHead(config, tied=is_tied)
        return nn.ModuleDict(modules)

    if config.num_layers > len(tensors):
        problem = f"config.json describes {config.num_layers} layers, but the weights have fewer"
        raise ModelError(problem, where=folder)
    with torch.device("meta"):  # names and shapes are compared before memory is allocated
        template = build().state_dict()
    state, unused = weight_names.from_transformers(tensors, template, config.architecture, kind, folder)
    modules = build().eval()
    modules.load_state_dict(state)
    encoder = modules["encoder"]
    assert isinstance(encoder, Encoder)
    return encoder, next((modules[name] for name in modules if name == "head"), None), unused


def _choose_kind(folder_config: FolderConfig, tensors: set[str], network: Kind, folder: Path) -> Kind:
    """Returns the kind of head to load: `network`, unless that is "encoder".

    For "encoder", it is the kind in config.json if the weights have it, or their only kind, or "encoder".
    """
    architecture = folder_config.encoder.architecture
    present = weight_names.kinds_in(tensors, architecture, folder_config.kind)
    if network == "encoder":
        kind = folder_config.kind if folder_config.kind in present else "encoder"
        return present[0] if kind == "encoder" and len(present) == 1 else kind  # old ones name no class
    if network in present:
        return network
    raise _absent(present[0] if present else "encoder", network, architecture, folder)


def _absent(present: Kind, network: Kind, architecture: str, folder: Path) -> AbsentNetwork:
    phrase = KIND_PHRASES.get(present, "an encoder without a head")
    named = ModelFolder(folder).record.get("architectures")  # such as BERT's class
    class_name = str(named[0]) if isinstance(named, list) and named else CLASSES[architecture][present]
    return AbsentNetwork(
        f"this is {phrase} ({class_name}), not {KIND_PHRASES[network]}",
        where=folder,
        fix=f"Pass the folder of {KIND_PHRASES[network]}",
    )


def _notes_on_ids(folder: ModelFolder, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Returns a note for each special token whose id in config.json is not the tokenizer's."""
    keys = {"cls": ("cls_token_id", "bos_token_id"), "sep": ("sep_token_id", "eos_token_id")}
    return tuple(
        f"{CONFIG} sets {key} to {configured_id}; the tokenizer's id, {id_}, is used"
        for role, id_ in tokenizer.specials._asdict().items()
        for key in keys.get(role, (f"{role}_token_id",))
        if isinstance(configured_id := folder.record.get(key), int) and configured_id != id_
    )
