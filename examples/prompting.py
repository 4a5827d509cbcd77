"""A custom task and head: the discriminator as a classifier, without new parameters.

    electra finetune runs/mine --task examples/prompting.py --head examples/prompting.py \
        --data sst-2/ --epochs 0 --out runs/zero-shot
    electra finetune runs/mine --task examples/prompting.py --head examples/prompting.py \
        --data sst-2/ --limit-train 32 --epochs 50 --layer-decay 1 --out runs/few-shot

A template combines the text and each label's words into a sentence. The discriminator reads all of them, and
the label whose words look most original is predicted (Xia et al. 2022). Training continues replaced token
detection on such sentences: the correct label's words count as original, the others as replaced. sst-2/
contains GLUE's files; for your own task, change TEMPLATE, WORDS and `TASK`. There are templates for other
tasks in Gao et al. 2021, Table 1.

The task is a classification with one window per label of each example. The head is the discriminator's; its
logit for a sentence is the mean over the tokens of the label's words. If k labels share the highest score and
one of them is correct, the example counts as 1/k correct.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn
from torch.nn import functional as F

from electra.data.tokenizer import Tokenizer
from electra.exchange.weight_names import Kind
from electra.finetuning.heads.parts.contract import HeadFactory, HeadModule, HeadShape
from electra.finetuning.labelled.examples import Example
from electra.finetuning.metrics.scores import Score
from electra.finetuning.tasks.parts.task import HeadKind, Outputs
from electra.finetuning.tasks.parts.text_tasks import TextClassification
from electra.finetuning.windows.features import NO_TARGET, Batch, Ids, Tokens, Windows
from electra.foundation.errors import ConfigError
from electra.model.heads import DiscriminatorHead

TEMPLATE = "{text} It was {label}."  # for pairs: "{text}? {label}, {text2}"
WORDS = {"negative": "terrible", "positive": "great"}
ORIGINAL, REPLACED = 0, 1
MARKS = ".,;:!?"


@dataclass(frozen=True, kw_only=True)
class Prompting(TextClassification):
    """Classification by the label whose words the discriminator takes for original."""

    head: ClassVar[HeadKind] = "candidates"
    has_classes: ClassVar[bool] = False

    template: str
    words: tuple[str, ...]  # for each label, one or more words

    def featurize(
        self, examples: Sequence[Example], tokens: Tokens, max_length: int, train: bool = False
    ) -> Windows:
        """Returns a window for each label of each example, in that order.

        Its targets are ORIGINAL or REPLACED at the label's words, and NO_TARGET elsewhere.
        """
        ids, targets, truncated = list[Ids](), list[Ids](), 0
        known = all(example.gold is not None for example in examples)
        for example in examples:
            gold, complete = self.gold_class(example) if known else None, True
            for label, words in enumerate(self.words):
                row, positions, fits = encode(
                    tokens.tokenizer, self.template, example.texts, words, max_length
                )
                target = np.full(len(row), NO_TARGET, np.int64)
                target[positions] = ORIGINAL if label == gold else REPLACED
                ids.append(row)
                targets.append(target)
                complete &= fits
            truncated += not complete
        return Windows(
            input_ids=ids,
            token_type_ids=[np.zeros(len(row), np.int64) for row in ids],
            example=np.repeat(np.arange(len(examples)), len(self.words)),
            targets=targets,
            token_targets=True,
            group=len(self.words),
            truncated=truncated,
        )

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, float]:
        """Returns the loss of replaced token detection on the labels' words: logits [B], targets [B, T]."""
        replaced = targets.amax(1).float()
        return F.binary_cross_entropy_with_logits(logits, replaced, reduction="sum"), len(logits)

    def predict(self, outputs: Outputs, windows: Windows, examples: Sequence[Example]) -> list[Any]:
        """Returns for each example the probabilities of its labels."""
        log_odds = -np.stack(outputs).astype(np.float64).reshape(-1, windows.group)
        odds = np.exp(log_odds - log_odds.max(1, keepdims=True))
        return list(odds / odds.sum(1, keepdims=True))

    def score(self, predictions: Sequence[Any], examples: Sequence[Example]) -> dict[str, Score]:
        if any(example.gold is None for example in examples):
            return {}
        gold = np.array([self.gold_class(example) for example in examples])
        return {"accuracy": Score(expected_accuracy(np.stack(predictions), gold))}


