"""Converts our names for weights to transformers' and back, which only this file and weight_names.toml know.

Our encoders have plain names for their parts, and one matrix for queries, keys and values where ELECTRA
checkpoints have three. If one of our parameters corresponds to several tensors in transformers, these are
concatenated along the first dimension.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from torch import Tensor, cat, zeros_like

from electra.foundation.errors import ModelError

Kind = Literal["encoder", "discriminator", "generator", "classifier", "tagger", "reader"]
TUNED: dict[Kind, str] = {
    "classifier": "ForSequenceClassification",
    "tagger": "ForTokenClassification",
    "reader": "ForQuestionAnswering",
}
Names = tuple[str, ...]
OWN_HEAD = "electra_head"  # of ours, on an encoder that transformers runs: its kind, and its tensors' prefix
CHECK_CONFIG = "Check that config.json belongs to these weights"

_NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PREFIX: dict[str, str] = _NAMES["prefix"]
_HEAD: dict[str, dict[Kind, dict[str, str]]] = _NAMES["head"]
_BERT_TUNED: dict[str, dict[str, Names]] = {kind: _NAMES["bert"][kind] for kind in TUNED}
# The output layer of a modern discriminator, with a row for each of its two labels.
DISCRIMINATOR_OUTPUT = ("classifier.weight", "classifier.bias")

# Redundant tensors that some versions of transformers write.
_REDUNDANT = re.compile(r"(.*\.)?position_ids|generator_lm_head\.weight|(cls\.predictions\.)?decoder\.weight")
_BERT = re.compile(r"^(bert|roberta)\.")
FOREIGN = "other."  # prefix of the names of other heads, which could be confused with ELECTRA's
_BERT_NAMES = {"electra": "bert"} | {ours: names[0] for ours, names in _BERT_TUNED["classifier"].items()}
_TO_BERT = re.compile(rf"^({'|'.join(map(re.escape, _BERT_NAMES))})(?=\.)")
_POOLER = re.compile(r"(electra\.)?pooler\.dense\.")


def transformers_names(ours: str, architecture: str, kind: Kind) -> Names:
    """Returns the names of the transformers tensors that form our parameter `encoder.X` or `head.X`."""
    part, _, rest = ours.partition(".")
    module, _, leaf = rest.rpartition(".")
    if part == "head":
        return (f"{_HEAD[architecture][kind][module]}.{leaf}",)
    prefix = PREFIX[architecture]
    layer = re.fullmatch(r"layers\.(\d+)\.(\w+)", module)
    if layer is None:
        return (f"{prefix}{_NAMES['encoder'][architecture][module]}.{leaf}",)
    stem = f"{prefix}{_NAMES['layer_list'][architecture]}.{layer[1]}"
    return tuple(f"{stem}.{name}.{leaf}" for name in _NAMES["layer"][architecture][layer[2]])


def to_transformers(state: Mapping[str, Tensor], architecture: str, kind: Kind) -> dict[str, Tensor]:
    """Returns copies of our weights in transformers' layout, under its names."""
    renamed: dict[str, Tensor] = {}
    for ours, tensor in state.items():
        names = transformers_names(ours, architecture, kind)
        if "head.pooler.weight" in state:  # the classifier of BERT
            names = tuple(_TO_BERT.sub(lambda found: _BERT_NAMES[found[0]], name) for name in names)
        renamed.update(zip(names, tensor.detach().chunk(len(names)), strict=True))
    if (architecture, kind) == ("modern", "discriminator"):
        renamed |= {name: cat([zeros_like(renamed[name]), renamed[name]]) for name in DISCRIMINATOR_OUTPUT}
    return {name: tensor.clone().contiguous() for name, tensor in renamed.items()}


