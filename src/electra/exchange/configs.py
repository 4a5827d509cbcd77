"""Converts between transformers' config.json (ELECTRA, ModernBERT) and `EncoderConfig`."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.artifacts.finetuning_files import FinetuningFolder
from electra.artifacts.model_files import CONFIG, TOKENIZER_CONFIG, ModelFolder, Pooling
from electra.exchange.pooling import PROMPTS, json_settings
from electra.exchange.weight_names import OWN_HEAD, TUNED, Kind, tuned_kind
from electra.foundation import durable
from electra.foundation.errors import ModelError, translated
from electra.model.sizes import MAX_LAYERS, MAX_SIZE, EncoderConfig, UnsupportedConfig

if TYPE_CHECKING:
    from electra.data.corpus.tokenizer_folder import Specials

_HEADS: dict[Kind, str] = {
    "encoder": "Model",
    "discriminator": "ForPreTraining",
    "generator": "ForMaskedLM",
    **TUNED,
}
_FAMILIES = {"electra": "Electra", "modern": "ModernBert"}
# the classes of transformers that load our folders
CLASSES = {ours: {kind: name + head for kind, head in _HEADS.items()} for ours, name in _FAMILIES.items()}
CLASSES["modern"]["discriminator"] = CLASSES["modern"]["tagger"]
FULL, SLIDING = "full_attention", "sliding_attention"  # transformers' names for a layer's attention
MODEL_TYPES = {"electra": "electra", "modernbert": "modern"}
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
# The keys that say what a fine-tuned head's outputs mean
HEAD_KEYS = (
    *("problem_type", "classifier_pooling", "default_label", "word_splitting", "tag_transitions"),
    "treebank",
    *("no_answer_threshold", "output_range"),
)
MAX_LENGTH = "model_max_length"  # in tokenizer_config.json: the number of tokens of an input
CROSS_ENCODER, ACTIVATION = "sentence_transformers", "activation_fn"
SUPPORTED_FOLDERS = "Pass the folder of an encoder, with config.json, model.safetensors and tokenizer.json"
SAVE_AGAIN = "Save the model again with transformers"
# field of EncoderConfig -> key of config.json
_SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_positions": "max_position_embeddings",
}
_KEYS = {
    "electra": {
        **_SIZES,
        "num_token_types": "type_vocab_size",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "norm_eps": "layer_norm_eps",
    },
    "modern": _SIZES | {"dropout": "mlp_dropout", "attention_dropout": "attention_dropout", "norm_eps": "norm_eps"},
}
# the values that our encoders have, of settings that transformers leaves open
_FIXED: dict[str, dict[str, Any]] = {
    "electra": {"hidden_act": "gelu", "position_embedding_type": "absolute"},
    "modern": {
        "hidden_activation": "gelu",
        **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), False),
        "classifier_activation": "gelu",
        "decoder_bias": True,
    },
}


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


def write_config(
    config: EncoderConfig,
    kind: Kind,
    labels: Sequence[str],
    dtype: str,
    specials: "Specials",
    *,
    output: str = LOG_ODDS,
    threshold: float | None = None,
    further: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Returns the contents of config.json, with the keys in `further`.

    `labels` are the names of a fine-tuned head's outputs (those of a modern discriminator are fixed),
    `dtype` is the number format of the stored weights. `output` and `threshold` are those of `FolderConfig`.
    """
    architecture = config.architecture
    if kind == "discriminator" and architecture == "modern":
        labels = (ORIGINAL, REPLACED)
    label_keys: dict[str, Any] = {}
    if kind == "classifier":
        usual = "regression" if len(labels) == 1 else "single_label_classification"
        label_keys["problem_type"] = further.get("problem_type", usual)
    if labels:
        label_keys["id2label"] = {str(i): label for i, label in enumerate(labels)}
        label_keys["label2id"] = {label: i for i, label in enumerate(labels)}
    if kind == "discriminator" and (architecture == "modern" or output != LOG_ODDS):
        label_keys[OUTPUT] = output
    if threshold is not None:
        label_keys[THRESHOLD] = threshold
    if config.settings:
        return {**further, **label_keys}
    own: dict[str, Any] = {"embedding_size": config.embedding_size}
    if architecture == "modern":
        own = _modern_keys(config, specials)
    return {
        "model_type": next(name for name, ours in MODEL_TYPES.items() if ours == architecture),
        "architectures": [CLASSES[architecture][kind]],
        "dtype": dtype,
        **{key: getattr(config, field) for field, key in _KEYS[architecture].items()},
        "initializer_range": 0.02,
        "pad_token_id": config.pad_id,
        "tie_word_embeddings": True,
        **_FIXED[architecture],
        **label_keys,
        **own,
        **further,
    }


