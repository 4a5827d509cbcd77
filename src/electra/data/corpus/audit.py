"""The audit of a token store: counts of the documents, bytes and tokens that were read, kept and dropped."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import Any

_WORD, _TURKISH = re.compile(r"\w+"), re.compile("[\u0130\u0131]")
_SENTENCE_END = re.compile(r"\s*\n\s*|(?<=[.!?]) +")


@dataclass
class Audit:
    """Counts of a corpus. Documents read = kept + empty + duplicate; kept = training + held out."""

    documents_read: int = 0
    documents_empty: int = 0  # dropped: no text, or no token
    documents_duplicate: int = 0  # dropped: the same text as an earlier document
    documents_not_nfc: int = 0  # of those read: in another Unicode form than NFC, in which they are compared
    documents_train: int = 0
    documents_heldout: int = 0
    heldout_by: str = "hash"  # or another rule of `hold_out`, such as "smallest hash"
    characters: int = 0  # in kept documents, like the counts below up to `vocabulary_used`
    words: int = 0  # separated by white space
    tokens_train: int = 0
    tokens_heldout: int = 0
    tokens_unknown: int = 0
    unknown_words: list[str] = field(default_factory=list)  # some of them, if there are many such tokens
    tokens_lost: int = 0  # tokens encoded minus tokens counted in the files; 0 unless there is a bug
    vocabulary_used: int = 0  # entries that occur at least once
    vocab_size: int = 0
    bytes_replaced: int = 0  # undecodable bytes of all documents read; each run of them became one U+FFFD
    nuls_dropped: int = 0
    # "removed": whether the tokenizer removes accents, "share": the fraction of characters that have any
    accents: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)  # on skipped or repaired text, one line each
    sources: list[dict[str, Any]] = field(default_factory=list)  # see `Source.describe`

    @property
    def tokens(self) -> int:
        """All tokens of the store."""
        return self.tokens_train + self.tokens_heldout

    @property
    def unknown_rate(self) -> float:
        """The fraction of tokens that are [UNK]; 0 without tokens."""
        return self.tokens_unknown / self.tokens if self.tokens else 0.0

    @property
    def tokens_per_word(self) -> float:
        """Tokens per whitespace-separated word; 0 without words."""
        return self.tokens / self.words if self.words else 0.0

    def as_json(self) -> dict[str, Any]:
        """Returns the content of audit.json: the counts, without empty optional parts, and their rates."""
        derived = {name: getattr(self, name) for name in ("tokens", "unknown_rate", "tokens_per_word")}
        fields = asdict(self)
        for name in ("notes", "accents", "unknown_words", "documents_not_nfc"):
            if not fields[name]:
                del fields[name]
        return fields | derived


def turkish_note(texts: Iterable[str]) -> list[str]:
    """Returns a note for text with many letters that lower-casing separates from their capitals; else []."""
    words = [word for text in texts for word in _WORD.findall(text)]
    if sum(map(bool, map(_TURKISH.search, words))) <= 0.005 * len(words):
        return []
    share = sum("I" in word or bool(_TURKISH.search(word)) for word in words) / len(words)
    return [
        f"{share:.1%} of the words have I, \u0130 or \u0131, whose capitals and small letters remain"
        " different words when text is lower-cased (as in Turkish); --no-lowercase keeps capitals"
    ]


def repeated_note(texts: Sequence[str]) -> list[str]:
    """Returns a note for a sentence that a tenth of the documents share, such as a page's menu; else []."""
    found = Counter(part for text in texts for part in set(_SENTENCE_END.split(text)) if part.count(" ") > 1)
    sentence, count = max(found.items(), key=itemgetter(1), default=("", 0))
    if len(texts) < 50 or count < len(texts) / 10:
        return []
    share = f"{count / len(texts):.0%} of the first documents contain {sentence[:60]!r}"
    return [f"{share}: remove what all pages of a site or a manual share, the model learns nothing from it"]


def format_rows(audit: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Formats the content of audit.json as (name, value) lines for people."""
    counts = {name: f"{value:,}" for name, value in audit.items() if isinstance(value, int)}
    lines = {
        "documents": f"{counts['documents_read']} read, {counts['documents_empty']} empty,"
        f" {counts['documents_duplicate']} duplicate",
        "kept": f"{counts['documents_train']} for training, {counts['documents_heldout']} held out (by"
        f" {audit['heldout_by']})",
        "text": f"{counts['characters']} characters, {counts['words']} words",
        "tokens": f"{counts['tokens_train']} for training, {counts['tokens_heldout']} held out,"
        f" {counts['tokens_lost']} lost",
        "tokens per word": f"{audit['tokens_per_word']:.3f}",
        "unknown tokens": f"{counts['tokens_unknown']} ({100 * audit['unknown_rate']:.3f} %)",
        "vocabulary used": f"{counts['vocabulary_used']} of {counts['vocab_size']}",
    }
    if accents := audit.get("accents"):
        share = f"{100 * accents['share']:.2g} % of the characters"
        lines["accents"] = f"{'removed from' if accents['removed'] else 'kept on'} {share}"
    num_bytes, num_nuls = counts["bytes_replaced"], counts["nuls_dropped"]
    lines["repaired"] = f"{num_bytes} undecodable bytes replaced, {num_nuls} NULs dropped"
    if "documents_not_nfc" in counts:
        lines["repaired"] += f", {counts['documents_not_nfc']} documents not in Unicode's form NFC"
    return [*lines.items(), *(("note", note) for note in audit.get("notes", ()))]