def from_transformers(
    tensors: Mapping[str, Tensor],
    template: Mapping[str, Tensor],
    architecture: str,
    kind: Kind,
    where: object,
) -> tuple[dict[str, Tensor], list[str]]:
    """Converts a checkpoint, with names from `normalise_names`, to our names and fp32.

    `template` has our parameters, for their names and shapes. Returns our weights, and the names of tensors
    that were not used. Raises ModelError if a tensor is missing or has the wrong shape.
    """
    state: dict[str, Tensor] = {}
    used: set[str] = set()
    if (architecture, kind) == ("modern", "discriminator"):  # the logits' difference: log-odds of "replaced"
        outputs = {name: tensors[name] for name in DISCRIMINATOR_OUTPUT if name in tensors}
        outputs = {name: output for name, output in outputs.items() if output.shape[:1] == (2,)}
        tensors = {**tensors, **{name: output[1:] - output[:1] for name, output in outputs.items()}}
    for ours, parameter in template.items():
        names = transformers_names(ours, architecture, kind)
        shape = (parameter.shape[0] // len(names), *parameter.shape[1:])
        for name in names:
            found = tuple(tensors[name].shape) if name in tensors else None
            if found != shape:
                phrase = "is missing" if found is None else f"has the shape {list(found)}"
                problem = f"tensor {name} {phrase}, expected {list(shape)}"
                raise ModelError(problem, where=where, fix=CHECK_CONFIG)
        used.update(names)
        state[ours] = cat([tensors[name].float() for name in names])
    return state, sorted(name for name in tensors if name not in used and not _REDUNDANT.fullmatch(name))


def normalise_names(
    tensors: Mapping[str, Tensor], architecture: str, position_offset: int = 0, kind: Kind = "encoder"
) -> dict[str, Tensor]:
    """Renames tensors to the names of current transformers, with ELECTRA's names for BERT and RoBERTa.

    Early versions of transformers wrote gamma and beta for a norm's weight and bias, and encoders without a
    head have no prefix. The pooler of BERT and RoBERTa is dropped unless `kind`, the head in config.json,
    reads it, and so are the first `position_offset` rows of the position table.
    """
    renamed = dict(tensors)
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        renamed = {name.replace(old, new): tensor for name, tensor in renamed.items()}
    if architecture == "electra":
        if any(_BERT.match(name) for name in renamed):  # in such files, ELECTRA's names denote other heads
            heads = {**_NAMES["bert"]["generator"], **_BERT_TUNED.get(kind, {})}
            ours = {stem: name for name, stems in heads.items() for stem in stems}
            given, renamed = renamed, {}
            for name in sorted(given, key=lambda name: ".decoder." in name):  # the decoder's override others
                stem, _, leaf = name.rpartition(".")
                other = _BERT.sub(PREFIX["electra"], name) if _BERT.match(name) else FOREIGN + name
                renamed[f"{ours[stem]}.{leaf}" if stem in ours else other] = given[name]
        renamed = {name: tensor for name, tensor in renamed.items() if not _POOLER.match(name)}
    if not any(name.startswith(PREFIX[architecture]) for name in renamed):
        renamed = {PREFIX[architecture] + name: tensor for name, tensor in renamed.items()}
    positions = f"{PREFIX[architecture]}embeddings.position_embeddings.weight"
    shifted = {positions: renamed[positions][position_offset:]} if positions in renamed else {}
    return renamed | shifted


def tuned_kind(saved_class: str) -> Kind:
    """Returns the kind of fine-tuned head that a class of transformers has; "encoder" for other classes."""
    return next((kind for kind, ending in TUNED.items() if saved_class.endswith(ending)), "encoder")


def kinds_in(names: set[str], architecture: str, saved_kind: Kind) -> list[Kind]:
    """Returns the heads whose last layers are present; of heads with the same names, only `saved_kind`."""
    stems = {name.rpartition(".")[0] for name in names}
    complete = [
        kind
        for kind, parts in _HEAD[architecture].items()
        if {stem for ours, stem in parts.items() if ours not in ("dense", "pooler")} <= stems
    ]
    # The heads of a modern encoder have the same names; the configuration says which one is present.
    return [kind for kind in complete if architecture != "modern" or kind == saved_kind]


def finetuned_head(tensors: Mapping[str, Tensor], architecture: str, kind: Kind) -> tuple[dict[str, Tensor], set[str]]:
    """Returns a fine-tuned head's parameters, under our names and in fp32, and the names of their tensors."""
    names = {
        f"{ours}.{leaf}": f"{stem}.{leaf}"
        for ours, stem in _HEAD[architecture][kind].items()
        for leaf in ("weight", "bias")
        if f"{stem}.{leaf}" in tensors
    }
    return {ours: tensors[name].float() for ours, name in names.items()}, set(names.values())


def table_and_decoder(tensors: Mapping[str, Tensor], architecture: str) -> list[Tensor | None]:
    """Returns the weights [V, E] of a generator's token table and output layer, None for an absent one."""
    table = "encoder.tokens.weight" if architecture == "modern" else "encoder.embeddings.words.weight"
    names = [transformers_names(ours, architecture, "generator")[0] for ours in (table, "head.weight")]
    return [tensors.get(name) for name in names]
