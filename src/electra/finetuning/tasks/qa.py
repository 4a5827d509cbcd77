"""Your own data: questions about contexts, in SQuAD's JSON or jsonl.

If some questions have no answer, the model is trained and scored as on SQuAD 2.0.
"""

from electra.finetuning.answer_spans import QuestionAnswering

TASK = QuestionAnswering(name="qa", version=1, source="your own data")
