"""Settings of a store: how text is read, and the vocabulary to train.

They are sections of a recipe and options of `electra prepare`. No large import slows `--help` down.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from electra.foundation.config import check_at_least
from electra.foundation.errors import ConfigError

Unit = Literal["file", "blank-line", "line"]


@dataclass(frozen=True, kw_only=True)
class AllowUnknown:
    """The option of every command that encodes text."""

    allow_unknown: bool = False
    """Accept text of which more than 20 % of the tokens are unknown to the tokenizer."""


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Settings for reading text and for holding out some of it."""

    HEADING: ClassVar[str] = "Reading text"

    unit: Unit = "file"
    """What counts as one document in a .txt file: the whole file, each block between blank lines, or each
    line.
    """
    text_field: str = "text"
    """Field or column that holds the text, in tables (csv, JSON, parquet, hub data sets). A nested field is
    written with dots, as in doc.body.
    """
    format: Literal["auto", "txt", "csv", "tsv", "json", "jsonl", "parquet", "arrow"] = "auto"
    """Format of all files. auto: by the file extension; stdin is txt."""
    broken_rows: float = 0.01
    """Maximum fraction of table rows to leave out because they are unreadable or have no text; if there are
    more, nothing is prepared.
    """
    keep_hyphens: bool = False
    """Join no words that are divided at the ends of lines of a .txt file (default: join those that their
    document has whole elsewhere; a note counts them).
    """
    heldout: float = 0.005
    """Fraction of the documents to hold out for evaluation (at least one document), chosen by a hash of their
    text.
    """

    def __post_init__(self) -> None:
        if not 0 <= self.broken_rows <= 1:
            raise ConfigError(f"must be between 0 and 1, not {self.broken_rows}", key="data.broken_rows")
        if not 0 < self.heldout < 1:
            raise ConfigError(f"must be above 0 and below 1, not {self.heldout}", key="data.heldout")

    def record(self) -> dict[str, Any]:
        """Returns the settings as a store records them."""
        settings = asdict(self)
        del settings["broken_rows"]  # decides whether a store is made, not what it contains
        if not self.keep_hyphens:
            del settings["keep_hyphens"]  # older stores do not record it
        return settings


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """Settings of a vocabulary to train."""

    HEADING: ClassVar[str] = "Training a tokenizer"

    kind: Literal["wordpiece", "bpe"] = "wordpiece"
    """Kind of tokenizer to train: WordPiece, as in the paper; or byte-level BPE, which encodes every
    character.
    """
    vocab_size: int = 8192
    """Number of entries of the vocabulary to train."""
    lowercase: bool = True
    """Lower-case the text; use --no-lowercase where capitals carry meaning, as in German."""
    strip_accents: bool | None = None
    """Remove the accents from letters (default: when lower-casing text with few accents, such as English)."""
    sample_mb: int = 100
    """Millions of characters of text to train the vocabulary on, sampled by hash from the whole corpus."""

    def __post_init__(self) -> None:
        check_at_least(self, {"vocab_size": 10, "sample_mb": 1}, "tokenizer.")
