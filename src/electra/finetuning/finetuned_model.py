"""The model that is fine-tuned: an encoder with a head.

If transformers has no class with the head, the head is saved in a separate file next to the encoder.
"""

from torch import Tensor, nn

from electra.artifacts.model_files import Pooling
from electra.finetuning.heads import load_head
from electra.finetuning.heads.parts.contract import HeadModule, HeadShape
from electra.finetuning.task import HeadKind
from electra.finetuning.windows.features import LabelledBatch
from electra.foundation.extensions import HEADS, explained
from electra.model.encoder import Encoder
from electra.model.pair import initialise
from electra.model.sizes import Architecture


class FinetunedModel(nn.Module):
    """An encoder with a head; maps a batch to logits."""

    def __init__(self, encoder: Encoder, head: HeadModule) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    @property
    def per_token(self) -> bool:
        """Whether the model has logits for each token rather than for each text."""
        return self.head.per_token

    def forward(self, batch: LabelledBatch) -> Tensor:
        """Returns logits [B, outputs], or [B, T, outputs] if `per_token`."""
        encoded = self.head.encode(self.encoder, batch)
        logits: Tensor = self.head(encoded, batch)
        return logits


def build_head(name: str, shape: HeadShape, seed: int) -> HeadModule:
    """Returns a new head; its initial weights depend only on the seed and their names."""
    with explained(HEADS, name, "build"):
        head = load_head(name).build(shape)
        if not isinstance(head, HeadModule):
            raise TypeError(f"returns {type(head).__name__}, not a HeadModule")
    initialise(nn.ModuleDict({"finetune": head}), seed, "paper")
    return head


def has_class(kind: HeadKind, name: str, architecture: Architecture, pooling: Pooling) -> bool:
    """Whether transformers has a class with this head and pooling."""
    if kind == "classifier" and pooling not in ("cls", "mean")[: 1 + (architecture == "modern")]:
        return False
    return load_head(name).has_class(kind, architecture)
