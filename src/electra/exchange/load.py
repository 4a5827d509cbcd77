"""Any model this project can use, from wherever it is: a run, an exported or published folder, a name on the
hub.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from electra.artifacts.model import (
    CONFIG,
    HEAD,
    OTHER_WEIGHTS,
    PICKLE,
    SHARDS,
    SHARED_DIGEST,
    WEIGHTS,
    ModelFolder,
    Pooling,
)
from electra.artifacts.run import PairFolder, RunFolder
from electra.data.tokenizer import Tokenizer
from electra.exchange import names, run_folder
from electra.exchange.configs import CLASSES, HALF, LOG_ODDS, FolderConfig, read_config
from electra.exchange.names import Kind
from electra.exchange.pooling import TextVector, read_text_vector, transformer_folder
from electra.exchange.source import locate
from electra.exchange.weights import (
    digest,
    read_safetensors,
    read_shards,
    recorded_digest,
    refuse_broken,
    refuse_other_types,
)
from electra.foundation.errors import AbsentNetwork, Damaged, ModelError
from electra.model.encoder import Encoder
from electra.model.heads import HEADS, GeneratorHead
from electra.model.pair import build_encoder
from electra.model.sizes import EncoderConfig

_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
NEEDS: dict[Kind, str] = {
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
    # None for a bare encoder, and for a fine-tuned head: `head_weights` holds that one's parameters
    head: nn.Module | None
    config: EncoderConfig
    tokenizer: Tokenizer
    kind: Kind
    labels: tuple[str, ...]
    folder: Path
    head_weights: dict[str, Tensor] = field(default_factory=dict, repr=False)
    # what the user may want to know: weights that were not used, say
    notes: tuple[str, ...] = ()
    # what stands for a whole text: the mean of all tokens, or the state at [CLS], about which replaced token
    # detection never asks; of a classifier: what its head reads
    pooling: Pooling = "mean"
    # all that makes a text's vector, where the folder says more than a pooling
    text_vector: TextVector = field(default_factory=TextVector)
    # of a discriminator: whether its logits are log-odds of "replaced" or energies
    output: str = LOG_ODDS
    # of what `detect` asks: P(replaced) from which a word is marked
    threshold: float = HALF
    # the steps of the checkpoints whose mean these weights are; empty where they are not a mean
    averaged: tuple[int, ...] = ()

    def to(self, device: torch.device | str) -> Loaded:
        """The same model, its weights moved."""
        self.encoder.to(device)
        if self.head is not None:
            self.head.to(device)
        return self

    @property
    def device(self) -> torch.device:
        return next(self.encoder.parameters()).device

    def logits(self, input_ids: Tensor, piece_ids: Tensor | None = None) -> Tensor:
        """The discriminator's log-odds [B, T], or the generator's token logits [B, T, V]; on the model's
        device.
        """
        pieces = None if piece_ids is None else piece_ids.to(self.device)
        hidden = self.encoder(input_ids.to(self.device), piece_ids=pieces)
        if self.kind == "generator":
            return self.token_logits(hidden)
        assert self.head is not None
        return torch.as_tensor(self.head(hidden))

    def token_logits(self, hidden: Tensor) -> Tensor:
        """The generator's logits [..., V] at hidden states [..., D], of the tokenizer's V tokens: a table may
        have more rows than that.
        """
        assert self.head is not None
        return torch.as_tensor(self.head(hidden, self.encoder.token_table()))[
            ..., : self.tokenizer.vocab_size
        ]


def load(
    source: str | Path,
    network: Kind = "discriminator",
    *,
    step: int | None = None,
    average: int | None = None,
    allow_pickle: bool = False,
) -> Loaded:
    """The network wanted out of a run folder, a model folder or a model on the hub.

    "encoder" takes whatever there is (of a run: the discriminator's encoder, or the generator's when it has
    none). `step` picks a checkpoint of a run, and `average` takes the mean of its last so many, up to `step`
    where that is given; otherwise the finished network counts, or the newest checkpoint that verifies. Warns
    (Damaged) of files beside the weights that changed since they were saved, and of checkpoints that were
    passed over.
    """
    path = locate(source, allow_pickle=allow_pickle)
    options = [name for name, value in (("step", step), ("average", average)) if value is not None]
    if options and not RunFolder.is_at(path):
        raise ModelError(
            "not a run folder, so there are no checkpoints to choose from",
            where=path,
            fix=f"Leave {' and '.join(f'`{name}`' for name in options)} out",
        )
    if not run_folder.holds_networks(path):
        return load_folder(path, network, allow_pickle=allow_pickle)
    finished = None if options else run_folder.finished_network(path, network)
    if finished is not None:
        return load_folder(finished, network)
    opened = run_folder.open_checkpoint(path, network, step, average)
    encoder, head = opened.network.encoder, opened.network.head
    for problem in opened.damage:
        warnings.warn(problem, Damaged, stacklevel=2)
    steps = tuple(checkpoint.step for checkpoint in opened.checkpoints)
    averaged = steps if len(steps) > 1 else ()
    notes = (f"the mean of the checkpoints of steps {', '.join(map(str, steps))}",) if averaged else ()
    found = (encoder, head, encoder.config, opened.tokenizer, opened.kind, (), opened.checkpoints[-1].path)
    return Loaded(*found, output=opened.output, notes=notes, averaged=averaged)


def load_language_model(path: Path) -> Loaded | None:
    """The full-size masked language model that lies beside the networks in `path`, if there is one."""
    folder = PairFolder(path).language_model
    return load_folder(folder.path, "generator") if folder.exists() else None


def load_folder(
    folder: Path, network: Kind = "discriminator", *, allow_pickle: bool = False, pickle: str = PICKLE
) -> Loaded:
    """A model in transformers' format, or sentence-transformers'.

    pickle: the file of the weights; of another network than config.json describes, which says their depth.
    """
    text_vector = read_text_vector(folder) or TextVector()
    folder = transformer_folder(folder)
    described = read_config(folder)
    config = described.encoder
    text_vector.check(config.hidden_size, folder)
    read = read_tensors(folder, allow_pickle) if pickle == PICKLE else read_pickle(folder / pickle)
    if (beside := ModelFolder(folder).shares_encoder_with) is not None:
        prefix = names.PREFIX[config.architecture]
        theirs = {name: tensor for name, tensor in read_tensors(beside).items() if name.startswith(prefix)}
        recorded = recorded_digest(folder / WEIGHTS, SHARED_DIGEST)
        if recorded not in (None, shared_digest(theirs, Tokenizer.load(beside))):
            what = f"the encoder or the tokenizer in {beside.name}/ is not the one this head was made with"
            raise ModelError(what, where=folder, fix="Copy the folders that belong together")
        read = theirs | read
    refuse_other_types(read, folder)
    refuse_broken(read, folder)
    tensors = names.normalise(read, config.architecture, described.skipped)
    if not described.decoder_bias and described.kind == "generator":
        tensors = {names.MODERN_BIAS: torch.zeros(config.vocab_size)} | tensors
    kind = _choose(described, set(tensors), network, folder)
    tensors, config = names.completed(tensors, config, kind)
    if pickle != PICKLE:
        config = replace(config, num_layers=names.num_layers(tensors, config.architecture))
    tied = _is_tied(described, tensors)
    if config.num_layers > len(tensors):
        raise ModelError(f"config.json says {config.num_layers} layers, the weights have fewer", where=folder)
    with torch.device("meta"):  # names and shapes are compared before any memory is taken
        template = _template(build_encoder(config), _head(kind, config, tied))
    state, unused = names.from_theirs(tensors, template, config.architecture, kind, folder)
    encoder, head = build_encoder(config), _head(kind, config, tied)
    _fill(encoder, _part(state, "encoder."))
    _fill(head, _part(state, "head."))
    head_weights = (
        names.finetuned_head(tensors, config.architecture, kind) if head is None and kind != "encoder" else {}
    )
    used_by_head = {
        name for ours in head_weights for name in names.their_names(f"head.{ours}", config.architecture, kind)
    }
    unused = [name for name in unused if name not in used_by_head]
    refuse_left_over(unused, config.architecture, folder)
    labels = described.labels or tuple(f"LABEL_{i}" for i in range(len(head_weights.get("output.bias", ()))))
    if kind in ("classifier", "tagger") and len(labels) != (outputs := len(head_weights["output.bias"])):
        raise ModelError(
            f"id2label names {len(labels)} labels, and the head has {outputs} outputs",
            where=folder / CONFIG,
            key="id2label",
            fix="Name one label for each output",
        )
    notes: tuple[str, ...] = (
        (
            (
                f"not used: {len(unused)} other tensors"
                f" ({', '.join(unused[:3])}{', ...' if len(unused) > 3 else ''})"
            ),
        )
        if unused
        else ()
    )
    classifier = kind == "classifier"
    pooling = described.pooling if classifier else text_vector.pooling or "mean"
    for name, problem in ModelFolder(folder).changed().items():
        if name == HEAD and (folder / HEAD).is_file():
            raise ModelError(problem, where=folder, fix="Get it or export it again")
        warnings.warn(f"{folder}: {problem}: see electra verify", Damaged, stacklevel=2)
    tokenizer = Tokenizer.load(beside or folder)
    if tokenizer.vocab_size > config.vocab_size:
        raise ModelError(
            f"the tokenizer has {tokenizer.vocab_size} entries, the model {config.vocab_size}", where=folder
        )
    notes += _other_ids(ModelFolder(folder), tokenizer)
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
        pooling,
        text_vector,
        described.output,
        described.threshold,
    )


def _other_ids(folder: ModelFolder, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Notes where config.json gives a special token another id than the tokenizer does."""
    keys = {"cls": ("cls_token_id", "bos_token_id"), "sep": ("sep_token_id", "eos_token_id")}
    return tuple(
        f"{CONFIG} says {key} {given}; the tokenizer's id, {own}, is used"
        for role, own in tokenizer.specials._asdict().items()
        for key in keys.get(role, (f"{role}_token_id",))
        if isinstance(given := folder.record.get(key), int) and given != own
    )


