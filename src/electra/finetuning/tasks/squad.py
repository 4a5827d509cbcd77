"""SQuAD 1.1: which words of a paragraph answer the question? Every question has an answer."""

from __future__ import annotations

from electra.finetuning.tasks.parts.answer_spans import QuestionAnswering

TASK = QuestionAnswering(
    name="squad", version=1, source="Rajpurkar, Zhang, Lopyrev, Liang 2016", unanswerable=False
)
