"""Texts of probes: rows of held-out text, sentences by language learners, and reproducible samples."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from electra.artifacts.store_files import StoreFolder
from electra.data.corpus.documents import Documents
from electra.data.corpus.store import TokenStore
from electra.data.text_settings import CorpusConfig
from electra.finetuning.labelled.examples import Example
from electra.foundation.arrays import Ints
from electra.foundation.config import option
from electra.foundation.errors import ConfigError
from electra.foundation.seeds import key, permute
from electra.laboratory.analysis.contract import Input, ProbeDataError
from electra.laboratory.analysis.scoring.token_rows import FRACTION

if TYPE_CHECKING:
    from electra.data.corpus.tokenizer import Tokenizer

Item = TypeVar("Item")
Language = Literal["en", "de"]

STORE = StoreFolder.RECORD
PER_DOCUMENT = 8  # maximum rows from one document, so that none dominates the sample
SHORTEST = 8  # minimum tokens in a row: leaves out headings and the like
CORRECT = "c"  # the label of a correct word
at_least_0, at_least_1 = (partial(option, limits=(n, math.inf, f"at least {n}")) for n in (0, 1))


@dataclass(frozen=True)
class ResampledOptions:
    """Base class of the options of probes with intervals."""

    resamples: int = at_least_0(200)
    """Bootstrap samples for the intervals."""
    seed: int = 0
    """Seed of all that is drawn: masks, samples, halves and bootstrap."""


@dataclass(frozen=True)
class CorruptedOptions(ResampledOptions):
    """Base class of the options of probes that replace tokens."""

    fraction: float = option(FRACTION, limits=(0.01, 1.0, "at least 0.01 and at most 1"))
    """Share of the tokens that the generator resamples."""


@dataclass(frozen=True)
class HeldOutOptions(CorruptedOptions):
    """Base class of the options of probes that read running text."""

    rows: int = at_least_1(256)
    """Rows of held-out text."""
    length: int = option(128, limits=(10, math.inf, "at least 10"))
    """Length of the rows in tokens, with [CLS] and [SEP]."""


def sample(items: Sequence[Item], limit: int, seed: int = 0) -> list[Item]:
    """Returns at most `limit` items (0: all), in order; a larger limit gives the same items and more."""
    if limit < 0:
        raise ConfigError(f"must be at least 0 (0: all), not {limit}", where="sentences")
    if not 0 < limit < len(items):
        return list(items)
    indices = permute(np.arange(limit), len(items), key(seed, "analysis/sample"))
    return [items[i] for i in sorted(indices.astype(int).tolist())]


def text_input(required: bool = True) -> Input:
    """Returns the input for held-out text: a token store or text files."""
    patterns = (STORE, "heldout*.txt*", "wikitext*test*.txt*", "./*.txt*", "./*.jsonl*", "./*.parquet")
    return Input("text", "held-out text (a token store or text files)", patterns, required)


def held_out_rows(tokenizer: "Tokenizer", paths: Sequence[Path], *, length: int, count: int) -> list[Ints]:
    """Returns at most `count` rows of up to `length` ids, a few from each held-out document or text.

    Raises ProbeDataError if no text is long enough, or the token store has a different tokenizer.
    """
    rows: list[Ints] = []
    for ids in _documents(tokenizer, paths):
        starts = range(0, max(1, len(ids) - length // 2), length)
        pieces = [ids[start : start + length] for start in starts[:PER_DOCUMENT]]
        rows += [row for row in pieces if len(row) >= SHORTEST]
        if len(rows) >= count:
            break
    if not rows:
        fix = "Pass a token store or other text files"
        raise ProbeDataError("contains no text that is long enough", where=paths[0], fix=fix)
    return rows[:count]


def _documents(tokenizer: "Tokenizer", paths: Sequence[Path]) -> Iterator[Ints]:
    if paths[0].name != STORE:
        for text in Documents(paths, CorpusConfig(unit="line")):
            yield tokenizer.encode_corpus([text.text])[0].astype(np.int64)
        return
    store = TokenStore.open(paths[0].parent)
    if store.tokenizer_digest != tokenizer.digest:
        problem = "the token store was made with a different tokenizer than the model's"
        fix = "Pass text files, which are tokenised for each model"
        raise ProbeDataError(problem, where=store.path, fix=fix)
    for index in range(store.heldout.num_documents):
        yield np.asarray(store.heldout.document(index)).astype(np.int64)


def learner_inputs(language: Language, required: bool = True) -> tuple[Input, Input]:
    """Returns the inputs for dev and test files, in which any label but "c" (correct) marks an error."""
    corpus = {"en": "fce", "de": "falko"}[language]
    dev = (f"ged/{corpus}*/dev.tsv*", "./dev.tsv*", "./*dev*.tsv*")
    test = (f"ged/{corpus}*/test.tsv*", "./test.tsv*", "./*test*.tsv*")
    what = "learners' sentences with a label for each word"
    optional = Input("learners_test", f"{what} (test)", test, required=False)
    return Input("learners", f"{what} (dev)", dev, required), optional


def tagged_sentences(path: Path, task: str = "pos") -> list[Example]:
    """Reads sentences as a task of tagging does: the words as texts, a tag for each as gold."""
    from electra.finetuning.tasks import load_task

    return list(load_task(task).read(path).examples)


def read_learners(path: Path) -> list[Example]:
    """Reads sentences with a label for each word, and removes backslashes before quotation marks.

    Raises ProbeDataError if no word is labelled as correct, DataError if there are no labels or sentences.
    """
    sentences = [
        replace(each, texts=tuple(word.replace('\\"', '"') for word in each.texts))
        for each in tagged_sentences(path, "ged")
    ]
    if not any(CORRECT in sentence.gold for sentence in sentences):
        problem = f'no word is labelled "{CORRECT}" (correct)'
        fix = "Each line must be a word, a tab and its label"
        raise ProbeDataError(problem, where=path, fix=fix)
    return sentences
