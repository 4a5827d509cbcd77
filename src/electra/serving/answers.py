"""The shapes of the answers, for the API's description; tests hold the answers to them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from electra.serving.operations import Detect, Draw, Embed, Fill, Predict, Request


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="The model that answered")


class Span(BaseModel):
    """`start` and `end` count Unicode code points of the text as sent."""

    start: int
    end: int
    p_replaced: float
    replaced: bool


class Token(Span):
    token: str


class Word(Span):
    word: str


class Detection(BaseModel):
    text: str
    threshold: float
    tokens: list[Token]
    words: list[Word]


class Detected(Answer):
    results: list[Detection]


class Embedded(Answer):
    vectors: list[list[float]]


class Predicted(Answer):
    """A record for each input: `label` and the probability of each, `score`, or `answer`; of a sentence
    `words`, a record each.
    """

    results: list[dict[str, Any]]


class Candidate(BaseModel):
    token: str
    p: float


class Filled(Answer):
    """For each text, for each mask in it, its candidates."""

    results: list[list[list[Candidate]]]


class Row(BaseModel):
    word: int | None = Field(description="The number of the token's word")
    original: str
    masked: str | None
    generated: str | None
    label: str | None
    p_replaced: float | None


class Drawn(Answer):
    """For each text a row a token."""

    results: list[list[Row]]


class Problem(BaseModel):
    """What is wrong, where, and what to do about it."""

    what: str
    where: str
    fix: str


class Failed(BaseModel):
    error: Problem


ANSWERS: dict[type[Request], type[Answer]] = {
    Detect: Detected,
    Embed: Embedded,
    Predict: Predicted,
    Fill: Filled,
    Draw: Drawn,
}
