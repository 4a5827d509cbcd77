"""SQuAD 2.0: which words of a paragraph answer the question, if any do?"""

from __future__ import annotations

from electra.finetuning.answer_spans import QuestionAnswering
from electra.finetuning.squad_metrics import METRICS

TASK = QuestionAnswering(
    name="squad2", version=1, source="Rajpurkar, Jia, Liang 2018", unanswerable=True, metrics=METRICS[2]
)