def shared_digest(encoder: Mapping[str, Tensor], tokenizer: Tokenizer) -> str:
    """What a network whose encoder and tokenizer lie beside it was made with."""
    return f"{digest(encoder)} {tokenizer.digest}"


def read_tensors(folder: Path, allow_pickle: bool = False) -> dict[str, Tensor]:
    """The weights of a folder: safetensors, or a pickle where that was allowed explicitly."""
    path = folder / WEIGHTS
    if path.is_file():
        return read_safetensors(path)
    if (index := folder / SHARDS).is_file():
        return read_shards(index)
    pickle = folder / PICKLE
    if not pickle.is_file():
        others = [name for name in OTHER_WEIGHTS if (folder / name).is_file()]
        fix = "Give a folder with its weights"
        if others:
            fix = f"{others[0]} is of another library: save it as safetensors with transformers"
        elif ModelFolder(folder).holds_graph:
            fix = "It holds an ONNX graph: use `backend=onnx`"
        raise ModelError(f"no {WEIGHTS}", where=folder, fix=fix)
    if not allow_pickle:
        fix = (
            f"Convert it once: electra import {folder} --allow-pickle --out FOLDER"
            if read_config(folder).kind in run_folder.PRETRAINED
            else "Save it as safetensors: from_pretrained, then save_pretrained, in transformers"
        )
        what = f"the weights are a pickle ({PICKLE}), which this command does not open"
        raise ModelError(what, where=folder, fix=fix)
    return read_pickle(pickle)


