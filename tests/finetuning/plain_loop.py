"""A training loop written with transformers, whose losses the fine-tuning loop must reproduce.

It has 20 steps, 2 of them warm-up, then linear decay.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.card import Card
from electra.exchange.huggingface import write_model
from electra.exchange.loaded import Loaded
from electra.finetuning.finetuned_model import FinetunedModel
from electra.finetuning.train.prepared import Finetuning
from electra.finetuning.train.saved_model import config_values

RATE, STEPS, WARMUP = 2e-3, 20, 2


def losses_of(
    model: torch.nn.Module,
    groups: Iterable[Any],
    order: Sequence[Sequence[int]],
    loss_of: Callable[[Sequence[int]], torch.Tensor],
) -> list[float]:
    """Train `model` on the examples of each batch in `order`; `loss_of` asks it for a batch's loss."""
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0)
    peaks = [group["lr"] for group in optimizer.param_groups]
    losses = []
    for step in range(STEPS):
        loss = loss_of(order[step])
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        share = (step + 1) / WARMUP if step < WARMUP else (STEPS - step) / (STEPS - WARMUP)
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * share
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def groups_with_decay(model: torch.nn.Module, decay: float) -> list[dict[str, Any]]:
    """Layer-wise decay by transformers' names, for two layers: head 0, layer 1 (the top) 1, layer 0 2,
    embeddings 3.
    """
    groups = []
    for name, parameter in model.named_parameters():
        exponent = 3 if "embeddings" in name else 2 if "layer.0." in name or "layers.0." in name else 0
        if "layer.1." in name or "layers.1." in name or "final_norm" in name:
            exponent = 1
        groups.append({"params": [parameter], "lr": RATE * decay**exponent})
    return groups


def write_start(folder: Path, start: FinetunedModel, tuning: Finetuning, tokenizer: Tokenizer) -> Path:
    """Fresh heads as a folder, for transformers to begin from the same weights."""
    kind, labels, values = tuning.task.head, tuning.task.label_names, config_values(tuning, {})
    config = start.encoder.config
    model = Loaded(start.encoder, start.head, config, tokenizer, kind, tuple(labels), folder)
    write_model(folder, model, Card("x", kind), values=values)
    return folder
