"""RTE: does the first sentence entail the second?"""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_class import TextClassification

TASK = TextClassification(
    name="rte",
    version=1,
    source="Dagan et al. 2005, Bar-Haim et al. 2006, Giampiccolo et al. 2007, Bentivogli et al. 2009",
    metrics=("accuracy",),
    texts=(("sentence1", "sentence2"), ("premise", "hypothesis")),
    label=("label",),
    labels=("entailment", "not_entailment"),
    epochs=10,
    submissions=(("test", "RTE"),),
)
