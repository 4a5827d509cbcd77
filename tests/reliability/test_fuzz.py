"""Every reader, fed files that began right: an answer or one line, within seconds and a gigabyte."""

import json
import re
import resource
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from electra.artifacts.ledger import Ledger
from electra.artifacts.model_files import ModelFolder
from electra.data.corpus.documents import Documents
from electra.data.corpus.store import TokenStore
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.tables.table import open_table
from electra.data.text_settings import CorpusConfig
from electra.exchange.load import load_folder
from electra.exchange.verify import verify
from electra.exchange.weights import read_safetensors
from electra.finetuning.labelled.questions import read_questions
from electra.finetuning.labelled.tagged_sentences import SentenceReader
from electra.foundation.config import read_toml
from electra.foundation.errors import ElectraError
from electra.laboratory.analysis.probes.reranking import read_utterances
from electra.training.recipe import make_recipe

FIXTURES = Path(__file__).parents[1] / "fixtures"
RUN = FIXTURES / "old-run-rtd"
NAMES = {"word": ("word", "words", "FORM"), "tag": ("tag", "tags", "UPOS")}
QUESTIONS = ("question", "context", "answers")
SECONDS, MEMORY = 5.0, 1 << 30

CONLLU = (
    b"# sent_id = a-1\n1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\tGED=c\n2-3\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
    b"2\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_\n\n"
)
BIO = b"word tag\nEU B-ORG\nrejects O\n\nPeter B-PER\nBlackburn I-PER\n"
ASKED = [
    {"id": "1", "question": "Which?", "answers": [{"text": "Paris", "answer_start": 0}]},
    {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
]
PARAGRAPH = {"context": "Paris is the capital of France.", "qas": ASKED}
SQUAD = json.dumps({"version": "2.0", "data": [{"title": "T", "paragraphs": [PARAGRAPH]}]}).encode()
JSONL = b'{"text": "fine", "label": 1, "words": ["a", "b"], "tags": ["X", "Y"]}\n{"text": "bad", "label": 0}\n'
RECIPE = b'[model]\nsize = "tiny"\n[training]\nsteps = 5\nbetas = [0.9, 0.99]\n[objective]\nname = "rtd"\n'
NBEST = b'{"ref": "a b", "hyps": [{"text": "a c", "am": -1.5}, {"text": "a b", "am": -2.0}]}\n'


def rows_of(path: Path) -> None:
    list(open_table(path).rows)


def documents_of(path: Path) -> None:
    for _ in Documents([path], CorpusConfig(unit="line")):
        pass


def recipe_of(path: Path) -> None:
    make_recipe(read_toml(path), where=str(path))


def safetensors_of(path: Path) -> None:
    list(ModelFolder(path.parent).check())
    read_safetensors(path)


# name -> (the file as it should be, what reads it)
READERS: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "recipe.toml": (RECIPE, recipe_of),
    "metrics.jsonl": ((RUN / "metrics.jsonl").read_bytes()[:3000], Ledger.read),
    "model.safetensors": ((RUN / "discriminator/model.safetensors").read_bytes()[:6000], safetensors_of),
    "tokenizer.json": ((RUN / "discriminator/tokenizer.json").read_bytes(), Tokenizer.load),
    "vocab.txt": ((RUN / "discriminator/vocab.txt").read_bytes(), Tokenizer.load),
    "rows.csv": (b'text,label\n"a, b",1\nplain,0\n', rows_of),
    "rows.tsv": (b"text\tlabel\na b\t1\nplain\t0\n", rows_of),
    "rows.jsonl": (JSONL, rows_of),
    "texts.jsonl": (JSONL, documents_of),
    "texts.txt": (b"one line\ntwo \xc3\xa9 lines\n\nthree\n", documents_of),
    "tagged.jsonl": (JSONL, lambda path: SentenceReader(path, False, **NAMES).read()),
    "tagged.conllu": (CONLLU, lambda path: SentenceReader(path, True, **NAMES).read()),
    "tagged.bio": (BIO, lambda path: SentenceReader(path, True, **NAMES).read()),
    "squad.json": (SQUAD, lambda path: read_questions(path, QUESTIONS, labelled=True)),
    "questions.jsonl": (
        b'{"id": "1", "question": "Who?", "context": "It was Ada.", "answers": ["Ada"]}\n',
        lambda path: read_questions(path, QUESTIONS, labelled=True),
    ),
    "nbest.jsonl": (NBEST, read_utterances),
}
# file of a folder -> what reads the folder
FOLDERS: dict[str, Callable[[Path], Any]] = {
    "store/store.json": lambda path: TokenStore.open(path / "store").check(),
    "store/train.ds.index": lambda path: TokenStore.open(path / "store").check(),
    "store/manifest.json": lambda path: list(verify(path / "store")),
    "discriminator/config.json": lambda path: load_folder(path / "discriminator"),
    "discriminator/tokenizer_config.json": lambda path: load_folder(path / "discriminator"),
    "run.toml": lambda path: list(verify(path)),
    "examples.json": lambda path: list(verify(path)),
    "checkpoints/step-00000006/state.json": lambda path: list(verify(path)),
}

