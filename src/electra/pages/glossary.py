"""The words of the report: each held-out metric, what it means, and what a model that knows nothing would
score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Metric:
    title: str
    meaning: str
    """One line for somebody who reads their first report."""
    ignorant: Callable[[Values], float | None] = lambda values: None
    """What knowing only the base rate scores, from the metrics of the same row."""


def _majority(values: Values) -> float | None:
    rate = values.get("base_rate")
    return None if rate is None else max(rate, 1 - rate)


METRICS: dict[str, Metric] = {
    "gain": Metric(
        "Gain over the base rate",
        "Entropy of the base rate minus the discriminator's loss, nats per token: what it knows beyond the"
        " base rate. Higher is better.",
        lambda values: 0.0,
    ),
    "auc": Metric(
        "AUC",
        "The chance that a replaced token is ranked above an original one. It does not depend on a threshold."
        " Higher is better.",
        lambda values: 0.5,
    ),
    "average_precision": Metric(
        "Average precision",
        "Precision averaged over every threshold, for replaced tokens: the area under the precision-recall"
        " curve. Higher is better.",
        lambda values: values.get("base_rate"),
    ),
    "discriminator_loss": Metric(
        "Discriminator loss",
        "Cross-entropy of replaced or original, nats per real token. Lower is better.",
        lambda values: values.get("base_rate_entropy"),
    ),
    "base_rate": Metric(
        "Base rate",
        "Share of tokens that really are replaced. It falls as the generator guesses more of them right.",
    ),
    "base_rate_entropy": Metric(
        "Base-rate entropy", "The loss of a model that answers the base rate for every token, in nats."
    ),
    "accuracy": Metric(
        "Accuracy at 0.5",
        "Share of tokens on the right side of 0.5. Always saying original scores almost as well: read the"
        " AUC.",
        _majority,
    ),
    "best_f1_threshold": Metric(
        "Threshold of the best F1",
        "P(replaced) from which marking tokens gives the highest F1 on held-out text. detect uses it.",
    ),
    "precision": Metric(
        "Precision at 0.5",
        "Of the tokens called replaced, the share that are. Undefined when none is called so.",
        lambda v: v.get("base_rate"),
    ),
    "recall": Metric(
        "Recall at 0.5",
        "Of the replaced tokens, the share that is called so. Near zero early: few tokens reach 0.5.",
        lambda values: 0.0,
    ),
    "f1": Metric("F1 at 0.5", "Harmonic mean of precision and recall at 0.5.", lambda values: 0.0),
    "generator_loss": Metric(
        "Generator loss", "Cross-entropy of the masked tokens, nats per masked token. Lower is better."
    ),
    "generator_accuracy": Metric(
        "Generator accuracy", "Share of masked tokens whose most likely guess is right. Higher is better."
    ),
    "sample_accuracy": Metric(
        "Sample accuracy",
        "Share of masked tokens that the generator's random draw restores: these count as original.",
    ),
    "mlm_loss": Metric(
        "Masked LM loss",
        "Of the full-size network where every masked token shows [MASK], nats: to compare objectives by."
        " Lower is better.",
    ),
    "mlm_accuracy": Metric(
        "Masked LM accuracy",
        "Share of tokens behind [MASK] that the full-size network guesses right. Higher is better.",
    ),
    "sampler_loss": Metric(
        "Sampler loss", "Cross-entropy of the small generator beside a full-size one, nats per masked token."
    ),
    "generator_entropy": Metric(
        "Generator entropy",
        "Of its distribution over the vocabulary, nats per masked token. Towards 0: it always says the same"
        " (collapse).",
    ),
}

AUDIT: dict[str, tuple[str, str]] = {
    "documents_read": (
        "Documents read",
        "Read = empty + duplicate + near-duplicate + to train on + held out.",
    ),
    "documents_empty": ("Empty, dropped", "No text, or nothing that makes a token."),
    "documents_duplicate": ("Duplicate, dropped", "The same text as an earlier document."),
    "documents_near_duplicate": (
        "Near-duplicate, dropped",
        "Nearly the same text as an earlier document; dropped with --data.near-duplicates.",
    ),
    "documents_train": ("Documents to train on", ""),
    "documents_heldout": ("Documents held out", "Never trained on: the metrics above are measured on them."),
    "heldout_by": (
        "Held out by",
        "A hash of the text chooses; in a very small corpus the smallest hash, or the end of one document.",
    ),
    "characters": ("Characters", "Of the kept documents, as are the counts below."),
    "words": ("Words", "Separated by white space."),
    "tokens": ("Tokens", ""),
    "tokens_train": ("Tokens to train on", "One epoch."),
    "tokens_heldout": ("Tokens held out", ""),
    "tokens_lost": ("Tokens lost", "Between encoding and the files, counted again from the files."),
    "tokens_per_word": (
        "Tokens per word",
        "How finely the vocabulary cuts this text: near 1 it knows the words whole.",
    ),
    "tokens_unknown": ("Unknown tokens", "Text the vocabulary has no pieces for: the model never sees it."),
    "unknown_rate": ("Unknown, of all tokens", ""),
    "vocabulary_used": ("Vocabulary used", "Entries that occur at least once."),
    "vocab_size": ("Vocabulary", ""),
    "bytes_replaced": ("Bytes replaced", "Not UTF-8; each run of them is now one U+FFFD."),
    "nuls_dropped": ("NULs dropped", ""),
    "near_duplicates": ("Near-duplicates: the least similar that were dropped", ""),
    "padding": ("Padding", "Share of an epoch's positions that hold no token, in rows of this length."),
}


def humanize(key: str) -> str:
    """'auc' -> 'AUC', 'top_five' -> 'Top five': a readable name, also for a key nobody described."""
    if key in METRICS:
        return METRICS[key].title
    text = " ".join(key.replace("_", " ").split())
    return text[:1].upper() + text[1:]
