"""Models as others publish them: every shape that we read, with random weights, saved by transformers."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers

from electra.data.corpus.tokenizer import Tokenizer

TOLERANCE = 1e-5
LENGTH = 75
SIZES = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "num_hidden_layers": 3}
GROUPS = [f"{part}_groups" for part in ("q", "k", "v", "post_attention", "intermediate", "output")]
ROBERTA = {"max_position_embeddings": 82, "type_vocab_size": 1, "pad_token_id": 1}
# Encoders of our own modules
THETAS = ("global_rope_theta", "local_rope_theta")


def windows(layers: int, width: int) -> dict[str, Any]:
    return {"num_hidden_layers": layers, "local_attention": width}


SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT": ("Bert", {}),
    "RoBERTa": ("Roberta", ROBERTA),
    "XLM-RoBERTa": ("XLMRoberta", ROBERTA),
    "ELECTRA": ("Electra", {"embedding_size": 16}),
    "ModernBERT": ("ModernBert", windows(4, 8)),
    "ModernBERT, every second layer": ("ModernBert", windows(5, 6) | {"global_attn_every_n_layers": 2}),
    "mmBERT": ("ModernBert", windows(4, 8) | dict.fromkeys(THETAS, 160_000)),
    "ModernBERT, a window as long as the text": ("ModernBert", windows(4, 160)),
}
# Encoders that transformers runs, through the adapter
ADAPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "DeBERTa": (
        "DebertaV2",
        {
            "relative_attention": True,
            "position_buckets": 8,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": "p2c|c2p",
            "position_biased_input": False,
            "type_vocab_size": 0,
        },
    ),
    "DistilBERT": ("DistilBert", {"dim": 24, "n_heads": 3, "n_layers": 3, "hidden_dim": 40}),
    "MPNet": ("MPNet", ROBERTA),
    "ALBERT": ("Albert", {"embedding_size": 16}),
    "NomicBERT": ("NomicBert", {}),
    "EuroBERT": ("EuroBert", {"num_key_value_heads": 3}),
    "RoFormer": ("RoFormer", {"embedding_size": 16}),
}
TWELVE = [name for name in (*SHAPES, *ADAPTED) if "," not in name and name != "mmBERT"]
# Of these, the states alone are tested
FURTHER: dict[str, tuple[str, dict[str, Any]]] = {
    "XLM-R, another activation": ("XLMRoberta", ROBERTA | {"hidden_act": "gelu_new"}),
    "BigBird": ("BigBird", {"attention_type": "original_full"}),
    "ERNIE": ("Ernie", {}),
    "GTE": ("Gte", {}),
    "LayoutLM": ("LayoutLM", {}),
    "Longformer": ("Longformer", ROBERTA | {"max_position_embeddings": 90, "attention_window": 8}),
    "LUKE": ("Luke", ROBERTA | {"entity_vocab_size": 9, "entity_emb_size": 8}),
    "MegatronBERT": ("MegatronBert", {}),
    "RemBERT": ("RemBert", {"input_embedding_size": 16, "output_embedding_size": 16}),
    "SqueezeBERT": ("SqueezeBert", {"embedding_size": 24, **dict.fromkeys(GROUPS, 1)}),
}
FAMILIES = SHAPES | ADAPTED | FURTHER | {"boxes": ("Bros", {})}


def published(name: str, folder: Path, tokenizer: Tokenizer, head: str = "Model", **changes: Any) -> Any:
    """A model of that shape with random weights everywhere, with our tokenizer beside it."""
    family, options = FAMILIES[name]
    torch.manual_seed(1)
    shape = {"max_position_embeddings": 80, "pad_token_id": 0, **SIZES, **options, **changes}
    config = getattr(transformers, f"{family}Config")(vocab_size=tokenizer.vocab_size, **shape)
    model = getattr(transformers, f"{family}{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # away from what a fresh one has: biases of 0, norms of 1
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return model


def edit(folder: Path, **changes: Any) -> None:
    """Changes a folder's config.json."""
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


def rows(pad: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns padded ids, which of them are tokens, and our document ids, all [3, LENGTH]."""
    ids = torch.randint(5, 100, (3, LENGTH), generator=torch.Generator().manual_seed(0))
    real = torch.arange(LENGTH)[None] < torch.tensor([LENGTH, 20, 4])[:, None]
    return ids.masked_fill(~real, pad), real, torch.where(real, 0, -1)


def loaded_again(folder: Path, head: str = "Model") -> Any:
    """What transformers makes of a folder of ours, without a weight missing or left over."""
    model, report = getattr(transformers, f"Auto{head}").from_pretrained(folder, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    return model.eval()