TOKENS = [
    *(b"\0", b"\n", b"\r", b"\t", b'"', b"'", b"\\", b"[", b"]", b"{", b"}", b",", b":", b"=", b"|||", b"#"),
    *(b"null", b"NaN", b"Infinity", b"-1", b"1e999", b"99999999999999999999", b"\xff", b"\xed\xa0\x80"),
    *(b"\\ud800", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\x1b[31m", b"[" * 3000, b'{"a":' * 3000, b"A" * 70_000),
]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["flip", "insert", "token", "delete", "repeat", "cut"]),
        st.floats(0, 1),
        st.integers(1, 64),
        st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(TOKENS)),
    ),
    min_size=1,
    max_size=6,
)


def mutated(content: bytes, changes: list[tuple[str, float, int, bytes]]) -> bytes:
    for how, share, size, piece in changes:
        at = int(share * len(content))
        if how == "flip" and content:
            at = min(at, len(content) - 1)
            content = content[:at] + bytes([content[at] ^ (1 << size % 8)]) + content[at + 1 :]
        elif how in ("insert", "token"):
            content = content[:at] + piece + content[at:]
        elif how == "delete":
            content = content[:at] + content[at + size :]
        elif how == "repeat":
            content = content[:at] + content[at : at + size] * 3 + content[at + size :]
        elif how == "cut":
            content = content[:at]
    return content


def attempt(reader: Callable[[Path], Any], path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    began = time.monotonic()
    try:
        reader(path)
    except ElectraError as error:
        line = str(error)
        assert line and "\n" not in line and not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e]", line), line
    assert time.monotonic() - began < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before < MEMORY


def rows_with(quick: int, long: int, names: Iterable[str]) -> list[Any]:
    """Some mutations of each file, and many of them in `make test-reliability`."""
    many = [pytest.param(name, long, marks=pytest.mark.reliability) for name in names]
    return [*((name, quick) for name in names), *many]


@pytest.mark.parametrize(("name", "examples"), [*rows_with(25, 1000, READERS), *rows_with(8, 300, FOLDERS)])
def test_a_mutated_file_is_read_or_refused_in_one_line(name: str, examples: int, tmp_path: Path) -> None:
    if name in FOLDERS:
        folder, reader = shutil.copytree(RUN, tmp_path / "run"), FOLDERS[name]
        content = (folder / name).read_bytes()
    else:
        folder, (content, reader) = tmp_path, READERS[name]
    quiet = [HealthCheck.too_slow]

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=examples < 100,
        database=None,
        suppress_health_check=quiet,
    )
    @given(CHANGES)
    def run(changes: list[tuple[str, float, int, bytes]]) -> None:
        (folder / name).write_bytes(mutated(content, changes))
        attempt(reader, folder if name in FOLDERS else folder / name)

    run()
