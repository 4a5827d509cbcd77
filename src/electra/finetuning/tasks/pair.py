"""Your own data: pairs of texts, each with one of two or more labels."""

from electra.finetuning.text_answers import TextClassification

TASK = TextClassification(
    name="pair",
    version=2,
    source="your own data",
    metrics=("accuracy", "f1_macro", "matthews_correlation"),
    texts=(
        *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("question", "sentence")),
        *(("question1", "question2"), ("text_a", "text_b"), ("text1", "text2"), ("text", "text_pair")),
        *(("text", "text_b"), ("text", "text2"), ("query", "passage")),
    ),
    label=("label", "labels", "class", "is_duplicate"),
    max_length=512,
)
