"""What our weights are called in transformers, both ways.

Our encoders name parts plainly and keep queries, keys and values in one matrix; ELECTRA's checkpoints keep
three. Everything that knows the other names is in this file. A value of two or more names means: these
tensors, one above the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Literal

from torch import Tensor, cat, zeros_like

from electra.foundation.errors import ModelError

Kind = Literal["encoder", "discriminator", "generator", "classifier", "tagger", "reader"]
Names = tuple[str, ...]

PREFIX = {"electra": "electra.", "modern": "model."}

_ENCODER: dict[str, dict[str, str]] = {
    "electra": {
        "embeddings.words": "embeddings.word_embeddings",
        "embeddings.positions": "embeddings.position_embeddings",
        "embeddings.token_types": "embeddings.token_type_embeddings",
        "embeddings.norm": "embeddings.LayerNorm",
        "projection": "embeddings_project",
    },
    "modern": {
        "tokens": "embeddings.tok_embeddings",
        "embedding_norm": "embeddings.norm",
        "final_norm": "final_norm",
    },
}

_LAYER_LIST = {"electra": "encoder.layer", "modern": "layers"}
_LAYER: dict[str, dict[str, Names]] = {
    "electra": {
        "qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
        "attention_output": ("attention.output.dense",),
        "attention_norm": ("attention.output.LayerNorm",),
        "intermediate": ("intermediate.dense",),
        "output": ("output.dense",),
        "output_norm": ("output.LayerNorm",),
    },
    "modern": {
        "qkv": ("attn.Wqkv",),
        "attention_output": ("attn.Wo",),
        "attention_norm": ("attn_norm",),
        "mlp_norm": ("mlp_norm",),
        "gated": ("mlp.Wi",),
        "output": ("mlp.Wo",),
    },
}

_MODERN_HEAD = {"dense": "head.dense", "norm": "head.norm"}
_HEAD: dict[str, dict[str, dict[str, str]]] = {
    "electra": {
        "discriminator": {
            "dense": "discriminator_predictions.dense",
            "prediction": "discriminator_predictions.dense_prediction",
        },
        "generator": {
            "dense": "generator_predictions.dense",
            "norm": "generator_predictions.LayerNorm",
            "": "generator_lm_head",  # a bias over the vocabulary; a weight where it is not the token table
        },
        "classifier": {"dense": "classifier.dense", "output": "classifier.out_proj"},
        "tagger": {"output": "classifier"},
        "reader": {"output": "qa_outputs"},
    },
    "modern": {
        "discriminator": {**_MODERN_HEAD, "prediction": "classifier"},
        "generator": {**_MODERN_HEAD, "": "decoder"},
        "classifier": {**_MODERN_HEAD, "output": "classifier"},
        "tagger": {**_MODERN_HEAD, "output": "classifier"},
        "reader": {**_MODERN_HEAD, "output": "classifier"},
    },
}
MODERN_BIAS = "decoder.bias"  # of a modern generator, which may be configured to have none
# Of a modern discriminator: a row for each of its two labels.
JUDGE = ("classifier.weight", "classifier.bias")

# Written by some versions of transformers; they say nothing the rest does not.
_REDUNDANT = re.compile(r"(.*\.)?position_ids|generator_lm_head\.weight|decoder\.weight")
_KIN = re.compile(r"^(bert|roberta)\.")
# The masked-LM heads of BERT and of RoBERTa, which are ELECTRA's generator's. The bias of the output layer is
# one tensor under two names; where a file has both, the decoder's counts, as in transformers.
_KIN_HEAD = {
    "generator_predictions.dense": ("cls.predictions.transform.dense", "lm_head.dense"),
    "generator_predictions.LayerNorm": ("cls.predictions.transform.LayerNorm", "lm_head.layer_norm"),
    "generator_lm_head": ("cls.predictions", "lm_head", "cls.predictions.decoder", "lm_head.decoder"),
}
_POOLER = re.compile(r"(electra\.)?pooler\.dense\.")


def their_names(ours: str, architecture: str, kind: Kind) -> Names:
    """The tensors of a transformers checkpoint that make our parameter `encoder.X` or `head.X`."""
    part, _, rest = ours.partition(".")
    module, _, leaf = rest.rpartition(".")
    if part == "head":
        return (f"{_HEAD[architecture][kind][module]}.{leaf}",)
    prefix = PREFIX[architecture]
    layer = re.fullmatch(r"layers\.(\d+)\.(\w+)", module)
    if layer is None:
        return (f"{prefix}{_ENCODER[architecture][module]}.{leaf}",)
    stem = f"{prefix}{_LAYER_LIST[architecture]}.{layer[1]}"
    return tuple(f"{stem}.{name}.{leaf}" for name in _LAYER[architecture][layer[2]])


def to_theirs(state: Mapping[str, Tensor], architecture: str, kind: Kind) -> dict[str, Tensor]:
    """Our weights under transformers' names."""
    theirs: dict[str, Tensor] = {}
    for ours, tensor in state.items():
        names = their_names(ours, architecture, kind)
        theirs.update(zip(names, tensor.detach().chunk(len(names)), strict=True))
    if (architecture, kind) == ("modern", "discriminator"):
        theirs |= {name: cat([zeros_like(theirs[name]), theirs[name]]) for name in JUDGE}
    return {name: tensor.clone().contiguous() for name, tensor in theirs.items()}