def _modern_keys(config: EncoderConfig, specials: "Specials") -> dict[str, Any]:
    has_windows = config.global_every > 1
    rope = {"rope_type": "default", "rope_theta": config.rope_theta}
    window_rope = rope | {"rope_theta": config.window_theta} if has_windows else rope
    return {
        "embedding_dropout": config.dropout,
        "layer_types": _layer_types(config.num_layers, config.global_every),
        "rope_parameters": {FULL: rope, SLIDING: window_rope},
        **({"local_attention": 2 * config.window} if has_windows else {}),
        # the same settings as spelled by transformers 4
        "global_attn_every_n_layers": config.global_every,
        "global_rope_theta": rope["rope_theta"],
        "local_rope_theta": window_rope["rope_theta"],
        # for fine-tuning in transformers: pre-training trains the state at [CLS] little or not at all
        "classifier_pooling": "mean",
        "classifier_dropout": config.dropout,
        **dict.fromkeys(("cls_token_id", "bos_token_id"), specials.cls),
        **dict.fromkeys(("sep_token_id", "eos_token_id"), specials.sep),
    }


def read_config(folder: Path) -> FolderConfig:
    """Reads a model folder's config.json; transformers completes one that leaves out what we need.

    Raises ModelError if the file is missing or damaged, or describes a model that is not supported.
    """
    path = folder / CONFIG
    if not path.exists() and FinetuningFolder.is_at(folder):
        fix = "Use electra predict, or pass its subfolder model/"
        raise ModelError("this is a fine-tuning folder, not a model folder", where=folder, fix=fix)
    values = durable.read_object(path, ModelError, fix=SUPPORTED_FOLDERS)
    if not (model_type := values.get("model_type")):
        named = re.sub(r"(For[A-Z].*|Model)$", "", str((values.get("architectures") or ["Bert"])[0]))
        fix = f'Files of 2019 lack it: add "model_type": "{named.lower()}" if it is a {named}'
        raise ModelError("no model_type", where=path, fix=fix)
    try:
        for name in ("is_decoder", "add_cross_attention"):  # its tensors are those of an encoder
            if values.get(name):
                raise UnsupportedConfig(f"{name} is {json.dumps(values[name])}; only encoders are supported")
        labels, threshold = _labels(values), values.get(THRESHOLD, DEFAULT_THRESHOLD)
        encoder = _encoder_or_other(values, MODEL_TYPES.get(str(model_type)), folder)
        if isinstance(threshold, bool) or not 0 <= threshold <= 1:
            raise UnsupportedConfig(f"{THRESHOLD} must be a probability from 0 to 1, not {threshold!r}")
        architecture = encoder.architecture
        # Only ModernBERT has this setting; the classifiers of the other encoders use the state at [CLS].
        mean_pooled = architecture == "modern" and values.get("classifier_pooling") == "mean"
        return FolderConfig(
            encoder,
            _kind(values, architecture, labels),
            labels,
            is_tied=bool(values.get("tie_word_embeddings", True)),
            pooling="mean" if mean_pooled else "cls",
            position_offset=first_position(values) if architecture == "electra" else 0,
            output=str(values.get(OUTPUT, LOG_ODDS)),
            threshold=threshold,
        )
    except UnsupportedConfig as unsupported:
        raise ModelError(str(unsupported), where=path, fix=SUPPORTED_FOLDERS) from None
    except KeyError as missing:
        raise ModelError(f"{missing.args[0]} is missing", where=path, fix=SAVE_AGAIN) from None
    except (TypeError, ValueError, OverflowError, AttributeError) as wrong:
        raise ModelError(f"a value has the wrong type ({wrong})", where=path, fix=SAVE_AGAIN) from None


