"""Converts between transformers' config.json (ELECTRA, ModernBERT, DeBERTa-v2) and `EncoderConfig`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.artifacts.finetuning import FinetuningFolder
from electra.artifacts.model import CONFIG, Pooling
from electra.exchange.weight_names import Kind
from electra.foundation import durable
from electra.foundation.errors import ModelError
from electra.model.sizes import MAX_SIZE, EncoderConfig

CLASSES: dict[str, dict[Kind, str]] = {
    "electra": {
        "encoder": "ElectraModel",
        "discriminator": "ElectraForPreTraining",
        "generator": "ElectraForMaskedLM",
        "classifier": "ElectraForSequenceClassification",
        "tagger": "ElectraForTokenClassification",
        "reader": "ElectraForQuestionAnswering",
    },
    "modern": {
        "encoder": "ModernBertModel",
        "discriminator": "ModernBertForTokenClassification",
        "generator": "ModernBertForMaskedLM",
        "classifier": "ModernBertForSequenceClassification",
        "tagger": "ModernBertForTokenClassification",
        "reader": "ModernBertForQuestionAnswering",
    },
    "deberta": {
        "encoder": "DebertaV2Model",
        "discriminator": "DebertaV2Model",  # transformers has no class for its head and loads the encoder
        "generator": "DebertaV2ForMaskedLM",
        "classifier": "DebertaV2ForSequenceClassification",
        "tagger": "DebertaV2ForTokenClassification",
        "reader": "DebertaV2ForQuestionAnswering",
    },
}
FULL, SLIDING = "full_attention", "sliding_attention"  # transformers' names for a layer's attention
MODEL_TYPES = {"electra": "electra", "modernbert": "modern", "deberta-v2": "deberta"}
# BERT and RoBERTa models have the paper's encoder; their networks are saved as ELECTRA models.
MODEL_TYPES |= dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert"), "electra")
# A modern discriminator is saved as a token classifier with the logits (0, x) for these labels, so that the
# softmax of a pipeline gives P(replaced) = sigmoid(x). Older folders have the second label alone.
ORIGINAL, REPLACED = "ORIGINAL", "REPLACED"
# The key for the meaning of a discriminator's logits, and its default: log-odds of "replaced". The logits of
# Electric are energies, approximately the negative log-probability of the token.
OUTPUT, LOG_ODDS = "discriminator_output", "log-odds"
# The key for the lowest P(replaced) at which a word is marked, and its default. Training sets it to the
# threshold with the best F1 on held-out text.
THRESHOLD, DEFAULT_THRESHOLD = "detection_threshold", 0.5
MIN_POSITIONS = 3  # [CLS], a token, [SEP]
SUPPORTED_FOLDERS = (
    "Pass the folder of an ELECTRA, BERT, RoBERTa, ModernBERT or DeBERTa model (version 2 or 3) with"
    " config.json, model.safetensors and tokenizer.json"
)
_DECODER = "enhanced_mask_decoder"  # key for a DeBERTa generator; transformers ignores it


@dataclass(frozen=True)
class FolderConfig:
    """The contents of config.json: the shape of the encoder, the kind of head and its labels."""

    encoder: EncoderConfig
    kind: Kind
    labels: tuple[str, ...]
    is_tied: bool  # whether a generator's output layer is its token table
    pooling: Pooling  # pooling of a classifier
    position_offset: int = 0  # row of the position table that belongs to the first token
    output: str = LOG_ODDS  # meaning of a discriminator's logits
    threshold: float = DEFAULT_THRESHOLD  # lowest P(replaced) at which `detect` marks a word
    decoder_bias: bool = True  # whether a modern generator's output layer has a bias


def write_config(
    config: EncoderConfig, kind: Kind, labels: Sequence[str], dtype: str, special_ids: Mapping[str, int]
) -> dict[str, Any]:
    """Returns the contents of config.json.

    Args:
        config: the shape of the encoder.
        kind: the kind of the head.
        labels: the names of a fine-tuned head's outputs; those of a modern discriminator are fixed.
        dtype: number format of the stored weights.
        special_ids: the ids of [CLS] and [SEP], under the keys "cls" and "sep"; used by modern encoders only.
    """
    if kind == "discriminator" and config.architecture == "modern":
        labels = (ORIGINAL, REPLACED)
    label_keys: dict[str, Any] = {}
    if kind == "classifier":
        label_keys["problem_type"] = "regression" if len(labels) == 1 else "single_label_classification"
    if labels:
        label_keys |= {
            "id2label": {str(i): label for i, label in enumerate(labels)},
            "label2id": {label: i for i, label in enumerate(labels)},
        }
    common = {
        "architectures": [CLASSES[config.architecture][kind]],
        "dtype": dtype,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "max_position_embeddings": config.max_positions,
        "initializer_range": 0.02,
        "pad_token_id": config.pad_id,
        "tie_word_embeddings": True,
        **label_keys,
    }
    if config.architecture == "modern":
        return common | _modern_keys(config, special_ids)
    architecture_keys = _deberta_keys if config.architecture == "deberta" else _electra_keys
    return common | architecture_keys(config)


def _electra_keys(config: EncoderConfig) -> dict[str, Any]:
    return {
        "model_type": "electra",
        "embedding_size": config.embedding_size,
        "hidden_act": "gelu",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "classifier_dropout": None,
        "type_vocab_size": config.num_token_types,
        "layer_norm_eps": config.norm_eps,
        "position_embedding_type": "absolute",
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": config.dropout,
    }


def _modern_keys(config: EncoderConfig, special_ids: Mapping[str, int]) -> dict[str, Any]:
    full_rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    window_rope = (
        {"rope_type": "default", "rope_theta": config.window_theta} if config.global_every > 1 else full_rope
    )
    return {
        "model_type": "modernbert",
        "hidden_activation": "gelu",
        "norm_eps": config.norm_eps,
        "norm_bias": False,
        "attention_bias": False,
        "attention_dropout": config.attention_dropout,
        "embedding_dropout": config.dropout,
        "mlp_bias": False,
        "mlp_dropout": config.dropout,
        "layer_types": _layer_types(config.num_layers, config.global_every),
        "rope_parameters": {"full_attention": full_rope, "sliding_attention": window_rope},
        **({"local_attention": 2 * config.window} if config.global_every > 1 else {}),
        # the same settings as spelled by transformers 4
        "global_attn_every_n_layers": config.global_every,
        "global_rope_theta": full_rope["rope_theta"],
        "local_rope_theta": window_rope["rope_theta"],
        "decoder_bias": True,
        # for fine-tuning in transformers: pre-training trains the state at [CLS] little or not at all
        "classifier_pooling": "mean",
        "classifier_dropout": config.dropout,
        "classifier_bias": False,
        "classifier_activation": "gelu",
        "cls_token_id": special_ids["cls"],
        "bos_token_id": special_ids["cls"],
        "sep_token_id": special_ids["sep"],
        "eos_token_id": special_ids["sep"],
    }


def _deberta_keys(config: EncoderConfig) -> dict[str, Any]:
    terms = {"p2c": config.position_to_content, "c2p": config.content_to_position}
    convolution = {
        "conv_kernel_size": config.convolution,
        "conv_act": config.convolution_activation,
        "conv_groups": 1,
    }
    return {
        "model_type": "deberta-v2",
        "embedding_size": config.embedding_size,
        "hidden_act": "gelu",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "type_vocab_size": config.num_token_types,
        "layer_norm_eps": config.norm_eps,
        "relative_attention": True,
        "position_buckets": config.position_buckets or -1,
        "max_relative_positions": config.position_span,
        "norm_rel_ebd": "layer_norm" if config.norm_distances else "none",
        "share_att_key": config.shared_position_keys,
        "pos_att_type": "|".join(name for name, is_used in terms.items() if is_used),
        "position_biased_input": config.absolute_positions,
        **(convolution if config.convolution else {}),
        **({_DECODER: True} if config.mask_decoder else {}),
        "pooler_dropout": config.dropout,
        "pooler_hidden_act": "gelu",
        "pooler_hidden_size": config.hidden_size,
        "legacy": True,  # with this, a masked language model's head may be narrower than the token table
    }


def read_config(folder: Path) -> FolderConfig:
    """Reads a model folder's config.json.

    Raises:
        ModelError: the file is missing or damaged, or describes a model that is not supported.
    """
    path = folder / CONFIG
    if not path.exists() and FinetuningFolder.is_at(folder):
        raise ModelError(
            "this is a fine-tuning folder, not a model folder", where=folder, fix="Pass its subfolder model/"
        )
    values = durable.read_json(path, ModelError, fix=SUPPORTED_FOLDERS)
    if not isinstance(values, dict):
        raise ModelError("not a JSON object", where=path, fix=SUPPORTED_FOLDERS)
    architecture = MODEL_TYPES.get(str(values.get("model_type")))
    if architecture is None:
        problem = f"the model type {values.get('model_type')!r} is not supported"
        if values.get("model_type") == "deberta":
            problem = "this is a DeBERTa of version 1, whose attention and tokenizer are not supported"
        raise ModelError(problem, where=path, fix=SUPPORTED_FOLDERS)
    try:
        _refuse_decoder(values)
        encoder = _READERS[architecture](values)
        labels = _labels(values)
        position_offset = first_position(values) if architecture == "electra" else 0
        kind = _kind(values, architecture, labels)
    except KeyError as missing:
        raise ModelError(
            f"{missing.args[0]} is missing", where=path, fix="Copy the complete file again"
        ) from None
    except (TypeError, ValueError, OverflowError, AttributeError) as problem:
        raise ModelError(
            f"a value has the wrong type ({problem})",
            where=path,
            fix="Save the model again with transformers",
        ) from None
    except UnsupportedConfig as problem:
        raise ModelError(str(problem), where=path, fix=SUPPORTED_FOLDERS) from None
    # Only ModernBERT has this setting; the classifiers of the other encoders use the state at [CLS].
    mean_pooled = architecture == "modern" and values.get("classifier_pooling") == "mean"
    # DeBERTa's non-legacy head always uses the token table as its output layer.
    is_tied = bool(values.get("tie_word_embeddings", True)) or values.get("legacy") is False
    pooling: Pooling = "mean" if mean_pooled else "cls"
    threshold = values.get(THRESHOLD, DEFAULT_THRESHOLD)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise ModelError(f"must be a probability from 0 to 1, not {threshold!r}", where=path, key=THRESHOLD)
    output = str(values.get(OUTPUT, LOG_ODDS))
    has_decoder_bias = architecture != "modern" or bool(values.get("decoder_bias", True))
    return FolderConfig(
        encoder, kind, labels, is_tied, pooling, position_offset, output, threshold, has_decoder_bias
    )


class UnsupportedConfig(Exception):
    """A setting that no encoder here supports."""


def _refuse_decoder(values: Mapping[str, Any]) -> None:
    """Raises UnsupportedConfig for a decoder, whose tokens do not attend to those after them, or to others.

    The decoder of transformers has the tensors of an encoder, so the weights do not tell.
    """
    for name in ("is_decoder", "add_cross_attention"):
        if values.get(name):
            raise UnsupportedConfig(f"{name} is {json.dumps(values[name])}; only encoders are supported")


def _electra_config(values: dict[str, Any]) -> EncoderConfig:
    """Returns the encoder's shape; missing keys have the defaults of ElectraConfig or BertConfig."""
    _require(values, "hidden_act", "gelu")
    _require(values, "position_embedding_type", "absolute")
    is_electra = values["model_type"] == "electra"
    hidden = _integer(values, "hidden_size", 256 if is_electra else None)
    return validate(
        EncoderConfig(
            architecture="electra",
            vocab_size=_integer(values, "vocab_size"),
            embedding_size=_integer(values, "embedding_size", 128) if is_electra else hidden,
            hidden_size=hidden,
            num_layers=_integer(values, "num_hidden_layers", 12),
            num_heads=_integer(values, "num_attention_heads", 4 if is_electra else 12),
            intermediate_size=_integer(values, "intermediate_size", 1024 if is_electra else 3072),
            max_positions=_integer(values, "max_position_embeddings", 512) - first_position(values),
            dropout=float(values.get("hidden_dropout_prob", 0.1)),
            attention_dropout=float(values.get("attention_probs_dropout_prob", 0.1)),
            norm_eps=float(values.get("layer_norm_eps", 1e-12)),
            pad_id=_pad_id(values),
            num_token_types=_integer(values, "type_vocab_size", 2),
        )
    )


