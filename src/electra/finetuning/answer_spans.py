"""Extractive question answering: finds the span of a context that answers a question, if there is one.

The tasks squad, squad2 and qa use this class. The standard head has a start and an end logit for each token;
transformers' AutoModelForQuestionAnswering loads it, and the score of "no answer" is the sum of the logits at
[CLS]. The paper's own head, which predicts the end given the start, is not here.

As in the published code, windows have 512 tokens and start 128 tokens apart, questions are truncated to 64
tokens, answers have up to 30 tokens, the n-best list has 20 entries, and training takes 2 epochs and uses the
first of several gold answers. The target of windows without the answer is [CLS], even in SQuAD 1.1, and the
score of "no answer" is the lowest over all windows. A question is left unanswered if the null odds
(`context_windows.Prediction`) exceed 0, or the threshold that was best on dev.

Departures: every span of the context is considered, not only pairs of the 20 best
starts and ends; answers are extracted from the context by character offsets, whereas the published code looks
up the words of the tokens; padding is excluded from the softmax.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from electra.artifacts.model_files import CONFIG
from electra.data.tables.table_files import Data
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.questions import FORMATS, read_questions
from electra.finetuning.score.metrics import Score
from electra.finetuning.score.squad import METRICS, squad1_scores, squad2_scores
from electra.finetuning.task import Cell, HeadKind, Outputs, Task, file_of, nonzero_notes
from electra.finetuning.windows.context_windows import (
    NO_ANSWER,
    CandidateSpan,
    Context,
    Prediction,
    Window,
    cut_windows,
    n_best,
    plain_spans,
    probabilities,
    span_of,
)
from electra.finetuning.windows.features import NO_TARGET, Ids, Tokens, Windows
from electra.foundation import durable
from electra.foundation.errors import DataError, ModelError
from electra.foundation.terminal_text import plural

START, END = 1, 2  # bits of a token's target
THRESHOLD_KEY = "no_answer_threshold"  # the key of the threshold in a saved model's config.json


@dataclass(frozen=True, kw_only=True)
class QuestionAnswering(Task):
    """Finds answers to questions in their contexts; predictions are `context_windows.Prediction`."""

    head: ClassVar[HeadKind] = "reader"
    has_classes: ClassVar[bool] = False

    texts: tuple[tuple[str, ...], ...] = (("question", "context"),)
    label: tuple[str, ...] = ("answers",)
    formats: tuple[str, ...] = FORMATS
    metrics: tuple[str, ...] = METRICS[1]
    unanswerable: bool | None = None  # whether questions may have no answer; None: as in the training data
    no_answer_threshold: float | None = None  # None: 0
    epochs: float = 2
    max_length: int = 512
    stride: int = 128
    max_question: int = 64  # tokens; longer questions are truncated
    max_answer: int = 30  # tokens
    n_best: int = 20  # candidate answers in a prediction

    @property
    @override
    def label_names(self) -> tuple[str, ...]:
        return ("start", "end")

    @property
    def threshold(self) -> float:
        """The null odds above which a question is left unanswered."""
        return self.no_answer_threshold or 0.0

    @property
    @override
    def rule(self) -> str:
        return f"no answer if null odds exceed {self.threshold:.4g}" if self.unanswerable else ""

    @override
    def at_threshold(self, threshold: float) -> Task:
        if not self.unanswerable:
            return super().at_threshold(threshold)
        return replace(self, no_answer_threshold=threshold)

    @override
    def read(self, path: Data, labelled: bool = True) -> Split:
        (question, context), answers = self.texts[0], self.label[0] if self.label else None
        notes: list[str] = []
        examples = read_questions(path, (question, context, answers), labelled, notes)
        answered = [example for example in examples if example.gold]
        if answered and not any(map(has_offset, answered)):
            fix = "Check that answers and contexts belong together"
            raise DataError("no answer occurs in its context", where=path, fix=fix)
        if labelled and self.unanswerable is False:
            _require_answers(examples)
        return Split(examples, notes=tuple(notes))

    @override
    def fit(self, examples: Sequence[Example]) -> Self:
        if not any(map(has_offset, examples)):
            raise DataError("no context has an answer: nothing to learn", where=file_of(examples))
        unanswerable = self.unanswerable
        if unanswerable is None:
            unanswerable = not all(example.gold for example in examples)
        return replace(self, unanswerable=unanswerable, metrics=METRICS[2 if unanswerable else 1])

    @override
    def featurize(self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False) -> Windows:
        tokenizer, template = tokens.tokenizer, tokens.template
        labelled = all(example.gold is not None for example in examples)
        if labelled and not self.unanswerable:
            _require_answers(examples)
        texts = dict.fromkeys(example.texts[1] for example in examples)
        contexts = {text: Context.of(tokenizer, text) for text in texts}
        questions = tokenizer.encode_corpus([example.texts[0] for example in examples])
        windows: list[Window] = []
        example_indices: list[int] = []
        targets: list[Ids] = []
        for index, (example, question) in enumerate(zip(examples, questions, strict=True)):
            context = contexts[example.texts[1]]
            span = None
            if labelled and has_offset(example):
                start = example.gold[0].start
                span = context.tokens_of(start, start + len(example.gold[0].text))
            if train and example.gold and span is None:
                continue
            question_ids = question[: self.max_question].astype(np.int64)
            question_windows = cut_windows(question_ids, context, template, max_length, self.stride)
            windows += question_windows
            example_indices += [index] * len(question_windows)
            targets += [target_of(window, example, span) for window in question_windows] if labelled else []
        if train and not windows:
            raise DataError("the tokenizer drops every answer", where=examples[0].where)
        answers = [example.gold[0] for example in examples if example.gold]
        num_absent = sum(answer.start is None for answer in answers)
        num_moved = sum(answer.moved for answer in answers)
        counts = {
            "questions whose answer does not occur in the context, scored but not trained on": num_absent,
            "answers that are not at their offset, moved to the nearest occurrence": num_moved,
            f"questions truncated to {self.max_question} tokens": sum(
                len(question) > self.max_question for question in questions
            ),
        }
        size_note = f"{plural(len(examples), 'question')} in {plural(len(windows), 'window')}"
        return Windows(
            input_ids=[window.ids for window in windows],
            token_type_ids=[window.types for window in windows],
            example=np.array(example_indices, np.int64),
            targets=targets if labelled else None,
            token_targets=True,
            context=windows,
            notes=(size_note, *nonzero_notes(counts)),
        )

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, int]:
        """Returns the sum of the losses of the windows that have a target, and their number.

        The loss of a window is the mean of the cross-entropies of start and end, from the `logits` [B, T, 2]
        and the bits of the targets [B, T], padded with NO_TARGET.
        """
        bits = targets.clamp(min=0)
        has_target = (bits & START).any(1)
        padding = (targets == NO_TARGET).unsqueeze(-1)
        starts, ends = logits.float().masked_fill(padding, float("-inf")).unbind(-1)
        start_loss = F.cross_entropy(starts, (bits & START).argmax(1), reduction="none")
        end_loss = F.cross_entropy(ends, (bits & END).argmax(1), reduction="none")
        return ((start_loss + end_loss) / 2)[has_target].sum(), int(has_target.sum())

    @override
    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        windows_of: list[list[int]] = [[] for _ in examples]
        for index, example_index in enumerate(windows.example):
            windows_of[example_index].append(index)
        return [
            self._predict_example(example.texts[1], [(windows.context[i], outputs[i]) for i in indices])
            for example, indices in zip(examples, windows_of, strict=True)
        ]

    def _predict_example(self, context: str, windows: Sequence[tuple[Window, npt.NDArray[np.float32]]]) -> Prediction:
        spans: list[CandidateSpan] = []
        null_scores: list[float] = []
        for window, logits in windows:
            output = logits.astype(np.float64)
            null_scores.append(float(output[0].sum()))
            candidates = plain_spans(window, output, self.max_answer, self.n_best)
            spans += [span_of(context, window, candidate) for candidate in candidates]
        by_text: dict[str, CandidateSpan] = {}
        for span in sorted(spans, key=lambda span: -span.score):
            by_text.setdefault(span.text, span)
        best_spans, null_score = tuple(by_text.values())[: self.n_best], min(null_scores)
        return Prediction(best_spans, null_score - (best_spans[0].score if best_spans else 0.0))

    @override
    def shown_gold(self, example: Example) -> list[str]:
        return [answer.text for answer in example.gold]

    def hashed_texts(self, example: Example) -> tuple[str, ...]:
        """Returns the context, so that the questions about a context stay together."""
        return (example.texts[1],)

    def answer(self, prediction: Prediction) -> CandidateSpan:
        """Returns the best answer, or `NO_ANSWER` if the null odds exceed the threshold."""
        return NO_ANSWER if self.unanswerable and prediction.null_odds > self.threshold else prediction.best

    @override
    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        answers = [prediction.best.text for prediction in predictions]
        golds = [[answer.text for answer in example.gold] for example in examples]
        if not self.unanswerable:
            return squad1_scores(answers, golds)
        odds = [prediction.null_odds for prediction in predictions]
        return squad2_scores(answers, golds, odds, self.threshold)

    @override
    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        rows: list[tuple[Cell, ...]] = [("id", "answer", "start", "end", "probability", "null_odds")]
        for example, prediction in zip(examples, predictions, strict=True):
            answer = self.answer(prediction)
            probability = float(probabilities(prediction)[0]) if answer.text else 0.0
            null_odds = float(prediction.null_odds)
            rows.append((example.id, answer.text, answer.start, answer.end, probability, null_odds))
        return [row if self.unanswerable else row[:-1] for row in rows]

    def files(self, split: str, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, bytes]:
        """Returns the table, the n-best lists and the files that the official scorers read, by file name."""
        by_id = {example.id: prediction for example, prediction in zip(examples, predictions, strict=True)}
        contents = {
            "predictions": {name: self.answer(prediction).text for name, prediction in by_id.items()},
            "nbest": {name: n_best(prediction) for name, prediction in by_id.items()},
        }
        if self.unanswerable:
            contents["null_odds"] = {name: prediction.null_odds for name, prediction in by_id.items()}
        json_files = {f"{split}.{name}.json": durable.to_json(content) for name, content in contents.items()}
        return super().files(split, predictions, examples) | json_files

    @override
    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {THRESHOLD_KEY: scores[f"best_{self.metrics[0]}_threshold"]} if self.unanswerable else {}

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> Self:
        """Returns the task of a saved model; ModelError if the saved threshold is not a number."""
        threshold = config.get(THRESHOLD_KEY)
        if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int | float)):
            problem = f"{THRESHOLD_KEY} must be a number, not {threshold!r}"
            raise ModelError(problem, where=CONFIG, fix="Fix or remove it")
        unanswerable = True if self.unanswerable is None else self.unanswerable
        return replace(self, unanswerable=unanswerable, no_answer_threshold=threshold)


def _require_answers(examples: Sequence[Example]) -> None:
    unanswered = next((example for example in examples if not example.gold), None)
    if unanswered:
        fix = "Use `task` squad2 if questions may be unanswerable, or add such questions to the training data"
        raise DataError("this question has no answer", where=unanswered.where, fix=fix)


def has_offset(example: Example) -> bool:
    """Whether the first gold answer occurs in the context."""
    return bool(example.gold) and example.gold[0].start is not None


def target_of(window: Window, example: Example, span: tuple[int, int] | None) -> Ids:
    """Returns the target bits of a window [tokens]; all 0 if the context does not contain the answer.

    `span` has the answer's first and last token in the context. Both START and END are at [CLS] if the
    question has no answer or another window contains it.
    """
    bits = np.zeros(len(window.ids), np.int64)
    if not example.gold:
        bits[0] = START | END
    elif span is not None:
        start, end = window.target(span) or (0, 0)
        bits[start] |= START
        bits[end] |= END
    return bits
