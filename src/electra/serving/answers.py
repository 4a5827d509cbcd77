"""The schemas of the responses, for the API's description; tests validate the responses against them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from electra.serving.operations import Detect, Draw, Embed, Fill, Predict, Request


class Response(BaseModel):
    """The fields of every response."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(description="The model that answered")


class Span(BaseModel):
    """`start` and `end` count Unicode code points of the text as sent."""

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
    """One detection per text."""

    results: list[Detection]


class EmbedResponse(Response):
    """One vector per text."""

    vectors: list[list[float]]


class PredictResponse(Response):
    """One record per input: `label` and the probability of each label, `score`, `answer`, or `words`.

    `words` holds one record for each word of a tagged sentence.
    """

    results: list[dict[str, Any]]


class Candidate(BaseModel):
    """A token for a masked position, and its probability."""

    token: str
    p: float


class FillResponse(Response):
    """For each text, for each mask in it, its candidates, most probable first."""

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
    """For each text, one row per token."""

    results: list[list[Row]]


class Problem(BaseModel):
    """What is wrong, where, and what to do about it."""

    what: str
    where: str
    fix: str


class ErrorResponse(BaseModel):
    """The body of every response with a status of 400 or above."""

    error: Problem


RESPONSES: dict[type[Request], type[Response]] = {
    Detect: DetectResponse,
    Embed: EmbedResponse,
    Predict: PredictResponse,
    Fill: FillResponse,
    Draw: DrawResponse,
}
