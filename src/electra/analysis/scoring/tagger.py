"""A fine-tuned error detector (a tagger's folder) as a scorer of words, to stand beside models that were not
fine-tuned.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from electra.analysis.scoring import token_rows
from electra.analysis.scoring.token_rows import Floats
from electra.analysis.scoring.words import combine, owners
from electra.artifacts.tuning import TuningFolder
from electra.errors import ModelError
from electra.interop.detection import split
from electra.interop.load import load

if TYPE_CHECKING:
    from torch import Tensor

    from electra.interop.load import Loaded

CORRECT = ("c", "o", "correct", "original", "0")  # names of the label that says nothing is wrong


def folder_of(source: str) -> Path:
    """The model's folder: a fine-tuning keeps it in model/."""
    inner = TuningFolder(Path(source)).model.path
    return inner if inner.is_dir() else Path(source)


def detector_values(source: str, sentences: Sequence[Sequence[str]]) -> list[Floats]:
    """For each word, the log-odds that its label is not "correct", read at its first token, where taggers are
    trained.
    """
    loaded = load(folder_of(source), "tagger")
    correct = [i for i, label in enumerate(loaded.labels) if label.lower() in CORRECT]
    if len(correct) != 1 or len(loaded.labels) < 2:
        told = f"its labels ({', '.join(loaded.labels)}) do not say which one is correct"
        raise ModelError(told, where=source, fix=f"One of them must be named {' or '.join(CORRECT)}")
    room = token_rows.room(loaded)
    rows = [split(loaded.tokenizer, " ".join(words)).ids[:room] for words in sentences]
    values = _log_odds(loaded, rows, correct[0])
    return [
        combine(value, owners(loaded.tokenizer, words)[:room], len(words), "first")
        for value, words in zip(values, sentences, strict=True)
    ]


def _log_odds(loaded: Loaded, rows: Sequence[token_rows.Ints], correct: int) -> list[Floats]:
    import torch

    found: list[Floats] = [np.zeros(0)] * len(rows)
    for group in token_rows.batches(rows):
        with torch.inference_mode():
            device = next(loaded.encoder.parameters()).device
            hidden = loaded.encoder(
                torch.from_numpy(token_rows.framed(loaded, [rows[i] for i in group])).to(device)
            )
            log_p = _head(loaded, hidden).double().log_softmax(-1)
            wrong = torch.log1p(-log_p[..., correct].exp().clamp(max=1 - 1e-15)) - log_p[..., correct]
        for index, values in zip(group, wrong.cpu().numpy(), strict=True):
            found[index] = values[1:-1]
    return found


def _head(loaded: Loaded, hidden_BTD: Tensor) -> Tensor:
    """The token classifiers of transformers: ELECTRA's one matrix, or ModernBERT's dense layer and norm
    before it.
    """
    from torch.nn import functional as F

    weights = {name: tensor.to(hidden_BTD.device) for name, tensor in loaded.head_weights.items()}
    if "dense.weight" in weights:
        hidden_BTD = F.gelu(F.linear(hidden_BTD, weights["dense.weight"], weights.get("dense.bias")))
    if "norm.weight" in weights:
        size = (hidden_BTD.shape[-1],)
        hidden_BTD = F.layer_norm(
            hidden_BTD, size, weights["norm.weight"], weights.get("norm.bias"), loaded.config.norm_eps
        )
    return F.linear(hidden_BTD, weights["output.weight"], weights["output.bias"])
