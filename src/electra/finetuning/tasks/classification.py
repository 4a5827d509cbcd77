"""Your own data: single texts, each with one of two or more labels."""

from electra.finetuning.text_answers import TextClassification

TASK = TextClassification(
    name="classification",
    version=2,
    source="your own data",
    metrics=("accuracy", "f1_macro", "matthews_correlation"),
    texts=(("sentence",), ("text",), ("data.text",)),
    label=("label", "labels", "class"),
    max_length=512,
)
