"""The standard heads: classifiers, taggers and readers.

A classifier reads one vector per text, chosen by `pooling`: the state of [CLS] ("cls"); the mean of the
states of all tokens ("mean", as with `classifier_pooling = "mean"` in ModernBERT); their maximum ("max"); or
the last token's state ("last"). Special tokens are included, padding is not. ElectraForSequenceClassification
supports only [CLS], so with another pooling the encoder is saved with the head in a separate file.
Published heads are read as they are.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from electra.artifacts.model_files import Pooling
from electra.finetuning.heads.parts.contract import Head, HeadModule
from electra.finetuning.task import HeadKind
from electra.finetuning.windows.features import LabelledBatch
from electra.model.adapted import PublishedHead
from electra.model.encoder import Encoder
from electra.model.sizes import EncoderConfig


class ElectraClassifier(Head):
    """ELECTRA's classifier: dropout, dense, gelu, dropout, output on the pooled text."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    @override
    def features(self, x: Tensor) -> Tensor:
        return F.gelu(self.dense(self.drop(x)))


class BertClassifier(Head):
    """The published classifier of BERT and RoBERTa: pooler, tanh, output on the state at [CLS]."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)

    @override
    def features(self, x: Tensor) -> Tensor:
        return torch.tanh(self.pooler(x))


class PublishedTuned(HeadModule):
    """A published head that transformers runs together with its encoder."""

    not_in_graphs = "encoders that run through transformers are not exported here"

    def __init__(self, model: PublishedHead, kind: HeadKind) -> None:
        super().__init__()
        self.model, self.per_token = model, kind != "classifier"

    @override
    def encode(self, encoder: Encoder, batch: LabelledBatch) -> Tensor:
        """Returns the logits."""
        types = batch.token_type_ids if encoder.config.reads_token_types else None
        return self.model.tuned_logits(batch.input_ids, batch.document_ids, types)

    @override
    def forward(self, logits: Tensor, batch: LabelledBatch) -> Tensor:
        return logits


class ModernClassifier(Head):
    """ModernBERT's classifier: dense, gelu, norm, dropout, output on the pooled text."""

    def __init__(self, config: EncoderConfig, num_outputs: int, pooling: Pooling = "cls") -> None:
        super().__init__(config, num_outputs, pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)

    @override
    def features(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.norm(F.gelu(self.dense(x))))


class ModernTokens(ModernClassifier):
    """ModernBERT's tagger and reader: the classifier's layers on every token."""

    per_token = True


class LinearTagger(Head):
    """ELECTRA's tagger: dropout and output on every token."""

    per_token = True


class LinearReader(LinearTagger):
    """ELECTRA's reader: a linear layer on every token, for start and end, without dropout of its own."""

    @override
    def drop(self, x: Tensor) -> Tensor:
        return x
