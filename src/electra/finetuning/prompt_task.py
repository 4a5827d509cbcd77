"""Prompting as a task: the discriminator judges which candidate completes a sentence best (Xia et al. 2022).

Each label has words that stand for it. A template makes one sentence of the text and each candidate, the
discriminator reads them all, and the candidate that looks most original wins: no new parameter. Several
pieces of a candidate count by the mean of their logits. Training continues the pre-training task on such
sentences: the right candidate is original, each wrong one is replaced.

Accuracy is the expected one: where k candidates share the highest score, a right one among them counts 1/k,
so a model that cannot tell the candidates apart scores chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional as F

from electra.data.tokenizer import Tokenizer
from electra.finetuning.features import NO_TARGET, Ids, Tokens, Windows
from electra.finetuning.labelled.examples import Example, Split
from electra.finetuning.metrics import Score
from electra.finetuning.prompt_templates import FilledTemplate, Prompt
from electra.finetuning.task import HeadKind, Outputs, Task, digits
from electra.finetuning.text_class import TextClassification
from electra.foundation.errors import ConfigError

ORIGINAL, REPLACED = 0, 1
CandidateScores = npt.NDArray[
    np.float64
]  # [examples, labels]: how original each candidate looks, in log-odds


@dataclass(frozen=True, kw_only=True)
class PromptTask(Task):
    head: ClassVar[HeadKind] = "candidates"
    saves_weights: ClassVar[bool] = False

    classes: TextClassification
    prompt: Prompt

    @classmethod
    def of(cls, classes: TextClassification, prompt: Prompt) -> Self:
        return cls(
            name=classes.name,
            version=classes.version,
            source=classes.source,
            metrics=("accuracy", "ties"),
            texts=classes.texts,
            label=classes.label,
            classes=classes,
            prompt=prompt,
        )

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.classes.labels

    def read(self, path: Path, labelled: bool = True) -> Split:
        return self.classes.read(path, labelled)

    def fit(self, examples: Sequence[Example]) -> PromptTask:
        return PromptTask.of(self.classes.fit(examples), self.prompt)

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        """A window for each label of each example, in that order. Its targets are ORIGINAL or REPLACED at the
        candidate's tokens, and NO_TARGET elsewhere.
        """
        ids: list[Ids] = []
        targets: list[Ids] = []
        truncated = 0
        for example in examples:
            gold, shortened = self.classes.gold_class(example), False
            for number, words in enumerate(self.prompt.words.values()):
                filled = self.prompt.fill(example.texts, words)
                kept, places, whole = encode(tokens.tokenizer, filled, max_length)
                target = np.full(len(kept), NO_TARGET, np.int64)
                target[places] = ORIGINAL if number == gold else REPLACED
                ids.append(kept)
                targets.append(target)
                shortened |= not whole
            truncated += shortened
        return Windows(
            input_ids=ids,
            token_type_ids=[np.zeros(len(row), np.int64) for row in ids],
            example=np.repeat(np.arange(len(examples)), len(self.label_names)),
            targets=targets,
            token_targets=True,
            group=len(self.label_names),
            truncated=truncated,
        )

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """Replaced token detection on candidates: logits [B], targets [B, T]."""
        wanted = targets.amax(1).float()
        return F.binary_cross_entropy_with_logits(logits, wanted, reduction="sum"), len(logits)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Of each example the scores [labels], which are log-odds of being original."""
        return list(-np.stack(outputs).astype(np.float64).reshape(-1, windows.group))

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        scores = np.stack(predictions)
        gold = np.array([self.classes.gold_class(example) for example in examples])
        return {"accuracy": Score(expected_accuracy(scores, gold)), "ties": Score(ties(scores))}

    def table(self, predictions: Sequence[Any], examples: Sequence[Example]) -> list[tuple[str, ...]]:
        rows = [
            (example.id, self.label_names[int(scores.argmax())], *map(digits, scores))
            for example, scores in zip(examples, predictions, strict=True)
        ]
        return [("id", "label", *(f"score({label})" for label in self.label_names)), *rows]


def encode(tokenizer: Tokenizer, filled: FilledTemplate, max_length: int) -> tuple[Ids, Ids, bool]:
    """(ids, places of the candidate's tokens, whether nothing was cut): the longer text is cut."""
    whole = tokenizer.encode(filled.sentence)

    def inside(span: tuple[int, int]) -> list[int]:
        tokens = zip(whole.offsets, whole.special, strict=True)
        return [
            i
            for i, ((start, end), special) in enumerate(tokens)
            if not special and start < span[1] and end > span[0]
        ]

    label = inside(filled.label)
    if not label or tokenizer.specials.unk in [whole.ids[i] for i in label]:
        what = f"the model's vocabulary cannot write {filled.sentence[slice(*filled.label)]!r}"
        raise ConfigError(what, key="words", fix="Use other words for this label")
    texts = [inside(span) for span in filled.texts]
    gone: set[int] = set()
    while len(whole.ids) - len(gone) > max_length:
        longest = max(texts, key=len)
        if not longest:
            what = f"the template alone has more than {max_length} tokens"
            raise ConfigError(what, key="max_length", fix="Raise it")
        gone.add(longest.pop())
    kept = [i for i in range(len(whole.ids)) if i not in gone]
    return np.array(whole.ids, np.int64)[kept], np.flatnonzero(np.isin(kept, label)), not gone


def winners(scores: CandidateScores) -> npt.NDArray[np.bool_]:
    """Which candidates have an example's highest score."""
    highest: npt.NDArray[np.bool_] = scores == scores.max(1, keepdims=True)
    return highest


def expected_accuracy(scores: CandidateScores, gold: npt.NDArray[np.int64]) -> float:
    """Of drawing one of the winners at random."""
    top = winners(scores)
    return float((top[np.arange(len(gold)), gold] / top.sum(1)).mean())


def ties(scores: CandidateScores) -> float:
    """Share of the examples with more than one winner."""
    return float((winners(scores).sum(1) > 1).mean())