def read_pickle(pickle: Path) -> dict[str, Tensor]:
    """The weights in a pickle, where the user has allowed that."""
    try:
        # The only torch.load of this package, reached through `electra import --allow-pickle` alone.
        # weights_only: a restricted unpickler that makes tensors and plain containers and calls nothing else.
        tensors = torch.load(pickle, map_location="cpu", weights_only=True)
    except Exception as problem:  # the unpickler raises whatever the damage leads it to
        called = _GLOBAL.search(str(problem))  # its own words advise to load it unrestrictedly
        what = f"it calls {called[1]}" if called else "damaged"
        fix = "Do not trust it: weights never call code" if called else "Get the file again"
        raise ModelError(f"not readable as weights ({what})", where=pickle, fix=fix) from None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise ModelError("not a table of tensors", where=pickle, fix="Give the file that transformers wrote")
    return dict(tensors)


def refuse_left_over(unused: Sequence[str], architecture: str, folder: Path) -> None:
    """Refuse weights of the encoder that the configuration has no use for: the two do not belong together.
    Another head may lie beside the one that is needed.
    """
    lost = [name for name in unused if name.startswith(names.PREFIX[architecture])]
    if lost:
        more = f" and {len(lost) - 1} more" if lost[1:] else ""
        raise ModelError(
            f"the encoder that config.json describes has no place for the tensor {lost[0]}{more}",
            where=folder,
            fix="Check that config.json belongs to these weights",
        )


def _choose(described: FolderConfig, tensors: set[str], network: Kind, folder: Path) -> Kind:
    """The head to load: the one wanted, if the folder has it."""
    present = names.kinds_in(tensors, described.encoder.architecture, described.kind)
    if network == "encoder":
        named = described.kind if described.kind in present else "encoder"
        return (
            present[0] if named == "encoder" and len(present) == 1 else named
        )  # old configurations name no class
    if network in present:
        return network
    has = NEEDS.get(present[0], "") if present else "an encoder without a head"
    name = CLASSES[described.encoder.architecture][present[0] if present else "encoder"]
    own = ModelFolder(folder).record.get("architectures")
    name = str(own[0]) if isinstance(own, list) and own else name  # a BERT is read as an ELECTRA
    raise AbsentNetwork(
        f"this is {has} ({name}), and {NEEDS[network]} is needed",
        where=folder,
        fix=f"Give the folder of {NEEDS[network]}",
    )


def _is_tied(described: FolderConfig, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a generator's output layer is its token table. As in transformers, weights that hold both, with
    different values, say more than config.json.
    """
    table, decoder = names.tied_pair(tensors, described.encoder.architecture)
    if table is None or decoder is None:
        return described.tied
    return torch.equal(table, decoder)


def _head(kind: Kind, config: EncoderConfig, tied: bool) -> nn.Module | None:
    if kind == "discriminator":
        return HEADS[config.architecture](config)
    return GeneratorHead(config, tied=tied) if kind == "generator" else None


def _template(encoder: nn.Module, head: nn.Module | None) -> dict[str, Tensor]:
    parts = {"encoder": encoder} if head is None else {"encoder": encoder, "head": head}
    return {
        f"{part}.{name}": tensor
        for part, module in parts.items()
        for name, tensor in module.state_dict().items()
    }


def _fill(module: nn.Module | None, state: Mapping[str, Tensor]) -> None:
    if module is not None:
        module.load_state_dict(dict(state))
        module.eval()


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
