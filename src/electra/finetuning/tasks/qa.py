"""Your own data: questions about contexts, in SQuAD's JSON or jsonl.

If some have no answer, it is trained and scored like SQuAD 2.0.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.answer_spans import QuestionAnswering

TASK = QuestionAnswering(name="qa", version=1, source="your own data")
