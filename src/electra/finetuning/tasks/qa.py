"""Your own data: questions about contexts, in SQuAD's JSON or in jsonl; where some have no answer, as in
SQuAD 2.0.
"""

from __future__ import annotations

from electra.finetuning.tasks.parts.answer_spans import QuestionAnswering

TASK = QuestionAnswering(name="qa", version=1, source="your own data")
