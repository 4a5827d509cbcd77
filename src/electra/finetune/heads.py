"""What stands on the encoder in fine-tuning.

`transformers` (default): the head of the transformers class that the model is saved as, so that the saved folder is the model that was
trained: ElectraForSequenceClassification, or ModernBertForSequenceClassification for the modern encoder.
`linear`: dropout and one matrix on [CLS], as in the original code. transformers has no class for it, so such a model can be measured
but not saved.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from electra.finetune.features import Batch
from electra.finetune.tasks import HeadKind
from electra.model.encoder import Encoder
from electra.model.pair import initialise
from electra.model.sizes import EncoderConfig

HeadStyle = Literal["transformers", "linear"]


class ElectraClassifier(nn.Module):
    """dropout -> dense -> gelu -> dropout -> output, on [CLS]."""

    def __init__(self, config: EncoderConfig, num_outputs: int) -> None:
        super().__init__()
        self.rate = config.dropout
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, num_outputs)

    def forward(self, hidden_BTD: Tensor) -> Tensor:
        x_BD = F.dropout(hidden_BTD[:, 0], self.rate, self.training)
        x_BD = F.dropout(F.gelu(self.dense(x_BD)), self.rate, self.training)
        logits: Tensor = self.output(x_BD)
        return logits


class ModernClassifier(nn.Module):
    """dense -> gelu -> norm -> dropout -> output, on [CLS]."""

    def __init__(self, config: EncoderConfig, num_outputs: int) -> None:
        super().__init__()
        self.rate = config.dropout
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)
        self.output = nn.Linear(config.hidden_size, num_outputs)

    def forward(self, hidden_BTD: Tensor) -> Tensor:
        x_BD = self.norm(F.gelu(self.dense(hidden_BTD[:, 0])))
        logits: Tensor = self.output(F.dropout(x_BD, self.rate, self.training))
        return logits


class LinearClassifier(nn.Module):
    """dropout -> output, on [CLS]."""

    def __init__(self, config: EncoderConfig, num_outputs: int) -> None:
        super().__init__()
        self.rate = config.dropout
        self.output = nn.Linear(config.hidden_size, num_outputs)

    def forward(self, hidden_BTD: Tensor) -> Tensor:
        logits: Tensor = self.output(F.dropout(hidden_BTD[:, 0], self.rate, self.training))
        return logits


class FineTuned(nn.Module):
    """An encoder with a task's head."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, batch: Batch) -> Tensor:
        hidden_BTD = self.encoder(batch.input_ids, piece_ids=batch.piece_ids, token_type_ids=batch.token_type_ids)
        logits: Tensor = self.head(hidden_BTD)
        return logits


def build_head(kind: HeadKind, style: HeadStyle, config: EncoderConfig, num_outputs: int, seed: int) -> nn.Module:
    """A fresh head; its weights depend on the seed and on their names only."""
    assert kind == "classifier", f"no head for {kind} yet"
    classes: dict[str, type[nn.Module]] = {"electra": ElectraClassifier, "modern": ModernClassifier}
    made = LinearClassifier if style == "linear" else classes[config.architecture]
    head = made(config, num_outputs)
    initialise(nn.ModuleDict({"finetune": head}), seed, "paper")
    return head
