"""Titles and meanings of held-out metrics and audit counts, with baselines and possible ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Metric:
    """A held-out metric."""

    title: str
    meaning: str
    """One line, for people who read a report for the first time."""
    baseline: Callable[[Values], float | None] = lambda values: None
    """The score of a model that knows only the base rate, from the metrics of the same evaluation."""


def _majority(values: Values) -> float | None:
    rate = values.get("base_rate")
    return None if rate is None else max(rate, 1 - rate)


METRICS: dict[str, Metric] = {
    "gain": Metric(
        "Gain over the base rate",
        "Entropy of the base rate minus the discriminator's loss, in nats per token. Higher is better.",
        lambda values: 0.0,
    ),
    "auc": Metric(
        "AUC",
        "The probability that a random replaced token scores above a random original one. It does not depend"
        " on a threshold. Higher is better.",
        lambda values: 0.5,
    ),
    "average_precision": Metric(
        "Average precision",
        "The area under the precision-recall curve of replaced tokens. Higher is better.",
        lambda values: values.get("base_rate"),
    ),
    "discriminator_loss": Metric(
        "Discriminator loss",
        "Cross-entropy of the labels replaced and original, in nats per token. Lower is better.",
        lambda values: values.get("base_rate_entropy"),
    ),
    "base_rate": Metric(
        "Base rate",
        "Fraction of tokens that are replaced. It falls as the generator guesses more tokens right.",
    ),
    "base_rate_entropy": Metric(
        "Base-rate entropy", "The loss of a model that predicts the base rate for every token, in nats."
    ),
    "accuracy": Metric(
        "Accuracy at 0.5",
        "Fraction of tokens classified correctly at 0.5. Predicting original for every token scores almost as"
        " well: look at the AUC instead.",
        _majority,
    ),
    "best_f1_threshold": Metric(
        "Threshold",
        "The P(replaced) with the best F1 on held-out text. Tokens and words that reach it are marked on this"
        " page, by show, and by detect and serve when the discriminator scores.",
    ),
    "precision": Metric(
        "Precision at 0.5",
        "Fraction of the tokens predicted as replaced that are. Undefined if none is predicted.",
        lambda values: values.get("base_rate"),
    ),
    "recall": Metric(
        "Recall at 0.5",
        "Fraction of the replaced tokens that are predicted as replaced. Near zero early in training.",
        lambda values: 0.0,
    ),
    "f1": Metric("F1 at 0.5", "Harmonic mean of precision and recall at 0.5.", lambda values: 0.0),
    "generator_loss": Metric("Generator loss", "Cross-entropy in nats per masked token. Lower is better."),
    "generator_accuracy": Metric(
        "Generator accuracy",
        "Fraction of masked tokens whose most likely prediction is right. Higher is better.",
    ),
    "sample_accuracy": Metric(
        "Sample accuracy",
        "Fraction of masked tokens that the generator's sample restores; these count as original.",
    ),
    "mlm_loss": Metric(
        "Masked LM loss",
        "Cross-entropy of the full-size network with every masked token shown as [MASK], in nats; comparable"
        " between objectives. Lower is better.",
    ),
    "mlm_accuracy": Metric(
        "Masked LM accuracy",
        "Fraction of masked tokens that the full-size network predicts right. Higher is better.",
    ),
    "sampler_loss": Metric(
        "Sampler loss",
        "Cross-entropy of the small generator that samples for a full-size one, in nats per masked token.",
    ),
    "states_loss": Metric(
        "Distance of states",
        "1 - cosine between the student's and the teacher's states, averaged over tokens and compared layers."
        " Lower is better.",
    ),
    "vectors_loss": Metric(
        "Distance of vectors",
        "1 - cosine between the student's and the teacher's text vectors. Lower is better.",
    ),
    "relations_loss": Metric(
        "Divergence of relations",
        "Kullback-Leibler divergence, in nats, from the teacher's relations between tokens to the student's."
        " Lower is better.",
    ),
    "generator_entropy": Metric(
        "Generator entropy",
        "Entropy of its distribution over the vocabulary, in nats per masked token. Near 0 it always predicts"
        " the same token (collapse).",
    ),
}

PLOTTED = (  # the metrics that have a figure, in order
    "discriminator_loss",
    "gain",
    "auc",
    "average_precision",
    "generator_loss",
    "generator_accuracy",
    "mlm_loss",
    "states_loss",
    "vectors_loss",
    "relations_loss",
)


def clip_interval(metric: str, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Returns an interval clipped to the values that the metric can take."""
    lowest, highest = possible_range(metric)
    return None if low is None else max(low, lowest), None if high is None else min(high, highest)


def possible_range(metric: str) -> tuple[float, float]:
    """Returns the least and the greatest possible value of a metric, judged by its name."""
    if metric == "gain":
        return -inf, inf
    if metric.endswith(("loss", "entropy", "mae")):
        return 0.0, inf
    return -1.0 if metric.endswith(("correlation", "pearson", "spearman", "spearmanr")) else 0.0, 1.0


AUDIT: dict[str, tuple[str, str]] = {
    "documents_read": (
        "Documents read",
        "Sum of: empty, duplicate, near-duplicate, training and held-out documents.",
    ),
    "documents_empty": ("Empty, dropped", "No text, or none that yields a token."),
    "documents_duplicate": ("Duplicate, dropped", "The same text as an earlier document."),
    "documents_near_duplicate": (
        "Near-duplicate, dropped",
        "Nearly the same text as an earlier document (--data.near-duplicates).",
    ),
    "documents_train": ("Training documents", ""),
    "documents_heldout": ("Held-out documents", "Never trained on; used for the held-out metrics."),
    "heldout_by": (
        "Held out by",
        "How they were chosen: by a hash of the text; in a very small corpus the smallest hash, or the end of"
        " a document.",
    ),
    "characters": ("Characters", "In the documents that were kept, like the counts below."),
    "words": ("Words", "Separated by white space."),
    "tokens": ("Tokens", ""),
    "tokens_train": ("Training tokens", "One epoch."),
    "tokens_heldout": ("Held-out tokens", ""),
    "tokens_lost": ("Tokens lost", "Tokens that were encoded but are not in the files."),
    "tokens_per_word": (
        "Tokens per word",
        "How finely the vocabulary splits this text; near 1, most words are single tokens.",
    ),
    "tokens_unknown": (
        "Unknown tokens",
        "Text that the vocabulary cannot represent; the model does not see it.",
    ),
    "unknown_rate": ("Fraction of unknown tokens", ""),
    "vocabulary_used": ("Vocabulary used", "Entries that occur at least once."),
    "vocab_size": ("Vocabulary", ""),
    "bytes_replaced": ("Bytes replaced", "Bytes that are not UTF-8; each sequence became one U+FFFD."),
    "nuls_dropped": ("NULs dropped", ""),
    "near_duplicates": ("Least similar near-duplicates that were dropped", ""),
    "padding": ("Padding", "Fraction of positions without a token in an epoch, in rows of this length."),
}


def humanize(key: str) -> str:
    """Returns a readable name: 'auc' is 'AUC', and an undescribed 'top_five' is 'Top five'."""
    if key in METRICS:
        return METRICS[key].title
    text = " ".join(key.replace("_", " ").split())
    return text[:1].upper() + text[1:]