def first_position(values: Mapping[str, Any]) -> int:
    """Returns the first token's row in the position table: 0 or, in RoBERTa, the one after the padding id."""
    return 0 if values["model_type"] in ("electra", "bert") else _pad_id(values) + 1


def _pad_id(values: Mapping[str, Any]) -> int:
    default = 0 if values["model_type"] in ("electra", "bert", "modernbert", "deberta-v2") else 1
    return default if values.get("pad_token_id") is None else _integer(values, "pad_token_id")


def _integer(values: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """Returns an integer. Raises KeyError if missing without a default, UnsupportedConfig if not whole."""
    value = values[name] if default is None else values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise UnsupportedConfig(f"{name} is {json.dumps(value)}, not a whole number")
    return int(value)


def _modern_config(values: dict[str, Any]) -> EncoderConfig:
    for name in ("hidden_activation", "classifier_activation"):
        _require(values, name, "gelu")
    for name in ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"):
        _require(values, name, False)
    layers, hidden = _integer(values, "num_hidden_layers"), _integer(values, "hidden_size")
    global_every = _global_every(values, layers)
    window = int(values.get("local_attention") or 128) // 2 if global_every > 1 else 0
    if window < 1 and global_every > 1:
        raise UnsupportedConfig("local_attention must be at least 2 tokens")
    rope = values.get("rope_parameters") or {}
    full_rope, window_rope = (rope.get(kind) or {} for kind in (FULL, SLIDING))
    for parameters in (full_rope, window_rope):
        if parameters.get("rope_type", "default") != "default":
            problem = f"rotary positions of type {parameters['rope_type']!r}; only 'default' is supported"
            raise UnsupportedConfig(problem)
    full_theta = float(full_rope.get("rope_theta") or values.get("global_rope_theta") or 160_000.0)
    window_theta = (
        float(window_rope.get("rope_theta") or values.get("local_rope_theta") or 0) if global_every > 1 else 0
    )
    return validate(
        EncoderConfig(
            architecture="modern",
            vocab_size=_integer(values, "vocab_size"),
            embedding_size=hidden,
            hidden_size=hidden,
            num_layers=layers,
            num_heads=_integer(values, "num_attention_heads"),
            intermediate_size=_integer(values, "intermediate_size"),
            max_positions=_integer(values, "max_position_embeddings", 8192),
            dropout=float(values.get("mlp_dropout", 0.0)),
            attention_dropout=float(values.get("attention_dropout", 0.0)),
            norm_eps=float(values.get("norm_eps", 1e-5)),
            pad_id=_pad_id(values),
            rope_theta=full_theta,
            global_every=global_every,
            window=window,
            window_theta=window_theta or 10_000.0,
        )
    )


def _deberta_config(values: dict[str, Any]) -> EncoderConfig:
    """Returns the encoder's shape; missing keys have the defaults of DebertaV2Config."""
    for name in ("hidden_act", "pooler_hidden_act"):
        _require(values, name, "gelu")
    if values.get("relative_attention", False) is not True:
        raise UnsupportedConfig("relative_attention must be true: DeBERTa without it is not supported")
    hidden, heads = _integer(values, "hidden_size", 1536), _integer(values, "num_attention_heads", 24)
    _require(values, "pooler_hidden_size", hidden)
    _require(values, "attention_head_size", hidden // max(1, heads))
    kernel = _integer(values, "conv_kernel_size", 0)
    if kernel > 0:
        _require(values, "conv_groups", 1)
        activation = values.get("conv_act", "tanh")
        if kernel % 2 == 0 or activation not in ("tanh", "gelu"):
            problem = f"a convolution over {kernel} tokens with the activation {activation!r}"
            raise UnsupportedConfig(f"{problem}; supported are odd numbers of tokens, tanh and gelu")
    positions = _integer(values, "max_position_embeddings", 512)
    span = _integer(values, "max_relative_positions", -1)
    listed = values.get("pos_att_type") or []
    terms = [kind.strip() for kind in (listed.lower().split("|") if isinstance(listed, str) else listed)]
    if not terms or (unknown := set(terms) - {"c2p", "p2c"}):
        value = "|".join(sorted(unknown)) if terms else json.dumps(values.get("pos_att_type"))
        raise UnsupportedConfig(f"pos_att_type is {value}; c2p and p2c are supported")
    norms = [kind.strip() for kind in str(values.get("norm_rel_ebd", "none")).lower().split("|")]
    if unknown := set(norms) - {"none", "layer_norm"}:
        value = "|".join(sorted(unknown))
        raise UnsupportedConfig(f"norm_rel_ebd is {value}; none and layer_norm are supported")
    return validate(
        EncoderConfig(
            architecture="deberta",
            vocab_size=_integer(values, "vocab_size", 128_100),
            embedding_size=_integer(values, "embedding_size", hidden),
            hidden_size=hidden,
            num_layers=_integer(values, "num_hidden_layers", 24),
            num_heads=heads,
            intermediate_size=_integer(values, "intermediate_size", 6144),
            max_positions=positions,
            dropout=float(values.get("hidden_dropout_prob", 0.1)),
            attention_dropout=float(values.get("attention_probs_dropout_prob", 0.1)),
            norm_eps=float(values.get("layer_norm_eps", 1e-7)),
            pad_id=_pad_id(values),
            num_token_types=_integer(values, "type_vocab_size", 0),
            position_buckets=max(0, _integer(values, "position_buckets", -1)),
            position_span=span if span > 0 else positions,
            content_to_position="c2p" in terms,
            position_to_content="p2c" in terms,
            shared_position_keys=bool(values.get("share_att_key", False)),
            norm_distances="layer_norm" in norms,
            absolute_positions=bool(values.get("position_biased_input", True)),
            mask_decoder=values.get(_DECODER) is True,
            convolution=max(0, kernel),
            convolution_activation=str(values.get("conv_act", "tanh")) if kernel > 0 else "tanh",
        )
    )


_READERS = {"electra": _electra_config, "modern": _modern_config, "deberta": _deberta_config}


def _layer_types(layers: int, every: int) -> list[str]:
    return [SLIDING if index % every else FULL for index in range(layers)]


def _global_every(values: dict[str, Any], layers: int) -> int:
    """Returns n if every nth layer, beginning with the first, attends to all tokens; 1 if all layers do.

    Raises UnsupportedConfig if the layers have another order.
    """
    types = values.get("layer_types")
    if types is None:
        interval = int(values.get("global_attn_every_n_layers") or 3)
        if interval < 1:
            raise UnsupportedConfig(f"global_attn_every_n_layers is {interval}; it must be at least 1")
        return interval if layers > 1 else 1
    types = list(types)
    interval = types.index(FULL, 1) if FULL in types[1:] else max(1, len(types))
    if len(types) == layers and types == _layer_types(layers, interval):
        return interval
    raise UnsupportedConfig("layer_types does not alternate full and sliding attention regularly")


def validate(config: EncoderConfig) -> EncoderConfig:
    """Returns `config` unchanged. Raises UnsupportedConfig if a value is out of range or NaN."""
    hidden, heads, layers = config.hidden_size, config.num_heads, config.num_layers
    sizes = (
        config.vocab_size,
        config.embedding_size,
        hidden,
        layers,
        heads,
        config.intermediate_size,
        config.max_positions,
    )
    # Rotary positions rotate pairs of dimensions.
    divisor = 2 * heads if config.architecture == "modern" else heads
    if (
        min(sizes) < 1
        or max(sizes) > MAX_SIZE
        or hidden % divisor
        or config.architecture not in MODEL_TYPES.values()
        or not (0 if config.architecture == "deberta" else 1) <= config.num_token_types <= MAX_SIZE
        or not 0 <= config.position_buckets <= MAX_SIZE
        or not 0 < config.position_span <= MAX_SIZE
        or (config.position_buckets and not 0 < config.position_buckets // 2 < config.position_span - 1)
    ):
        raise UnsupportedConfig(
            f"no supported encoder has these sizes (hidden {hidden}, heads {heads}, layers {layers})"
        )
    if not (
        0 <= config.dropout < 1
        and 0 <= config.attention_dropout < 1
        and 0 < config.norm_eps < 1
        and 0 < config.rope_theta < math.inf
        and 0 < config.window_theta < math.inf
    ):
        raise UnsupportedConfig("a dropout rate, epsilon or rotary base is out of range")
    if config.max_positions < MIN_POSITIONS:
        raise UnsupportedConfig(f"{config.max_positions} positions; at least {MIN_POSITIONS} are required")
    if not 0 <= config.pad_id < config.vocab_size:
        raise UnsupportedConfig(f"the padding id {config.pad_id} is outside the vocabulary")
    return config


def _require(values: dict[str, Any], name: str, supported: object) -> None:
    if values.get(name, supported) != supported:
        raise UnsupportedConfig(f"{name} is {values[name]!r}; only {supported!r} is supported")


def _labels(values: dict[str, Any]) -> tuple[str, ...]:
    names = values.get("id2label") or {}
    if not isinstance(names, Mapping) or sorted(map(str, names)) != sorted(map(str, range(len(names)))):
        raise UnsupportedConfig("id2label does not number its labels from 0")
    labels = tuple(str(names[key]) for key in sorted(names, key=int))
    if len(set(labels)) < len(labels):
        raise UnsupportedConfig("id2label contains a label twice")
    return labels


def _kind(values: dict[str, Any], architecture: str, labels: tuple[str, ...]) -> Kind:
    """Returns the kind of head by the class that config.json names; "encoder" if it names no known one.

    A modern discriminator is saved as a token classifier; its labels and the OUTPUT key identify it.
    """
    saved_class = (values.get("architectures") or [""])[0]
    if architecture == "modern" and saved_class == CLASSES["modern"]["tagger"]:
        is_discriminator = labels == (REPLACED,) or (labels == (ORIGINAL, REPLACED) and OUTPUT in values)
        return "discriminator" if is_discriminator else "tagger"
    return next((kind for kind, name in CLASSES[architecture].items() if name == saved_class), "encoder")
