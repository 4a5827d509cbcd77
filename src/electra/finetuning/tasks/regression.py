"""Your own data: texts or pairs of texts, each with a number."""

from electra.finetuning.tasks.pair import TASK as PAIR
from electra.finetuning.text_answers import TextRegression

TASK = TextRegression(
    name="regression",
    version=1,
    source="your own data",
    metrics=("spearmanr", "pearson", "mae"),
    texts=(*(pair for pair in PAIR.texts if pair != ("question", "sentence")), ("sentence",), ("text",)),
    label=("score", "label", "labels"),
    max_length=512,
)
