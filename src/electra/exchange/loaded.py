"""A loaded model: what every reader of models returns."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.configs import DEFAULT_THRESHOLD, LOG_ODDS
from electra.exchange.pooling import TextVector
from electra.exchange.weight_names import Kind
from electra.model.encoder import Encoder
from electra.model.precision import finite
from electra.model.sizes import EncoderConfig


@dataclass(frozen=True)
class Loaded:
    """A model ready for use: fp32, evaluation mode."""

    encoder: Encoder
    # None for an encoder without a head, and for a fine-tuned head, whose parameters are in `head_weights`
    # unless transformers runs it
    head: nn.Module | None
    config: EncoderConfig
    tokenizer: Tokenizer
    kind: Kind
    labels: tuple[str, ...]
    folder: Path  # the model folder, or the newest checkpoint that was used
    head_weights: dict[str, Tensor] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()  # lines for the user, for example about unused weights
    text_vector: TextVector = field(default_factory=TextVector)  # from token states to the text's vector
    output: str = LOG_ODDS  # meaning of a discriminator's logits: log-odds of "replaced", or energies
    threshold: float = DEFAULT_THRESHOLD  # lowest P(replaced) at which `detect` marks a word

    def to(self, device: torch.device | str) -> Self:
        """Moves the weights in place and returns the model."""
        self.encoder.to(device)
        if self.head is not None:
            self.head.to(device)
        return self

    @property
    def device(self) -> torch.device:
        """The device of the encoder's weights."""
        return next(self.encoder.parameters()).device

    def logits(self, input_ids: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Returns a discriminator's logits [B, T] or a generator's [B, T, V], on the model's device.

        `input_ids` and `document_ids` are [B, T]; the latter are those of `Encoder.forward`.
        """
        document_ids = None if document_ids is None else document_ids.to(self.device)
        hidden = self.encoder(input_ids.to(self.device), document_ids=document_ids)
        if self.kind == "generator":
            return self.token_logits(hidden)
        assert self.head is not None
        return finite(self.head(hidden))

    def token_logits(self, hidden: Tensor) -> Tensor:
        """Returns a generator's logits [..., V], V the tokenizer's vocabulary, for hidden states [..., D]."""
        assert self.head is not None
        return finite(self.head(hidden, self.encoder.token_table()))[..., : self.tokenizer.vocab_size]
