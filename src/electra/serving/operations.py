"""The operations of the API, with the docstrings that describe them there: schemas and computation."""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from typing_extensions import override

from electra.artifacts.model_files import Pooling, Scorer
from electra.data.tables.lines import is_blank
from electra.finetuning.predict import EVERYTHING
from electra.foundation.errors import DataError
from electra.foundation.terminal_text import plural
from electra.inference.embedding import as_json, embed
from electra.inference.filling import fill, to_json
from electra.serving import limits
from electra.serving.limits import RequestError
from electra.serving.models import Ability, ServedModel


class Operation(BaseModel):
    """The fields and methods of every request."""

    model_config = ConfigDict(extra="forbid", strict=True)

    ABILITY: ClassVar[Ability]

    model: str | None = Field(
        None, description="Name of a served model (default: the first that supports the operation)"
    )

    _notes: dict[str, None] = PrivateAttr(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """What the response warns of, once the work is done."""
        empty = sum(isinstance(item, str) and is_blank(item) for item in self.items)
        note = f"{empty} of {plural(len(self.items), 'text')} are empty and get no answer"
        counted = [note] if empty else []
        return [*counted, *self._notes]

    @property
    def items(self) -> Sequence[Any]:
        """The inputs: the value of the field `texts` or `inputs`."""
        given: Sequence[Any] = getattr(self, "inputs", None) or getattr(self, "texts", [])
        return given

    def work(self, served: ServedModel, part: slice = EVERYTHING) -> Sequence[Any]:
        """Returns a result for each item of a part of the request. Runs in the worker's thread."""
        raise NotImplementedError

    def check(self, served: ServedModel) -> None:
        """Raises RequestError if the request exceeds a limit (413)."""
        require("texts in one request", len(self.items), limits.MAX_TEXTS)
        require("characters in one text", max(map(_length, self.items), default=0), limits.MAX_CHARACTERS)


class TextRequest(Operation):
    """A request whose inputs are plain texts."""

    texts: list[str] = Field(examples=[["The chef ate the meal."]])


class DetectRequest(TextRequest):
    """Scores each word of each text: the probability that it was replaced."""

    ABILITY = "detect"

    threshold: float | None = Field(
        None, ge=0, le=1, description="P(replaced) from which a word is marked (default: by false_alarms)"
    )
    false_alarms: float = Field(0.01, gt=0, lt=1, description="Share of clean words that may be marked")
    suggestions: int = Field(0, ge=0, le=10, description="Number of words to suggest for each marked word")
    scorer: Scorer = Field(
        "auto",
        description="What detects; auto: the best on errors made up in the model's clean text, or else a"
        " full-size masked language model if the model has one, or the discriminator",
    )

    @override
    def work(self, served: ServedModel, part: slice = EVERYTHING) -> Sequence[Any]:
        detector = served.networks.detector(self.scorer)
        marking = detector.marking(self.threshold, self.false_alarms)
        found = detector(self.texts[part], marking.threshold, suggestions=self.suggestions)
        return [each.to_json(all_words=True) for each in found]


class EmbedRequest(TextRequest):
    """Returns a vector for each text; null for an empty one."""

    ABILITY = "embed"

    pooling: Pooling | None = Field(
        None, description="How token states become one vector (default: as the model's folder says)"
    )

    @override
    def work(self, served: ServedModel, part: slice = EVERYTHING) -> Sequence[Any]:
        return [*map(as_json, embed(served.encoder, self.texts[part], self.pooling))]


class PredictRequest(Operation):
    """Returns what is `predicted`, with its `probability`; of a tagger, a record for each of `words`."""

    ABILITY = "predict"

    inputs: list[str | list[str] | dict[str, Any]] = Field(
        examples=[["a fine film"]],
        description="Inputs of one kind: texts; lists of two texts (or, for a tagger, of the words of a"
        " sentence); or objects with the columns of the task's files",
    )
    threshold: float | None = Field(
        None, description="Probability from which a tagger with two labels marks a word (default: 0.5)"
    )

    @override
    def work(self, served: ServedModel, part: slice = EVERYTHING) -> Sequence[Any]:
        assert served.predictor is not None
        is_tagger = served.predictor.task.head == "tagger"
        given: list[Any] = [*self.inputs]
        if not is_tagger:
            given = [tuple(item) if isinstance(item, list) else item for item in given]
        predictions = served.predictor.texts(given, self.threshold, part=part)
        self._notes |= dict.fromkeys(predictions.unread)
        examples = predictions.by_example()
        if len(examples) != len(given[part]):
            fix = "Send texts, lists of words for a tagger, or objects with the task's columns"
            raise DataError("each input must be one example of the task", fix=fix)
        return [{"words": rows} if is_tagger else rows[0] for rows in examples]


class FillRequest(TextRequest):
    """Returns a generator's most probable tokens for each [MASK] of each text."""

    ABILITY = "fill"

    top: int = Field(5, ge=1, le=100, description="Number of candidates per mask")

    @override
    def check(self, served: ServedModel) -> None:
        super().check(served)
        num_masks = sum(text.count(served.mask) for text in self.texts)
        require("candidates in one response", self.top * num_masks, limits.MAX_CANDIDATES)

    @override
    def work(self, served: ServedModel, part: slice = EVERYTHING) -> Sequence[Any]:
        return [to_json(slots) for slots in fill(served.networks.language_model, self.texts[part], self.top)]


OPERATIONS: tuple[type[Operation], ...] = (DetectRequest, EmbedRequest, PredictRequest, FillRequest)


def require(what: str, count: int, limit: int) -> None:
    """Raises RequestError (413) if a request has more of something than the limit."""
    if count > limit:
        raise RequestError(413, f"{count:,} {what}; the limit is {limit:,}", "Send less in one request")


def _length(item: Any) -> int:
    if isinstance(item, dict):
        return max(map(_length, item.values()), default=0)
    return len(item) if isinstance(item, str) else sum(map(_length, item)) if isinstance(item, list) else 0
