"""QQP: is one question a duplicate of the other?

Malformed rows of the distributed file are left out, and their number is reported.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_class import TextClassification

TASK = TextClassification(
    name="qqp",
    version=1,
    source="Iyer, Dandekar, Csernai 2017",
    metrics=("accuracy", "f1"),
    texts=(("question1", "question2"),),
    label=("is_duplicate", "label"),
    labels=("not_duplicate", "duplicate"),
    drop_malformed=True,
    submissions=(("test", "QQP"),),
    submit_numbers=True,
)
