"""CoLA: is the sentence acceptable English? The distributed files have no header."""

from __future__ import annotations

from electra.finetuning.tasks.parts.text_class import TextClassification

TASK = TextClassification(
    name="cola",
    version=1,
    source="Warstadt, Singh, Bowman 2019",
    metrics=("matthews_correlation", "accuracy"),
    texts=(("sentence",),),
    label=("label",),
    labels=("unacceptable", "acceptable"),
    header=("source", "label", "mark", "sentence"),
    submissions=(("test", "CoLA"),),
    submit_numbers=True,
)