def _one_logit(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A modern discriminator with the log-odds of its two labels as its only output."""
    two = {name: tensors[name] for name in JUDGE if name in tensors and tensors[name].shape[:1] == (2,)}
    return {**tensors, **{name: tensor[1:] - tensor[:1] for name, tensor in two.items()}}


def from_theirs(
    tensors: Mapping[str, Tensor],
    template: Mapping[str, Tensor],
    architecture: str,
    kind: Kind,
    where: object,
) -> tuple[dict[str, Tensor], list[str]]:
    """Our weights out of a transformers checkpoint, in fp32, and the names of the tensors that were of no
    use.

    `template` holds our parameters, for their names and shapes.
    """
    state: dict[str, Tensor] = {}
    used: set[str] = set()
    if (architecture, kind) == ("modern", "discriminator"):
        tensors = _one_logit(tensors)
    for ours, wanted in template.items():
        names = their_names(ours, architecture, kind)
        shape = (wanted.shape[0] // len(names), *wanted.shape[1:])
        for name in names:
            if name not in tensors:
                root, beside = name.partition(".")[0], f"{name.rsplit('.', 2)[0]}."
                others = [other.removeprefix(f"{root}.") for other in tensors if other.startswith(beside)]
                what = f"the weights lack the tensor {name.removeprefix(f'{root}.')}"
                what += f" (but have {', '.join(sorted(others)[:3])})" if others else ""
                raise ModelError(what, where=where, fix="Check that config.json belongs to these weights")
            if tuple(tensors[name].shape) != shape:
                raise ModelError(
                    f"tensor {name} has the shape {list(tensors[name].shape)}, where {list(shape)} is needed",
                    where=where,
                    fix="The weights are not of this configuration",
                )
        used.update(names)
        state[ours] = cat([tensors[name].float() for name in names])
    return state, sorted(name for name in tensors if name not in used and not _REDUNDANT.fullmatch(name))


def normalise(tensors: Mapping[str, Tensor], architecture: str, skipped: int = 0) -> dict[str, Tensor]:
    """The names of today's transformers: its first versions wrote gamma and beta, and bare encoders carry no
    prefix. BERT's and RoBERTa's become ELECTRA's, without the pooler and the first `skipped` positions.
    """
    old = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
    wrapped = bool(tensors) and all(name.startswith("module.") for name in tensors)  # by DataParallel
    renamed = {
        reduce(lambda found, pair: found.replace(*pair), old, name.removeprefix("module." * wrapped)): tensor
        for name, tensor in tensors.items()
    }
    if architecture == "electra":
        if any(_KIN.match(name) for name in renamed):  # their heads are not ELECTRA's, even of one name
            head = {
                f"{theirs}.{leaf}": f"{ours}.{leaf}"
                for ours, stems in _KIN_HEAD.items()
                for theirs in stems
                for leaf in ("weight", "bias")
            }
            ordered = sorted(renamed, key=lambda name: ".decoder." in name)  # later ones replace earlier
            renamed = {
                _KIN.sub(PREFIX["electra"], name)
                if _KIN.match(name)
                else head.get(name, f"other.{name}"): renamed[name]
                for name in ordered
            }
        renamed = {name: tensor for name, tensor in renamed.items() if not _POOLER.match(name)}
    if not any(name.startswith(PREFIX[architecture]) for name in renamed):
        renamed = {PREFIX[architecture] + name: tensor for name, tensor in renamed.items()}
    places = PREFIX[architecture] + "embeddings.position_embeddings.weight"
    return renamed | ({places: renamed[places][skipped:]} if skipped and places in renamed else {})


def kinds_in(names: set[str], architecture: str) -> list[Kind]:
    """The heads whose weights are all there by name (ModernBERT's share names: the configuration tells those
    apart).
    """
    stems = {name.rpartition(".")[0] for name in names}
    heads: list[Kind] = ["discriminator", "generator", "classifier", "tagger", "reader"]
    return [kind for kind in heads if set(_HEAD[architecture][kind].values()) <= stems]


def finetuned_head(tensors: Mapping[str, Tensor], architecture: str, kind: Kind) -> dict[str, Tensor]:
    """The parameters of a fine-tuned head, under our names, in fp32."""
    return {
        f"{ours}.{leaf}": tensors[f"{theirs}.{leaf}"].float()
        for ours, theirs in _HEAD[architecture][kind].items()
        for leaf in ("weight", "bias")
        if f"{theirs}.{leaf}" in tensors
    }


def tied_pair(tensors: Mapping[str, Tensor], architecture: str) -> tuple[Tensor | None, Tensor | None]:
    """A generator's token table and its output layer, as far as the checkpoint holds them."""
    if architecture == "electra":
        return tensors.get("electra.embeddings.word_embeddings.weight"), tensors.get(
            "generator_lm_head.weight"
        )
    return tensors.get("model.embeddings.tok_embeddings.weight"), tensors.get("decoder.weight")
