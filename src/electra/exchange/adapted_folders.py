"""Folders of encoders that transformers runs: read by its own classes, written as them.

Weights are safetensors and code in a folder is never run. A head that was trained here lies beside the
encoder's weights, under names that transformers ignores; a published head is run by its class.
"""

import json
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electra.exchange.weight_names import CHECK_CONFIG, OWN_HEAD, TUNED, Kind
from electra.foundation.errors import ModelError, translated
from electra.model.adapted import AdaptedEncoder, PublishedHead, quietly, without_code
from electra.model.encoder import Encoder
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.sizes import MAX_LAYERS, MAX_SIZE, EncoderConfig, UnsupportedConfig

NOTE = "runs through transformers: training takes about 1.3 times as long"
HEADS = {"discriminator": DiscriminatorHead, "generator": GeneratorHead}
# The classes that run published heads
AUTO: dict[Kind, str] = {"generator": "AutoModelForMaskedLM"}
AUTO |= {kind: f"AutoModel{ending}" for kind, ending in TUNED.items()}
# Keys of config.json that do not shape the encoder
_OTHER_KEYS = (
    *(OWN_HEAD, "architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path", "id2label"),
    *("label2id", "problem_type", "auto_map", "discriminator_output", "detection_threshold"),
)


def encoder_config(values: Mapping[str, Any]) -> EncoderConfig:
    """Returns an encoder's shape from a config.json of transformers; UnsupportedConfig for any other."""
    from transformers import AutoConfig, AutoModel
    from transformers.models.auto import modeling_auto as known

    model_type = values.get("model_type")
    if model_type not in known.MODEL_MAPPING_NAMES:
        problem = f"the model type {model_type!r} is not supported by transformers"
        code = "; its code is in the folder, which is never run" if values.get("auto_map") else ""
        raise UnsupportedConfig(problem + code)
    generates = model_type in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if generates and model_type not in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise UnsupportedConfig(f"{model_type} is a decoder; only encoders are supported")
    if model_type == "mra":
        raise UnsupportedConfig("mra attends by a CUDA kernel that is fetched and run; pass another encoder")
    if values.get("quantization_config"):
        raise UnsupportedConfig("its weights are quantized by another library; pass the original ones")
    kept = without_code({key: value for key, value in values.items() if key not in _OTHER_KEYS})
    sizes = [value for value in kept.values() if isinstance(value, int)]
    if max(sizes, default=0) > MAX_SIZE or kept.get("num_hidden_layers", 0) > MAX_LAYERS:
        raise UnsupportedConfig("a size is out of range")
    with translated(UnsupportedConfig, f"transformers cannot build this {model_type}"):
        with quietly(), torch.device("meta"):  # without memory for weights
            settings = AutoConfig.for_model(**kept)
            model: Any = AutoModel.from_config(settings)
        accepted = signature(model.forward).parameters
        can_be_padded = model.main_input_name == "input_ids" and "attention_mask" in accepted
        if not can_be_padded or settings.is_encoder_decoder:
            raise UnsupportedConfig(f"{type(model).__name__} is no encoder of texts that can be padded")
        with translated(UnsupportedConfig, f"{model_type} is no encoder of texts", NotImplementedError):
            vocab_size, embedding_size = model.get_input_embeddings().weight.shape
        hidden, positions = settings.hidden_size, getattr(settings, "max_position_embeddings", 512)
        for name, module in model.named_modules():
            if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
                # as in RoBERTa, the rows up to that of padding belong to no token
                first = 0 if module.padding_idx is None else module.padding_idx + 1
                positions = min(positions, module.num_embeddings - first)
        rates = (getattr(settings, name, None) for name in ("hidden_dropout_prob", "dropout"))
        rate = next((rate for rate in rates if isinstance(rate, float)), 0.0)
        return EncoderConfig(
            architecture="transformers",
            vocab_size=vocab_size,
            embedding_size=embedding_size,
            hidden_size=hidden,
            num_layers=settings.num_hidden_layers,
            num_heads=getattr(settings, "num_attention_heads", 1),
            intermediate_size=getattr(settings, "intermediate_size", None) or 4 * hidden,
            max_positions=positions,
            dropout=rate,
            attention_dropout=rate,
            pad_id=getattr(settings, "pad_token_id", 0) or 0,
            num_token_types=getattr(settings, "type_vocab_size", 0) if "token_type_ids" in accepted else 0,
            settings=json.dumps(kept, sort_keys=True),
        )


