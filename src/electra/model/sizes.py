"""Model sizes: the paper's (Table 6), the released `small++`, and two for CPUs.

The paper's rule: attention heads are 64 wide, and the generator is the discriminator with hidden size,
feed-forward size and number of heads multiplied by a fraction. `small++` is the released small model, whose
generator is full-size (Google's README).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from electra.foundation.errors import ConfigError, nearest

HEAD_SIZE = 64
MAX_SIZE = 1 << 20  # larger sizes are mistakes or damaged files, rejected before memory is allocated
MAX_LAYERS = 1_000
Architecture = Literal["electra", "modern", "transformers"]


class UnsupportedConfig(Exception):
    """A setting that no encoder here supports."""


@dataclass(frozen=True)
class Size:
    """A discriminator's size, and the relative width of its generator."""

    num_layers: int
    hidden_size: int
    embedding_size: int
    generator_width: float  # fraction of the discriminator's hidden size
    max_positions: int = 512


SIZES: dict[str, Size] = {
    "tiny": Size(num_layers=4, hidden_size=128, embedding_size=128, generator_width=1 / 4),
    "mini": Size(num_layers=4, hidden_size=256, embedding_size=128, generator_width=1 / 4),
    "small": Size(num_layers=12, hidden_size=256, embedding_size=128, generator_width=1 / 4),
    "small++": Size(num_layers=12, hidden_size=256, embedding_size=128, generator_width=1.0),
    "base": Size(num_layers=12, hidden_size=768, embedding_size=768, generator_width=1 / 3),
    "large": Size(num_layers=24, hidden_size=1024, embedding_size=1024, generator_width=1 / 4),
}


@dataclass(frozen=True)
class EncoderConfig:
    """All settings that determine an encoder's shape and forward pass."""

    architecture: Architecture
    vocab_size: int
    embedding_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.1
    norm_eps: float = 1e-12
    pad_id: int = 0
    num_token_types: int = 2  # in the paper's encoder
    settings: str = ""  # of an encoder that transformers runs: its config.json
    # The modern encoder only
    rope_theta: float = 10_000.0  # base of the rotary positions
    global_every: int = 1  # every nth layer from the first attends to all tokens, the others to a window
    window: int = 0  # tokens to either side, in layers with a window
    window_theta: float = 10_000.0  # base of the rotary positions, in layers with a window

    @property
    def reads_token_types(self) -> bool:
        """Whether the encoder tells token types apart."""
        return self.architecture != "modern" and self.num_token_types > 1

    @property
    def feed_forward_matrices(self) -> int:
        """The number of matrices of a feed-forward network: three if it is gated."""
        return 3 if self.architecture == "modern" else 2

    @property
    def min_parameters(self) -> int:
        """A lower bound on the number of parameters: the token table and the layers' matrices."""
        rows = 4 * self.hidden_size + self.feed_forward_matrices * self.intermediate_size  # of all matrices
        num_layers = 1 if self.settings else self.num_layers  # some share one layer's weights
        return self.vocab_size * self.embedding_size + num_layers * self.hidden_size * rows


def recorded_config(record: Mapping[str, Any]) -> EncoderConfig:
    """Returns the shape in a run's record; ConfigError if it has a setting of an older version that left."""
    if record["architecture"] == "deberta":
        fix = "Export the networks with the version that trained them, and start from the export"
        raise ConfigError("DeBERTa's own encoder is gone: transformers runs DeBERTa now", fix=fix)
    names = {field.name for field in fields(EncoderConfig)}
    return EncoderConfig(**{name: value for name, value in record.items() if name in names})


def resolve_size(name: str, layers: int | None = None, hidden_size: int | None = None) -> Size:
    """Returns the size called `name`, with another number of layers or another width unless they are None.

    If the size's embeddings are as wide as its layers, they get the new width too. Raises ConfigError if the
    name is unknown or a number is out of range.
    """
    for key, value in (("layers", layers), ("hidden_size", hidden_size)):
        if value is not None and value > MAX_SIZE:
            raise ConfigError(f"must be at most {MAX_SIZE}, not {value}", key=f"model.{key}")
    if name not in SIZES:
        raise ConfigError(f"no size named {name!r}", key="model.size", fix=nearest(name, list(SIZES)))
    size = SIZES[name]
    if layers is not None:
        if layers < 1:
            raise ConfigError(f"must be 1 or more, not {layers}", key="model.layers")
        size = replace(size, num_layers=layers)
    if hidden_size is not None:
        if hidden_size < 2 or hidden_size % (2 if hidden_size < 2 * HEAD_SIZE else HEAD_SIZE):
            fix = (
                f"Use a multiple of {HEAD_SIZE}, the width of an attention head, or an even number below"
                f" {2 * HEAD_SIZE} for a single head"
            )
            problem = f"{hidden_size} cannot be divided into attention heads"
            raise ConfigError(problem, key="model.hidden_size", fix=fix)
        embedding_size = hidden_size if size.embedding_size == size.hidden_size else size.embedding_size
        size = replace(size, hidden_size=hidden_size, embedding_size=embedding_size)
    return size


def discriminator_config(size: Size, architecture: Architecture, **others: Any) -> EncoderConfig:
    """Returns the shape of a full-size network: a discriminator, or the masked LM of the BERT baseline.

    `others` are the fields of `EncoderConfig` that no size determines.
    """
    is_modern = architecture == "modern"
    return EncoderConfig(
        architecture=architecture,
        embedding_size=size.hidden_size if is_modern else size.embedding_size,
        hidden_size=size.hidden_size,
        num_layers=size.num_layers,
        num_heads=max(1, size.hidden_size // HEAD_SIZE),
        intermediate_size=_intermediate(size.hidden_size, architecture),
        max_positions=size.max_positions,
        norm_eps=1e-5 if is_modern else 1e-12,
        **others,
    )


def generator_config(discriminator: EncoderConfig, width: float, depth: float) -> EncoderConfig:
    """Returns the shape of the auxiliary network; that of an adapted one is the paper's.

    `width` and `depth` are fractions of the main network's hidden size, rounded to whole attention heads
    (below one, to an even number), and of its layers.
    """
    hidden = round(discriminator.hidden_size * width)
    if hidden > HEAD_SIZE:
        hidden = max(1, round(hidden / HEAD_SIZE)) * HEAD_SIZE
    hidden += hidden % 2  # rotary positions rotate pairs of dimensions
    if discriminator.settings:
        discriminator = replace(discriminator, architecture="electra", settings="", num_token_types=2, norm_eps=1e-12)
    is_modern = discriminator.architecture == "modern"  # its embeddings are as wide as its layers
    return replace(
        discriminator,
        hidden_size=hidden,
        embedding_size=hidden if is_modern else discriminator.embedding_size,
        num_layers=max(1, round(discriminator.num_layers * depth)),
        num_heads=max(1, hidden // HEAD_SIZE),
        intermediate_size=_intermediate(hidden, discriminator.architecture),
    )


def _intermediate(hidden: int, architecture: Architecture) -> int:
    return -(-8 * hidden // 3 // 32) * 32 if architecture == "modern" else 4 * hidden
