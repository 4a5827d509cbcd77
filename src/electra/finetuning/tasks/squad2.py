"""SQuAD 2.0: which words of a paragraph answer the question, if any do?"""

from __future__ import annotations

from electra.finetuning.metrics.squad import METRICS
from electra.finetuning.tasks.parts.answer_spans import QuestionAnswering

TASK = QuestionAnswering(
    name="squad2", version=1, source="Rajpurkar, Jia, Liang 2018", unanswerable=True, metrics=METRICS[2]
)
