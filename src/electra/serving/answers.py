"""The schemas of the responses, for the API's description; tests validate the responses against them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Response(BaseModel):
    """The fields of every response."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="The model that answered")


class Span(BaseModel):
    """A part of a text; `start` and `end` count Unicode code points of the text as sent."""

    start: int
    end: int
    p_replaced: float
    replaced: bool


class Token(Span):
    """A token and its score."""

    token: str


class Word(Span):
    """A word and the highest score of its tokens."""

    word: str


class Detection(BaseModel):
    """The scores of one text; `replaced` is true from `threshold` on."""

    text: str
    threshold: float
    tokens: list[Token]
    words: list[Word]


class DetectResponse(Response):
    """A detection for each text."""

    results: list[Detection]


class EmbedResponse(Response):
    """A vector for each text."""

    vectors: list[list[float]]


class PredictResponse(Response):
    """A record for each input: `label` and the probability of each label, `score`, `answer`, or `words`.

    `words` holds a record for each word of a tagged sentence.
    """

    results: list[dict[str, Any]]


class Candidate(BaseModel):
    """A token for a masked position, and its probability."""

    token: str
    p: float


class FillResponse(Response):
    """The candidates for each mask of each text, most probable first."""

    results: list[list[list[Candidate]]]


class Row(BaseModel):
    """One token of a drawn text; fields are null where the model has no generator or no discriminator."""

    word: int | None = Field(description="The index of the token's word")
    original: str
    masked: str | None
    generated: str | None
    label: str | None
    p_replaced: float | None


class DrawResponse(Response):
    """The rows of each text, one per token."""

    results: list[list[Row]]


class Problem(BaseModel):
    """What is wrong, where, and what to do about it."""

    what: str
    where: str
    fix: str


class ErrorResponse(BaseModel):
    """The body of every response with a status of 400 or above."""

    error: Problem