class OtherEncoder(UnsupportedConfig):
    """A setting that only transformers' encoder of this type supports."""


def _encoder_or_other(values: Mapping[str, Any], architecture: str | None, folder: Path) -> EncoderConfig:
    """Returns the shape of one of our encoders or, if none is like it, of one that transformers runs."""
    try:
        if architecture is None:
            raise OtherEncoder
        try:
            return _encoder(values, architecture)
        except KeyError:
            return _encoder(_completed(values, folder), architecture)
    except OtherEncoder:
        from electra.exchange.adapted_folders import encoder_config

        return validate(encoder_config(values))


def _completed(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    from transformers import AutoConfig

    if isinstance(layers := values.get("num_hidden_layers"), int) and layers > MAX_LAYERS:
        raise UnsupportedConfig(f"num_hidden_layers is {layers}")  # which transformers would list one by one
    with translated(UnsupportedConfig, "transformers cannot read it"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    return {**config.to_dict(), **values}


def _encoder(values: Mapping[str, Any], architecture: str) -> EncoderConfig:
    for key, value in _FIXED[architecture].items():
        if values.get(key, value) != value:
            raise OtherEncoder(f"{key} is {values[key]!r}")
    shape: dict[str, Any] = {
        field: float(values[key]) if "dropout" in field or field == "norm_eps" else _integer(values, key)
        for field, key in _KEYS[architecture].items()
    }
    shape["embedding_size"] = shape["hidden_size"]
    if values["model_type"] == "electra":
        shape["embedding_size"] = _integer(values, "embedding_size")
    if architecture == "electra":
        shape["max_positions"] -= first_position(values)
    else:
        shape |= _windows(values, shape["num_layers"])
    return validate(EncoderConfig(architecture, pad_id=_pad_id(values), **shape))  # type: ignore[arg-type]


def first_position(values: Mapping[str, Any]) -> int:
    """Returns the first token's row in the position table: 0 or, in RoBERTa, the one after the padding id."""
    return 0 if values["model_type"] in ("electra", "bert") else _pad_id(values) + 1


def _pad_id(values: Mapping[str, Any]) -> int:
    default = 0 if values["model_type"] in ("electra", "bert", "modernbert") else 1
    return default if values.get("pad_token_id") is None else _integer(values, "pad_token_id")


def _integer(values: Mapping[str, Any], name: str) -> int:
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise UnsupportedConfig(f"{name} is {json.dumps(value)}, not a whole number")
    return int(value)


def _windows(values: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Returns the settings of rotary positions, and of layers that attend to a window."""
    types, rope = list(values["layer_types"]), values["rope_parameters"]
    every = types.index(FULL, 1) if FULL in types[1:] else max(1, len(types))
    if len(types) != layers or types != _layer_types(layers, every):
        raise OtherEncoder("layer_types does not alternate full and sliding attention regularly")
    used = [rope[kind] for kind in (FULL, SLIDING)[: 1 + (every > 1)]]
    for parameters in used:
        if (kind := parameters.get("rope_type", "default")) != "default":
            raise OtherEncoder(f"rotary positions of type {kind!r}")
    shape = {"rope_theta": float(used[0]["rope_theta"]), "global_every": every}
    if every > 1:
        window = _integer(values, "local_attention") // 2
        if window < 1:
            raise UnsupportedConfig("local_attention must be at least 2 tokens")
        shape |= {"window": window, "window_theta": float(used[1]["rope_theta"])}
    return shape


def _layer_types(layers: int, every: int) -> list[str]:
    return [SLIDING if index % every else FULL for index in range(layers)]


def head_settings(folder: Path) -> dict[str, Any]:
    """Returns what a fine-tuned head's outputs mean, and MAX_LENGTH if the folder limits it.

    sentence-transformers has kept the function that a cross-encoder's scores go through in three places.
    """
    values = ModelFolder(folder).record
    settings = {"problem_type": None} | {key: values[key] for key in HEAD_KEYS if key in values}
    names = (TOKENIZER_CONFIG, "sentence_bert_config.json", PROMPTS)
    tokenizer, lengths, library = (json_settings(folder / name) for name in names)
    known = (tokenizer.get(MAX_LENGTH), lengths.get("max_seq_length"))
    if usable := [int(length) for length in known if isinstance(length, int | float) and length > 2]:
        settings[MAX_LENGTH] = min(usable)
    old = {ACTIVATION: values.get("sbert_ce_default_activation_function")}
    for place in (library, values.get(CROSS_ENCODER), old):
        if isinstance(place, dict) and place.get(ACTIVATION):
            return settings | {CROSS_ENCODER: {ACTIVATION: str(place[ACTIVATION])}}
    return settings


def validate(config: EncoderConfig) -> EncoderConfig:
    """Returns `config` unchanged. Raises UnsupportedConfig if a value is out of range or NaN."""
    hidden, heads, layers = config.hidden_size, config.num_heads, config.num_layers
    sizes = {key: getattr(config, field) for field, key in _SIZES.items()}
    sizes |= {"embedding_size": config.embedding_size}
    sizes |= {} if config.settings else {"type_vocab_size": config.num_token_types}
    for key, size in sizes.items():
        if not 1 <= size <= MAX_SIZE:
            raise UnsupportedConfig(f"{key} is {size}; it must be from 1 to {MAX_SIZE:,}")
    # Rotary positions rotate pairs of dimensions.
    divisor = 2 * heads if config.architecture == "modern" else heads
    if hidden % divisor or config.architecture not in (*MODEL_TYPES.values(), "transformers"):
        shape = f"hidden {hidden}, heads {heads}, layers {layers}"
        raise UnsupportedConfig(f"no supported encoder has these sizes ({shape})")
    rates, bases = (config.dropout, config.attention_dropout), (config.rope_theta, config.window_theta)
    are_valid = all(0 <= rate < 1 for rate in rates) and all(0 < base < math.inf for base in bases)
    if not (are_valid and 0 < config.norm_eps < 1):
        raise UnsupportedConfig("a dropout rate, epsilon or rotary base is out of range")
    if config.max_positions < 3:  # [CLS], a token, [SEP]
        raise UnsupportedConfig(f"{config.max_positions} positions; at least 3 are required")
    if not 0 <= config.pad_id < config.vocab_size:
        raise UnsupportedConfig(f"the padding id {config.pad_id} is outside the vocabulary")
    return config


def _labels(values: dict[str, Any]) -> tuple[str, ...]:
    names = values.get("id2label") or {}
    valid = isinstance(names, Mapping) and all(str(key).isdecimal() and int(key) <= MAX_SIZE for key in names)
    numbered = {int(key): str(name) for key, name in names.items()} if valid else {}
    labels = tuple(numbered.get(index, f"LABEL_{index}") for index in range(max(numbered, default=-1) + 1))
    if not valid or len(set(labels)) < len(labels):
        raise UnsupportedConfig("id2label must number different labels, from 0")
    unnamed, count = all(name == f"LABEL_{i}" for i, name in enumerate(labels)), values.get("num_labels")
    if labels and unnamed and isinstance(count, int) and count <= MAX_SIZE:
        return tuple(f"LABEL_{i}" for i in range(count))  # older files name two, however many there are
    return labels


def _kind(values: dict[str, Any], architecture: str, labels: tuple[str, ...]) -> Kind:
    """Returns the kind of head; discriminators saved as taggers are known by labels and the OUTPUT key."""
    saved_class = str((values.get("architectures") or [""])[0])
    if architecture == "transformers":
        if (own := values.get(OWN_HEAD)) in ("discriminator", "generator"):
            return own  # type: ignore[no-any-return]
        is_language_model = saved_class.endswith(("ForMaskedLM", "ForPreTraining", "WithLMHeadModel"))
        detects = saved_class == CLASSES["electra"]["discriminator"]
        return "generator" if is_language_model and not detects else tuned_kind(saved_class)
    if saved_class == CLASSES[architecture]["tagger"]:
        is_discriminator = labels == (REPLACED,) or (labels == (ORIGINAL, REPLACED) and OUTPUT in values)
        return "discriminator" if is_discriminator else "tagger"
    named = (kind for kind, name in CLASSES[architecture].items() if name == saved_class)
    return next(named, tuned_kind(saved_class))
