"""A fine-tuned error detector (a tagger's folder) as a scorer of words, to stand beside models that were not
fine-tuned.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electra.artifacts.tuning import TuningFolder
from electra.exchange.load import load
from electra.foundation.arrays import Floats, Ints
from electra.foundation.errors import ModelError
from electra.inference.detection import tokenize
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.words import combine, owners
from electra.model.precision import to_float64

if TYPE_CHECKING:
    from torch import Tensor

    from electra.exchange.load import Loaded

CORRECT = ("c", "o", "correct", "original", "0")  # names of the label that says nothing is wrong


def folder_of(source: str) -> Path:
    """The model's folder: a fine-tuning keeps it in model/."""
    inner = TuningFolder(Path(source)).model.path
    return inner if inner.is_dir() else Path(source)


def detector_values(source: str, sentences: Sequence[Sequence[str]]) -> list[Floats]:
    """For each word, the log-odds that its label is not "correct", at its first token, as taggers learn."""
    loaded = load(folder_of(source), "tagger")
    correct = [i for i, label in enumerate(loaded.labels) if label.lower() in CORRECT]
    if len(correct) != 1 or len(loaded.labels) < 2:
        told = f"its labels ({', '.join(loaded.labels)}) do not say which one is correct"
        raise ModelError(told, where=source, fix=f"One of them must be named {' or '.join(CORRECT)}")
    room = token_rows.room(loaded)
    rows = [tokenize(loaded.tokenizer, " ".join(words)).ids[:room] for words in sentences]
    values = _log_odds(loaded, rows, correct[0])
    return [
        combine(value, owners(loaded.tokenizer, words)[:room], len(words), "first")
        for value, words in zip(values, sentences, strict=True)
    ]


def _log_odds(loaded: Loaded, rows: Sequence[Ints], correct: int) -> list[Floats]:
    import torch

    from electra.model.passes import PaddedBatch, map_rows

    def judge(one: PaddedBatch) -> list[Floats]:
        logits = _head(loaded, loaded.encoder(one.input_ids, piece_ids=one.piece_ids))
        log_p = to_float64(logits).log_softmax(-1)
        wrong = torch.log1p(-log_p[..., correct].exp().clamp(max=1 - 1e-15)) - log_p[..., correct]
        return one.unpadded(wrong)

    found = map_rows(token_rows.framed(loaded, rows), judge, loaded.device, pad=loaded.tokenizer.specials.pad)
    return [values[1:-1] for values in found]


def _head(loaded: Loaded, hidden_BTD: Tensor) -> Tensor:
    """transformers' token classifiers: ELECTRA's one matrix, or ModernBERT's dense layer and norm before."""
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
