"""What our weights are called in transformers, both ways.

Our encoders name parts plainly and keep queries, keys and values in one matrix; ELECTRA's checkpoints keep
three. Everything that knows the other names is in this file. A value of two or more names means: these
tensors, one above the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Literal

from torch import Tensor, cat, zeros_like

from electra.foundation.errors import ModelError
from electra.model.sizes import EncoderConfig

Kind = Literal["encoder", "discriminator", "generator", "classifier", "tagger", "reader"]
Names = tuple[str, ...]

PREFIX = {"electra": "electra.", "modern": "model.", "deberta": "deberta."}

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
    "deberta": {
        "embeddings.words": "embeddings.word_embeddings",
        "embeddings.positions": "embeddings.position_embeddings",
        "embeddings.token_types": "embeddings.token_type_embeddings",
        "embeddings.projection": "embeddings.embed_proj",
        "embeddings.norm": "embeddings.LayerNorm",
        "relative_positions": "encoder.rel_embeddings",
        "relative_norm": "encoder.LayerNorm",
        "layers.0.convolution": "encoder.conv.conv",
        "layers.0.convolution_norm": "encoder.conv.LayerNorm",
    },
}

_LAYER_LIST = {"electra": "encoder.layer", "modern": "layers", "deberta": "encoder.layer"}
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
    "deberta": {
        "qkv": ("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
        "position_keys": ("attention.self.pos_key_proj",),
        "position_queries": ("attention.self.pos_query_proj",),
        "attention_output": ("attention.output.dense",),
        "attention_norm": ("attention.output.LayerNorm",),
        "intermediate": ("intermediate.dense",),
        "output": ("output.dense",),
        "output_norm": ("output.LayerNorm",),
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
    "deberta": {
        "discriminator": {
            "norm": "mask_predictions.LayerNorm",
            "dense": "mask_predictions.dense",
            "prediction": "mask_predictions.classifier",
        },
        "generator": {
            "dense": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "": "cls.predictions.decoder",
        },
        "classifier": {"dense": "pooler.dense", "output": "classifier"},
        "tagger": {"output": "classifier"},
        "reader": {"output": "qa_outputs"},
    },
}
# Heads whose weights do not tell what they are: the configuration does.
_ALIKE: dict[str, tuple[Kind, ...]] = {
    "modern": ("discriminator", "generator", "classifier", "tagger", "reader"),
    "deberta": ("classifier", "tagger"),
}
MODERN_BIAS = "decoder.bias"  # of a modern generator, which may be configured to have none
# Of a modern discriminator: a row for each of its two labels.
JUDGE = ("classifier.weight", "classifier.bias")

# Written by some versions of transformers; they say nothing the rest does not.
_REDUNDANT = re.compile(r"(.*\.)?position_ids|generator_lm_head\.weight|(cls\.predictions\.)?decoder\.weight")
_KIN = re.compile(r"^(bert|roberta)\.")
# The masked-LM heads of BERT and of RoBERTa, which are ELECTRA's generator's. The bias of the output layer is
# one tensor under two names; where a file has both, the decoder's counts, as in transformers.
_KIN_HEAD = {
    "generator_predictions.dense": ("cls.predictions.transform.dense", "lm_head.dense"),
    "generator_predictions.LayerNorm": ("cls.predictions.transform.LayerNorm", "lm_head.layer_norm"),
    "generator_lm_head": ("cls.predictions", "lm_head", "cls.predictions.decoder", "lm_head.decoder"),
}
# The output layer of DeBERTa's masked language models, under the names of the published code, of
# transformers, and those of the latter that are kept.
_DEBERTA_HEAD = (
    (re.compile(r"^lm_predictions\.lm_head\.(dense|LayerNorm)"), r"cls.predictions.transform.\1"),
    (re.compile(r"^(lm_predictions\.lm_head|cls\.predictions)\.bias$"), "cls.predictions.decoder.bias"),
)
_POSITIONS = "embeddings.position_embeddings.weight"
_POOLER = re.compile(r"(electra\.)?pooler\.dense\.")


def their_names(ours: str, architecture: str, kind: Kind) -> Names:
    """The tensors of a transformers checkpoint that make our parameter `encoder.X` or `head.X`."""
    part, _, rest = ours.partition(".")
    module, _, leaf = rest.rpartition(".")
    if part == "head":
        return (f"{_HEAD[architecture][kind][module]}.{leaf}",)
    prefix = PREFIX[architecture]
    layer = re.fullmatch(r"layers\.(\d+)\.(\w+)", module)
    if layer is None or module in _ENCODER[architecture]:
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
    if (architecture, kind) == ("deberta", "generator"):  # one tensor under two names, if it is tied
        theirs["cls.predictions.bias"] = theirs["cls.predictions.decoder.bias"]
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
    if architecture == "deberta":
        for pattern, ours in _DEBERTA_HEAD:  # what has its last name already goes before
            renamed = {pattern.sub(ours, name): tensor for name, tensor in renamed.items()} | {
                name: tensor for name, tensor in renamed.items() if not pattern.match(name)
            }
    if not any(name.startswith(PREFIX[architecture]) for name in renamed):
        renamed = {PREFIX[architecture] + name: tensor for name, tensor in renamed.items()}
    places = PREFIX[architecture] + _POSITIONS
    return renamed | ({places: renamed[places][skipped:]} if skipped and places in renamed else {})


def kinds_in(names: set[str], architecture: str, described: Kind) -> list[Kind]:
    """The heads whose weights are all there by name; of those that share names, the one `described`."""
    stems = {name.rpartition(".")[0] for name in names}
    heads: list[Kind] = ["discriminator", "generator", "classifier", "tagger", "reader"]
    alike = _ALIKE.get(architecture, ())
    present = [kind for kind in heads if set(_HEAD[architecture][kind].values()) <= stems]
    return [kind for kind in present if kind not in alike or kind == described]


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
    if architecture == "deberta":
        words = tensors.get("deberta.embeddings.word_embeddings.weight")
        return words, tensors.get("cls.predictions.decoder.weight")
    return tensors.get("model.embeddings.tok_embeddings.weight"), tensors.get("decoder.weight")


def completed(
    tensors: dict[str, Tensor], config: EncoderConfig, kind: Kind
) -> tuple[dict[str, Tensor], EncoderConfig]:
    """The tensors and the shape of a network, where the weights say what config.json does not: published
    generators of DeBERTa have the positions of a mask decoder, and its other networks do not use them.
    """
    places = PREFIX[config.architecture] + _POSITIONS
    if config.architecture != "deberta" or config.absolute_positions or places not in tensors:
        return tensors, config
    if kind == "generator":
        return tensors, replace(config, mask_decoder=True, max_positions=len(tensors[places]))
    return {name: tensor for name, tensor in tensors.items() if name != places}, config


def num_layers(tensors: Mapping[str, Tensor], architecture: str) -> int:
    """The layers that weights are of."""
    stem = re.compile(re.escape(f"{PREFIX[architecture]}{_LAYER_LIST[architecture]}.") + r"(\d+)\.")
    return 1 + max((int(found[1]) for name in tensors if (found := stem.match(name))), default=0)