def read_networks(
    tensors: Mapping[str, Tensor], config: EncoderConfig, kind: Kind, folder: Path
) -> tuple[Encoder, nn.Module | None, list[str]]:
    """Returns the encoder, its head or None, and unused tensors' names; ModelError for other weights."""
    encoder, prefix, head = AdaptedEncoder(config), f"{OWN_HEAD}.", None
    own = {name: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    others = {name: tensor for name, tensor in tensors.items() if name not in own}
    model, unused = _with_weights(encoder.model, others, "" if own else AUTO.get(kind, ""), folder)
    encoder = AdaptedEncoder(config, model.base_model).eval()
    if model.base_model is not model:
        head = PublishedHead(model)
    elif kind == "encoder" or (kind in AUTO and not own):
        unused += sorted(own)
    else:
        head = HEADS[kind](config)
        with translated(ModelError, f"its {OWN_HEAD} does not fit", RuntimeError, where=folder):
            head.load_state_dict({name.removeprefix(prefix): own[name].float() for name in own})
    # It raises whatever the model lacks, such as boxes on a page
    with translated(ModelError, "it does not read texts", where=folder), quietly(), torch.inference_mode():
        fits = encoder(torch.arange(3)[None]).shape == (1, 3, config.hidden_size)
        _ = encoder.reads_padding  # tried before several threads use the model
    if not fits:
        raise ModelError("it does not give a state for each token of a text", where=folder)
    return encoder, None if head is None else head.eval(), unused


def _with_weights(
    model: Any, tensors: Mapping[str, Tensor], auto: str, folder: Path
) -> tuple[Any, list[str]]:
    """Returns the encoder of transformers, or the model of class `auto`, and the unused tensors' names."""
    import transformers

    with translated(ModelError, "transformers cannot load it", where=folder), quietly():
        whole, prefix = model, f"{model.base_model_prefix}."
        if auto:
            with torch.device("meta"):
                whole = getattr(transformers, auto).from_config(model.config)
            for name, each in whole.named_parameters():
                if not name.startswith(prefix) and len(tensors.get(name, each)) != len(each):
                    whole.config.num_labels = len(tensors[name])  # whatever config.json says
        options = {"config": whole.config, "dtype": torch.float32, "output_loading_info": True}
        options["ignore_mismatched_sizes"] = True  # they are in the report
        loaded, report = type(whole).from_pretrained(None, state_dict=dict(tensors), **options)
        places = {name: tensor.data_ptr() for name, tensor in loaded.state_dict().items()}
        of_head = {places[name] for name in places if not name.startswith(prefix)}
        of_head -= {places[name] for name in places if name.startswith(prefix)}
        # The class has a head of its own, but the weights have not, as those of all-mpnet-base-v2
        if auto and of_head and of_head <= {places.get(name) for name in report["missing_keys"]}:
            return _with_weights(model, tensors, "", folder)
    for name, found, expected in sorted(report["mismatched_keys"]):
        differs = f"tensor {name} has the shape {list(found)}, expected {list(expected)}"
        raise ModelError(differs, where=folder, fix=CHECK_CONFIG)
    reads_pooler = auto == AUTO["classifier"]
    if missing := sorted(name for name in report["missing_keys"] if reads_pooler or "pooler" not in name):
        raise ModelError(f"tensor {missing[0]} is missing", where=folder, fix=CHECK_CONFIG)
    return loaded, sorted(name for name in report["unexpected_keys"] if "pooler" not in name)


def folder_parts(
    encoder: AdaptedEncoder, head: nn.Module | None, weights: Mapping[str, Tensor], kind: Kind, dtype: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the tensors and the config.json of an encoder, from our names `encoder.X` and `head.X`."""
    model = head.whole if isinstance(head, PublishedHead) else encoder.model
    settings = model.config.to_dict() | {"architectures": [type(model).__name__], "dtype": dtype}
    if isinstance(head, PublishedHead):
        tensors = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
        in_order = sorted(tensors, key=lambda name: name.startswith(model.base_model_prefix))
        tied = {tensors[name].data_ptr(): name for name in in_order}  # stored once, as the encoder's
        return {name: tensors[name].clone() for name in tied.values()}, settings
    if head is not None:
        settings[OWN_HEAD] = kind
    named = {
        name.removeprefix("encoder.model.").replace("head.", f"{OWN_HEAD}.", name.startswith("head.")): tensor
        for name, tensor in weights.items()
    }
    return {name: tensor.clone().contiguous() for name, tensor in named.items()}, settings
