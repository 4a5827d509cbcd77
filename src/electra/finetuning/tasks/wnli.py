"""WNLI: does the first sentence entail the second, in which a pronoun is replaced by a noun?

Its dev set contains training sentences with the opposite label.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_class import TextClassification

TASK = TextClassification(
    name="wnli",
    version=1,
    source="Levesque, Davis, Morgenstern 2012, recast by Wang et al. 2019",
    metrics=("accuracy",),
    texts=(("sentence1", "sentence2"),),
    label=("label",),
    labels=("not_entailment", "entailment"),
    submissions=(("test", "WNLI"),),
    submit_numbers=True,
)
