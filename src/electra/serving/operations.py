"""What can be asked of a model: each request with its schema, its work and the shape of its answer.

The docstrings are what the API's description says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from electra.artifacts.model import Judge, Pooling
from electra.data.rows import ID_COLUMNS
from electra.inference.mlm_detection import tokens_read
from electra.serving.limits import BATCH_CHARACTERS, BATCH_READ, MAX_CANDIDATES, Limits, Refused
from electra.serving.models import Ability, Served


class Request(BaseModel, ABC):
    model_config = ConfigDict(extra="forbid", strict=True)

    PATH: ClassVar[str]
    ABILITY: ClassVar[Ability]
    ANSWERS: ClassVar[str] = "results"  # the answer's key beside `model`
    EXAMPLE: ClassVar[dict[str, Any]]

    model: str | None = Field(None, description="A served model's name; null: the first that can do this")

    @property
    @abstractmethod
    def items(self) -> Sequence[Any]:
        """What is computed one by one, together with those of other requests."""

    @abstractmethod
    def work(self, served: Served, items: Sequence[Any]) -> Sequence[Any]:
        """One result for each item. Called in the computing thread."""

    def own(self, found: Sequence[Any]) -> Sequence[Any]:
        """The results for this request's items, as if they had been computed alone."""
        return found

    def key(self, served: Served) -> Hashable:
        """Requests of one key may be computed together: all but their items is the same."""
        settings = self.model_dump_json(exclude={"model", "texts", "inputs"})
        return served.name, self.PATH, settings

    def check(self, served: Served, limits: Limits) -> float:
        """The share of a batch that this fills, or more than 1. Raises Refused where it is too much work."""
        if len(self.items) > limits.max_texts:
            what = f"{len(self.items)} texts in one request, at most {limits.max_texts}"
            raise Refused(413, what, "Send them in several requests")
        longest = max(map(_length, self.items), default=0)
        if longest > limits.max_characters:
            what = f"a text of {longest:,} characters, at most {limits.max_characters:,}"
            raise Refused(413, what, "Cut it into parts")
        characters = sum(map(_length, self.items))
        return max(len(self.items) / limits.batch_size, characters / BATCH_CHARACTERS)


class OfTexts(Request):
    texts: list[str]

    @property
    def items(self) -> Sequence[str]:
        return self.texts


class Detect(OfTexts):
    """The probability that a word was replaced, for each word and token of each text."""

    PATH, ABILITY = "/detect", "detect"
    EXAMPLE = {"texts": ["The chef ate the meal."]}

    threshold: float | None = Field(
        None, ge=0, le=1, description="P(replaced) from which a word is marked; null: the model's own"
    )

    by: Judge = Field(
        "auto",
        description="Which network judges: auto is a full-size masked language model where there is one, else"
        " the discriminator",
    )

    def check(self, served: Served, limits: Limits) -> float:
        share, judge = super().check(served, limits), served.judge(self.by)
        if judge is None or judge.kind != "generator":
            return share
        if (tokens := tokens_read(judge, self.texts, most=limits.max_read)) > limits.max_read:
            what = f"more than {limits.max_read:,} tokens to read, each text once for each word"
            raise Refused(413, what, "Send less at a time, or let `by` be discriminator")
        return max(share, tokens / BATCH_READ)

    def work(self, served: Served, items: Sequence[str]) -> Sequence[Any]:
        return served.detect(items, self.threshold, self.by)


class Embed(OfTexts):
    """One vector of each text."""

    PATH, ABILITY, ANSWERS = "/embed", "embed", "vectors"
    EXAMPLE = {"texts": ["The chef cooked the meal.", "A cook made dinner."]}

    pooling: Pooling | None = Field(None, description="null: as the model's folder says")

    def work(self, served: Served, items: Sequence[str]) -> Sequence[Any]:
        return served.embed(items, self.pooling)


class Predict(Request):
    """What a fine-tuned model answers to each input."""

    PATH, ABILITY = "/predict", "predict"
    EXAMPLE = {"inputs": ["a fine film"]}

    inputs: list[str | list[str] | dict[str, Any]] = Field(
        description="All of one kind: texts; pairs of texts or, for a tagger, the words of a sentence, as"
        " lists; or objects with the columns of the task's files"
    )
    threshold: float | None = Field(
        None,
        description="Of a tagger with two labels: the probability from which a word is marked; null: 0.5",
    )

    @property
    def items(self) -> Sequence[Any]:
        return self.inputs

    def own(self, found: Sequence[Any]) -> Sequence[Any]:
        """With ids that count within this request, where an input gives itself none."""
        for number, (given, record) in enumerate(zip(self.inputs, found, strict=True)):
            if not (
                isinstance(given, dict) and any(given.get(name) not in (None, "") for name in ID_COLUMNS)
            ):
                for row in record.get("words", [record]):
                    row["id"] = str(number)
        return found

    def key(self, served: Served) -> Hashable:
        kinds = {type(one).__name__ for one in self.inputs}
        if len(kinds) > 1:
            raise Refused(
                422, f"inputs of several kinds ({', '.join(sorted(kinds))})", "Send one kind", "inputs"
            )
        columns = {name for one in self.inputs if isinstance(one, dict) for name in one}
        return super().key(served), *kinds, frozenset(columns)

    def work(self, served: Served, items: Sequence[Any]) -> Sequence[Any]:
        assert served.predictor is not None
        pairs = isinstance(items[0], list) and served.predictor.task.head != "tagger"
        return served.predict([tuple(one) for one in items] if pairs else items, self.threshold)


class Fill(OfTexts):
    """What a generator would put at each [MASK] of each text, likeliest first."""

    PATH, ABILITY = "/fill", "fill"
    EXAMPLE = {"texts": ["The chef [MASK] the meal."], "top": 3}

    top: int = Field(5, ge=1, le=100, description="Candidates for each place")

    def check(self, served: Served, limits: Limits) -> float:
        share, mask = super().check(served, limits), served.mask
        if (found := self.top * sum(text.count(mask) for text in self.texts)) > MAX_CANDIDATES:
            what = f"{found:,} candidates in one answer, at most {MAX_CANDIDATES:,}"
            raise Refused(413, what, "Send fewer texts, or ask for fewer candidates")
        return max(share, found / MAX_CANDIDATES)

    def work(self, served: Served, items: Sequence[str]) -> Sequence[Any]:
        return served.fill(items, self.top)


class Draw(OfTexts):
    """A text with some tokens masked and filled in by the generator, judged by the discriminator."""

    PATH, ABILITY = "/draw", "draw"
    EXAMPLE = {"texts": ["The chef cooked the meal."], "seed": 1}

    seed: int = Field(1, ge=0, lt=2**31, description="The same seed gives the same draw")
    masked: float = Field(0.4, gt=0, le=1, description="Share of the tokens that is masked, at least one")

    def work(self, served: Served, items: Sequence[str]) -> Sequence[Any]:
        return [served.draw(text, self.seed, self.masked) for text in items]


OPERATIONS: tuple[type[Request], ...] = (Detect, Embed, Predict, Fill, Draw)


def _length(item: Any) -> int:
    """Characters of a text, of the longest of several, or of a row's longest cell."""
    if isinstance(item, str):
        return len(item)
    if isinstance(item, dict):
        return max(map(_length, item.values()), default=0)
    return sum(map(_length, item)) if isinstance(item, list) else 0