class PromptHead(HeadModule):
    """A discriminator's head; outputs the mean log-odds [B] that the tokens with a target were replaced."""

    not_in_graphs = "the candidates' tokens are known by their targets, which graphs do not have"

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own

    def forward(self, hidden_BTD: Tensor, batch: Batch) -> Tensor:
        assert batch.targets is not None
        has_target_BT = batch.targets != NO_TARGET
        logits_BT: Tensor = self.own(hidden_BTD)
        return (logits_BT.float() * has_target_BT).sum(1) / has_target_BT.sum(1)


class PromptHeadFactory(HeadFactory):
    """Builds a head from that of the pre-trained discriminator."""

    name = "prompting"
    kinds = ("candidates",)
    dropout = 0.0
    starts_from: ClassVar[Kind] = "discriminator"

    def build(self, shape: HeadShape) -> PromptHead:
        own = shape.pretrained or DiscriminatorHead(shape.config)  # a saved model's weights are loaded later
        return PromptHead(copy.deepcopy(own))


def encode(
    tokenizer: Tokenizer, template: str, texts: Sequence[str], words: str, max_length: int
) -> tuple[Ids, Ids, bool]:
    """Returns the ids, the positions of the label's tokens, and whether nothing had to be truncated.

    The longer text is truncated first.
    """
    values = dict(zip(("text", "text2"), texts, strict=False)) | {"label": words}
    parts = re.split(r"\{(text2?|label)\}", template)  # literal, field, literal, ...
    sentence, spans = parts[0], dict[str, tuple[int, int]]()
    for field, literal in zip(parts[1::2], parts[2::2], strict=True):
        value = values[field].strip()
        if field != "label" and literal[:1] in tuple(MARKS):  # the template adds a punctuation mark
            value = value.rstrip(MARKS + " ")
        spans[field] = (len(sentence), len(sentence) + len(value))
        sentence += value + literal
    encoding = tokenizer.encode(sentence)
    tokens = list(zip(encoding.offsets, encoding.special, strict=True))

    def inside(span: tuple[int, int]) -> list[int]:
        return [
            i for i, ((a, b), special) in enumerate(tokens) if not special and a < span[1] and b > span[0]
        ]

    label = inside(spans.pop("label"))
    if not label or tokenizer.specials.unk in [encoding.ids[i] for i in label]:
        raise ConfigError(f"the model's vocabulary cannot write {words!r}", fix="Change WORDS")
    removable, removed = [inside(span) for span in spans.values()], set[int]()
    while len(encoding.ids) - len(removed) > max_length:
        longest = max(removable, key=len)
        if not longest:
            problem = f"the template alone has more than {max_length} tokens"
            raise ConfigError(problem, key="max_length", fix="Raise it")
        removed.add(longest.pop())
    rest = [i for i in range(len(encoding.ids)) if i not in removed]
    return np.array(encoding.ids, np.int64)[rest], np.flatnonzero(np.isin(rest, label)), not removed


def expected_accuracy(probabilities: npt.NDArray[Any], gold: npt.NDArray[Any]) -> float:
    """Returns the expected accuracy if ties for the most probable label are broken at random."""
    top = probabilities == probabilities.max(1, keepdims=True)
    return float((top[np.arange(len(gold)), gold] / top.sum(1)).mean())


HEAD = PromptHeadFactory()
TASK = Prompting(
    name="prompting",
    version=1,
    source="Xia et al. 2022",
    metrics=("accuracy",),
    texts=(("sentence",), ("text",)),
    label=("label",),
    labels=tuple(WORDS),
    template=TEMPLATE,
    words=tuple(WORDS.values()),
    max_length=256,
)
