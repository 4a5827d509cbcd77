"""Models as others publish them: every shape that we read, with random weights, saved by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from electra.data.tokenizer import Tokenizer

TOLERANCE = 1e-5
LENGTH = 75  # more than one block of DeBERTa's distances
SIZES = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40, "num_hidden_layers": 3}
ROBERTA = {"max_position_embeddings": 82, "type_vocab_size": 1, "pad_token_id": 1}
V3 = {
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "max_relative_positions": -1,
    "position_biased_input": False,
}
DEBERTA: dict[str, dict[str, Any]] = {
    "v3": V3,
    "v2 xlarge": V3 | {"conv_kernel_size": 3, "conv_act": "gelu"},
    "own projections": V3 | {"share_att_key": False, "pos_att_type": "c2p|p2c"},
    "content to position": V3 | {"pos_att_type": ["c2p"]},
    "position to content": V3 | {"pos_att_type": "p2c", "share_att_key": False},
    "no buckets": V3 | {"position_buckets": -1, "max_relative_positions": 12},
    "positions and types": V3 | {"position_biased_input": True, "norm_rel_ebd": "none", "type_vocab_size": 2},
    "a wide convolution": V3 | {"conv_kernel_size": 5},
    "narrow embeddings": V3 | {"embedding_size": 16},
}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT": ("Bert", {}),
    "RoBERTa": ("Roberta", ROBERTA),
    "XLM-RoBERTa": ("XLMRoberta", ROBERTA),
    "ELECTRA": ("Electra", {"embedding_size": 16}),
    "ModernBERT": ("ModernBert", {"num_hidden_layers": 4, "local_attention": 8}),
    "ModernBERT, every second layer": (
        "ModernBert",
        {"num_hidden_layers": 5, "local_attention": 6, "global_attn_every_n_layers": 2},
    ),
    "mmBERT": (
        "ModernBert",
        {
            "num_hidden_layers": 4,
            "local_attention": 8,
            "global_rope_theta": 160_000,
            "local_rope_theta": 160_000,
        },
    ),
    "ModernBERT, a window as long as the text": (
        "ModernBert",
        {"num_hidden_layers": 4, "local_attention": 160},
    ),
    **{f"DeBERTa, {name}": ("DebertaV2", shape) for name, shape in DEBERTA.items()},
}


def published(name: str, folder: Path, tokenizer: Tokenizer, head: str = "Model", **changes: Any) -> Any:
    """A model of that shape with random weights everywhere, with our tokenizer beside it."""
    family, options = SHAPES[name]
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
