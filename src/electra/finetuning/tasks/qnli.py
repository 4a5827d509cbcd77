"""QNLI: does the sentence answer the question?"""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_class import TextClassification

TASK = TextClassification(
    name="qnli",
    version=1,
    source="Rajpurkar et al. 2016, recast by Wang et al. 2019",
    metrics=("accuracy",),
    texts=(("question", "sentence"),),
    label=("label",),
    labels=("entailment", "not_entailment"),
    submissions=(("test", "QNLI"),),
)
