"""MNLI: does the premise entail the hypothesis?

Models are evaluated on the matched genres and, if their files are present, on the mismatched ones.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_class import TextClassification

TASK = TextClassification(
    name="mnli",
    version=1,
    source="Williams, Nangia, Bowman 2018",
    metrics=("accuracy",),
    texts=(("sentence1", "sentence2"), ("premise", "hypothesis")),
    label=("gold_label", "label"),
    labels=("entailment", "neutral", "contradiction"),
    dev_files=("dev_matched", "validation_matched"),
    test_files=("test_matched",),
    also=("dev_mismatched", "validation_mismatched", "test_mismatched"),
    submissions=(("test", "MNLI-m"), ("test_mismatched", "MNLI-mm")),
)
