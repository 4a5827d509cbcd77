"""Question answering: which characters of a context answer a question, if any do (SQuAD 1.1, SQuAD 2.0, your
own data).

Two heads. The plain one, the default: a logit for the beginning and one for the end of an answer at each
token, which transformers' AutoModelForQuestionAnswering loads; no answer is worth the logits at [CLS]. The
joint one (`--head joint`) is the paper's, heads/joint.py. Kept of the published code: windows of 512 tokens
that begin 128 apart, questions truncated to 64 tokens, answers of up to 30 tokens, a list of the 20 best, 2
epochs; windows without the answer learn [CLS] as its beginning and its end, in 1.1 too; of several windows
the lowest belief in "no answer" counts; of several gold answers the first is learned. Thresholds: 0 for the
plain head, -2.75 for the joint one. Departures: every span of the context is considered, not the pairs of the
20 best beginnings and ends; answers are cut out of the context by offsets, where the published code looks up
the words of the tokens in it; padding takes no part in the softmax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from electra.artifacts.model import CONFIG
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.labelled.questions import FORMATS, GoldAnswer, read_questions
from electra.finetuning.metrics.scores import Score
from electra.finetuning.metrics.squad import METRICS, score_1, score_2
from electra.finetuning.settings import TaskOptions
from electra.finetuning.tasks.parts.task import Cell, HeadKind, Outputs, Task, counted_notes, file_of
from electra.finetuning.windows.context_windows import Arrangement, Context, Window, cut
from electra.finetuning.windows.features import NO_TARGET, Ids, Tokens, Windows
from electra.finetuning.windows.span_search import (
    NOTHING,
    Prediction,
    Span,
    beam_spans,
    ensemble,
    n_best,
    plain_spans,
    probabilities,
    span_of,
)
from electra.foundation import durable
from electra.foundation.errors import ConfigError, DataError, ModelError

START, END, IMPOSSIBLE = 1, 2, 4  # what a token's target is made of; IMPOSSIBLE stands at [CLS]
ANSWERABILITY_WEIGHT = 0.5  # of the joint head's classifier, as published
THRESHOLD = "no_answer_threshold"  # in config.json of a saved model


@dataclass(frozen=True, kw_only=True)
class QuestionAnswering(Task):
    head: ClassVar[HeadKind] = "reader"
    has_classes: ClassVar[bool] = False

    texts: tuple[tuple[str, ...], ...] = (("question", "context"),)
    label: tuple[str, ...] = ("answers",)
    formats: tuple[str, ...] = FORMATS
    metrics: tuple[str, ...] = METRICS[1]
    unanswerable: bool | None = None  # whether questions may have no answer; None = found in training data
    joint: bool = False  # whether the outputs are those of the head `joint`
    no_answer_threshold: float | None = None  # None: the published one
    epochs: float = 2
    max_length: int = 512
    stride: int = 128
    max_question: int = 64  # tokens
    max_answer: int = 30  # tokens
    n_best: int = 20

    def with_options(self, options: TaskOptions) -> Self:
        if len(options.text_column or ("question", "context")) != 2:
            what = "two columns are needed, of the question and of the context"
            raise ConfigError(what, key="text_column")
        return super().with_options(options)

    @property
    def label_names(self) -> tuple[str, ...]:
        return ("start", "end")

    @property
    def threshold(self) -> float:
        """Null odds above which there is no answer."""
        if self.no_answer_threshold is not None:
            return self.no_answer_threshold
        return -2.75 if self.joint else 0.0

    @property
    def rule(self) -> str:
        return f"no answer where null odds exceed {self.threshold:.4g}" if self.unanswerable else ""

    def at_threshold(self, threshold: float) -> Task:
        if not self.unanswerable:
            return super().at_threshold(threshold)
        return replace(self, no_answer_threshold=threshold)

    def read(self, path: Path, labelled: bool = True) -> Split:
        (question, context), answers = self.texts[0], self.label[0] if self.label else None
        examples = read_questions(path, (question, context, answers), labelled)
        answered = [example for example in examples if example.gold]
        if answered and not any(map(placed, answered)):
            fix = "Check that answers and contexts come from the same file"
            raise DataError("no answer occurs in its context", where=path, fix=fix)
        if labelled and self.unanswerable is False:
            _refuse_unanswerable(examples)
        return Split(examples)

    def fit(self, examples: Sequence[Example]) -> QuestionAnswering:
        if not any(map(placed, examples)):
            raise DataError("no question has an answer: nothing to learn", where=file_of(examples))
        unanswerable = self.unanswerable
        if unanswerable is None:
            unanswerable = not all(example.gold for example in examples)
        return replace(self, unanswerable=unanswerable, metrics=METRICS[2 if unanswerable else 1])

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        tokenizer, arrangement = tokens.tokenizer, Arrangement.of(tokens.tokenizer)
        labelled = all(example.gold is not None for example in examples)
        if labelled and not self.unanswerable:
            _refuse_unanswerable(examples)
        texts = dict.fromkeys(example.texts[1] for example in examples)
        contexts = {text: Context.of(tokenizer, text) for text in texts}
        questions = tokenizer.encode_corpus([example.texts[0] for example in examples])
        windows: list[Window] = []
        numbers: list[int] = []
        targets: list[Ids] = []
        for number, (example, question) in enumerate(zip(examples, questions, strict=True)):
            context = contexts[example.texts[1]]
            span = answer_tokens(example, context) if labelled else None
            if train and example.gold and span is None:
                continue
            shortened = question[: self.max_question].astype(np.int64)
            made = cut(shortened, context, arrangement, max_length, self.stride)
            windows += made
            numbers += [number] * len(made)
            targets += [target_of(window, example, span) for window in made] if labelled else []
        if train and not windows:
            raise DataError("the tokenizer drops every answer", where=examples[0].where)
        answers = [example.gold[0] for example in examples if example.gold]
        counts = {
            f"questions in {len(windows)} windows": len(examples),
            "questions whose answer stands nowhere in the context: scored, not learned": sum(
                answer.start is None for answer in answers
            ),
            "answers that stand elsewhere than the file says: the nearest place is taken": sum(
                answer.moved for answer in answers
            ),
            f"questions longer than {self.max_question} tokens, truncated": sum(
                len(question) > self.max_question for question in questions
            ),
        }
        return Windows(
            input_ids=[window.ids for window in windows],
            token_type_ids=[window.types for window in windows],
            example=np.array(numbers, np.int64),
            targets=targets if labelled else None,
            token_targets=True,
            context=windows,
            notes=counted_notes(counts),
        )

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, int]:
        """The mean of the cross-entropies of beginning and end; windows that say neither (an answer out of
        place) do not count.
        """
        bits = targets.clamp(min=0)
        learned = (bits & START).any(1)
        if self.joint:  # the head has looked the targets up itself: it needs the beginning to say the end
            start_loss, end_loss, impossible = logits[:, :3].float().unbind(1)
            wanted = (bits[:, 0] & IMPOSSIBLE).ne(0).float()
            loss = F.binary_cross_entropy_with_logits(impossible, wanted, reduction="none")
            extra = ANSWERABILITY_WEIGHT * loss
        else:
            padding = (targets == NO_TARGET).unsqueeze(-1)
            starts, ends = logits.float().masked_fill(padding, float("-inf")).unbind(-1)
            start_loss = F.cross_entropy(starts, (bits & START).argmax(1), reduction="none")
            end_loss = F.cross_entropy(ends, (bits & END).argmax(1), reduction="none")
            extra = torch.zeros_like(start_loss)
        return ((start_loss + end_loss) / 2 + extra)[learned].sum(), int(learned.sum())

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        members: list[list[int]] = [[] for _ in examples]
        for index, number in enumerate(windows.example):
            members[number].append(index)
        return [
            self._predict_one(example.texts[1], [(windows.context[i], outputs[i]) for i in mine])
            for example, mine in zip(examples, members, strict=True)
        ]

    def _predict_one(
        self, context: str, read: Sequence[tuple[Window, npt.NDArray[np.float32]]]
    ) -> Prediction:
        spans_of = beam_spans if self.joint else plain_spans
        found: list[Span] = []
        null_scores: list[float] = []
        for window, logits in read:
            output = logits.astype(np.float64)
            null_scores.append(float(output[2] if self.joint else output[0].sum()))
            candidates = spans_of(window, output, self.max_answer, self.n_best)
            found += [span_of(context, window, candidate) for candidate in candidates]
        spans: dict[str, Span] = {}
        for span in sorted(found, key=lambda span: -span.score):
            spans.setdefault(span.text, span)
        best, null = tuple(spans.values())[: self.n_best], min(null_scores)
        return Prediction(best, null if self.joint or not best else null - best[0].score)

    def gold_told(self, example: Example) -> list[str]:
        return [answer.text for answer in example.gold]

    def side(self, example: Example) -> tuple[str, ...]:
        """Questions about one context stay together."""
        return (example.texts[1],)

    def average(self, predictions: Sequence[Sequence[Any]]) -> list[Any]:
        """Each answer's mean probability over the models, and the mean null odds."""
        return [ensemble(of_one, self.n_best) for of_one in zip(*predictions, strict=True)]

    def said(self, prediction: Prediction) -> Span:
        """The answer given, at the threshold."""
        return NOTHING if self.unanswerable and prediction.null_odds > self.threshold else prediction.best

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        answers = [prediction.best.text for prediction in predictions]
        golds = [[answer.text for answer in example.gold] for example in examples]
        if not self.unanswerable:
            return score_1(answers, golds)
        return score_2(answers, golds, [prediction.null_odds for prediction in predictions], self.threshold)

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[Cell, ...]]:
        rows: list[tuple[Cell, ...]] = [("id", "answer", "start", "end", "probability", "null_odds")]
        for example, prediction in zip(examples, predictions, strict=True):
            said = self.said(prediction)
            share = float(probabilities(prediction)[0]) if said.text else 0.0
            rows.append((example.id, said.text, said.start, said.end, share, float(prediction.null_odds)))
        return [row if self.unanswerable else row[:-1] for row in rows]

    def files(self, split: str, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, bytes]:
        """The table, a list of the best answers, and the official scorers' files (2.0: null odds too)."""
        named = {example.id: found for example, found in zip(examples, predictions, strict=True)}
        contents = {
            "predictions": {name: self.said(found).text for name, found in named.items()},
            "nbest": {name: n_best(found) for name, found in named.items()},
        }
        if self.unanswerable:
            contents["null_odds"] = {name: found.null_odds for name, found in named.items()}
        written = {f"{split}.{name}.json": durable.to_json(content) for name, content in contents.items()}
        return super().files(split, predictions, examples) | written

    def config_values(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        return {THRESHOLD: scores[f"best_{self.metrics[0]}_threshold"]} if self.unanswerable else {}

    def rebuilt(self, labels: tuple[str, ...], config: Mapping[str, Any]) -> QuestionAnswering:
        """A model of which it is unknown whether it has seen unanswerable questions may give no answer."""
        threshold = config.get(THRESHOLD)
        if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int | float)):
            what = f"{THRESHOLD} is {threshold!r}, not a number"
            raise ModelError(what, where=CONFIG, fix="Fix or remove it")
        unanswerable = True if self.unanswerable is None else self.unanswerable
        return replace(self, unanswerable=unanswerable, no_answer_threshold=threshold)


def _refuse_unanswerable(examples: Sequence[Example]) -> None:
    """1.1 has no score for a question without an answer."""
    bare = next((example for example in examples if not example.gold), None)
    if bare:
        fix = "Use `task` squad2 where questions may have none, or train on such questions too"
        raise DataError("a question without an answer", where=bare.where, fix=fix)


def placed(example: Example) -> bool:
    return bool(example.gold) and example.gold[0].start is not None


def answer_tokens(example: Example, context: Context) -> tuple[int, int] | None:
    """The tokens of the answer to learn; None where there is none to point at."""
    answer: GoldAnswer | None = example.gold[0] if example.gold else None
    if answer is None or answer.start is None:
        return None
    return context.tokens_of(answer.start, answer.start + len(answer.text))


def target_of(window: Window, example: Example, span: tuple[int, int] | None) -> Ids:
    """The bits of each token of a window. All zero where there is an answer that cannot be pointed at."""
    bits = np.zeros(len(window.ids), np.int64)
    if not example.gold:
        bits[0] = START | END | IMPOSSIBLE
    elif span is not None:
        start, end = window.target(span) or (0, 0)
        bits[start] |= START
        bits[end] |= END
    return bits
