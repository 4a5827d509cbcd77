"""Exports a fine-tuned model as an ONNX graph, and runs such a graph as a fine-tuned model.

The outputs of the graph are the encoder's states and the head's logits.
"""

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from electra.exchange.onnx_graph import LOGITS, Graph, OnnxEncoder
from electra.finetuning.finetuned_model import FinetunedModel
from electra.finetuning.windows.features import LabelledBatch


class FinetunedGraph(Graph):
    """A fine-tuned model with the inputs of the graph, for tracing."""

    def __init__(self, model: FinetunedModel, *, types: bool) -> None:
        super().__init__(model.encoder, model.head, types=types)
        self.per_token = model.per_token

    @override
    def logits(self, hidden_BTD: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        types = torch.zeros_like(attention_mask) if token_type_ids is None else token_type_ids
        assert self.head is not None
        # Exportable heads only read the shape of the token ids. Document ids are 0 at tokens, -1 at padding.
        batch = LabelledBatch(np.arange(0), attention_mask, types, attention_mask - 1, None)
        return torch.as_tensor(self.head(hidden_BTD, batch))


class GraphModel(FinetunedModel):
    """A fine-tuned model whose encoder and head run as an ONNX graph."""

    def __init__(self, encoder: OnnxEncoder, per_token: bool) -> None:
        nn.Module.__init__(self)
        self.encoder, self._per_token = encoder, per_token

    @property
    @override
    def per_token(self) -> bool:
        return self._per_token

    @override
    def forward(self, batch: LabelledBatch) -> Tensor:
        assert isinstance(self.encoder, OnnxEncoder)
        types = batch.token_type_ids
        return torch.from_numpy(self.encoder.run(LOGITS, batch.input_ids, batch.document_ids, types))
