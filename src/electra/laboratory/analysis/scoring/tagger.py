"""Scores words with a fine-tuned error detector (the folder of a tagger)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electra.artifacts.finetuning import FinetuningFolder
from electra.exchange.load import load
from electra.foundation.arrays import Floats, Ints
from electra.foundation.errors import ModelError
from electra.inference.detection import tokenize
from electra.laboratory.analysis.scoring import token_rows
from electra.laboratory.analysis.scoring.words import first_token_values, word_ids
from electra.model.precision import to_float64

if TYPE_CHECKING:
    from torch import Tensor

    from electra.exchange.load import Loaded

CORRECT = ("c", "o", "correct", "original", "0")  # possible names of the label for a correct word


def model_folder(source: str) -> Path:
    """Returns the folder with the model's files: `source`/model if there is one, otherwise `source`."""
    subfolder = FinetuningFolder(Path(source)).model.path
    return subfolder if subfolder.is_dir() else Path(source)


def detector_values(source: str, sentences: Sequence[Sequence[str]]) -> list[Floats]:
    """Returns, for each sentence, the log-odds [words] that each word is labelled as wrong.

    They are read at a word's first token, as in training. A word without tokens, or beyond the length that
    the model reads, gets NaN.

    Raises:
        ModelError: The folder holds no tagger, or the detector has only one label or not exactly one that is
            named in `CORRECT`.
    """
    loaded = load(model_folder(source), "tagger")
    correct_labels = [i for i, label in enumerate(loaded.labels) if label.lower() in CORRECT]
    if len(correct_labels) != 1 or len(loaded.labels) < 2:
        problem = (
            "an error detector needs a label for errors and exactly one for correct words, but its labels are"
            f" {', '.join(loaded.labels)}"
        )
        fix = f"Name the label for correct words {' or '.join(CORRECT)}"
        raise ModelError(problem, where=source, fix=fix)
    max_length = token_rows.max_row_length(loaded)
    rows = [tokenize(loaded.tokenizer, " ".join(words)).ids[:max_length] for words in sentences]
    values = _log_odds(loaded, rows, correct_labels[0])
    return [
        first_token_values(value, word_ids(loaded.tokenizer, words)[:max_length], len(words))
        for value, words in zip(values, sentences, strict=True)
    ]


def _log_odds(loaded: Loaded, rows: Sequence[Ints], correct: int) -> list[Floats]:
    import torch

    from electra.model.passes import PaddedBatch, map_rows

    def log_odds_of_batch(batch: PaddedBatch) -> list[Floats]:
        logits = _classify(loaded, loaded.encoder(batch.input_ids, document_ids=batch.document_ids))
        log_p = to_float64(logits).log_softmax(-1)
        log_odds_wrong = torch.log1p(-log_p[..., correct].exp().clamp(max=1 - 1e-15)) - log_p[..., correct]
        return batch.unpadded(log_odds_wrong)

    log_odds = map_rows(
        token_rows.with_special_tokens(loaded, rows),
        log_odds_of_batch,
        loaded.device,
        pad=loaded.tokenizer.specials.pad,
    )
    return [values[1:-1] for values in log_odds]


def _classify(loaded: Loaded, hidden_BTD: Tensor) -> Tensor:
    """Returns the logits of a token classifier.

    It is a linear layer, preceded in ModernBERT by a dense layer with GELU and a norm.
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
