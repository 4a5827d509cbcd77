"""SST-2: is the sentiment positive?"""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_class import TextClassification

TASK = TextClassification(
    name="sst-2",
    version=1,
    source="Socher et al. 2013",
    metrics=("accuracy",),
    texts=(("sentence",),),
    label=("label",),
    labels=("negative", "positive"),
    submissions=(("test", "SST-2"),),
    submit_numbers=True,
)
