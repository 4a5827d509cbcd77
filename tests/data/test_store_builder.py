"""A store has the same bytes for any number of workers, and is written completely or not at all."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from corpora import WORDS, all_ids, contents, texts, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import electra.data.corpus.documents
from electra.data.corpus import holding_out, store_builder
from electra.data.corpus.store import TokenStore
from electra.data.corpus.store_builder import build_store
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import CorpusConfig, TokenizerConfig
from electra.foundation import durable, progress
from electra.foundation.errors import CorpusError, RunFailed, RunFolderError, StoreError

CONFIG = CorpusConfig(heldout=0.05)


def encoded(tokenizer: Tokenizer, documents: Iterable[str]) -> list[list[int]]:
    return [ids.tolist() for ids in tokenizer.encode_corpus(list(documents))]


def test_every_document_is_in_exactly_one_split(tmp_path: Path, tokenizer: Tokenizer) -> None:
    kept = texts()
    corpus = write(tmp_path, [*kept[:100], "", "  \n ", kept[3], f" {kept[4]}\n", "\u200b", *kept[100:]])
    built = build_store([corpus], tokenizer, tmp_path / "store", config=CONFIG, workers=1)
    expected, audit = encoded(tokenizer, kept), built.audit
    train, held = all_ids(built.train), all_ids(built.heldout)
    assert sorted(train + held) == sorted(expected), "every kept document once, whole"
    assert [ids for ids in expected if ids in train] == train, "in the order of reading"
    assert 1 <= len(held) <= 40
    counted = {name: audit[f"documents_{name}"] for name in ("read", "empty", "duplicate")}
    assert counted == {"read": 305, "empty": 3, "duplicate": 2}
    assert (audit["documents_train"], audit["documents_heldout"]) == (len(train), len(held))
    assert (audit["tokens"], audit["tokens_lost"]) == (sum(map(len, expected)), 0)
    assert audit["tokens_train"] == built.train.num_tokens and audit["heldout_by"] == "hash"
    assert audit["words"] == sum(len(text.split()) for text in kept)
    assert built.specials == tokenizer.specials and built.tokenizer.digest == tokenizer.digest
    built.verify()


def test_the_audit_counts_unknown_tokens_and_used_entries(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = write(tmp_path, ["the chef \u4e00", "the meal \u4e01 \u4e02"])
    audit = build_store([corpus], tokenizer, tmp_path / "store", allow_unknown=True).audit
    assert audit["tokens_unknown"] == 3 and audit["unknown_rate"] == 3 / audit["tokens"]
    assert audit["vocabulary_used"] == len({*chain(*encoded(tokenizer, ["the chef meal", "\u4e00"]))})


def test_held_out_documents_depend_on_their_text_only(tmp_path: Path, tokenizer: Tokenizer) -> None:
    documents = texts(600)
    one, other = (
        build_store([write(tmp_path, some, f"{name}.jsonl")], tokenizer, tmp_path / name, config=CONFIG)
        for name, some in (("one", documents), ("other", documents[::-1][:500]))
    )
    assert set(map(tuple, all_ids(other.heldout))) <= set(map(tuple, all_ids(one.heldout)))
    assert 10 <= one.heldout.num_documents <= 60


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    share=st.sampled_from([0.001, 0.005, 0.3, 0.999]),
)
def test_small_corpora_always_hold_some_text_out(
    sizes: list[int], share: float, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    documents = [f"{'the ' * size}{WORDS[i]}" for i, size in enumerate(sizes)]
    folder, config = Path(tempfile.mkdtemp(dir=tmp_path)), CorpusConfig(heldout=share)
    built = build_store([write(folder, documents)], tokenizer, folder / "store", config=config)
    ids = encoded(tokenizer, dict.fromkeys(documents))
    total = sum(map(len, ids))
    assert built.train.num_tokens + built.heldout.num_tokens == total and built.audit["tokens_lost"] == 0
    assert built.train.num_tokens and built.heldout.num_tokens
    train, held_out = all_ids(built.train), all_ids(built.heldout)
    if built.audit["heldout_by"] == "end of one document":
        (held,) = held_out
        assert len(held) <= max(share * total + 1, total / 10, 1)
        assert any(each[-len(held) :] == held and each[: -len(held)] in train for each in ids)
    else:
        assert sorted(train + held_out) == sorted(ids)
    built.verify()


def test_too_little_text_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for documents in ([""], ["a"]):
        with pytest.raises(CorpusError):
            build_store([write(tmp_path, documents)], tokenizer, tmp_path / "store")
        assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"], "nothing half-written"


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(electra.data.corpus.documents, "_CHUNK", 1000)


@pytest.mark.parametrize("share", [1e-9, 0.02])
def test_held_out_text_has_a_minimum_size(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    corpus, config = write(tmp_path, texts(200)), CorpusConfig(heldout=share)

    def built(name: str) -> TokenStore:
        return build_store([corpus], tokenizer, tmp_path / name, config=config)

    few = built("few")
    fewest = 3 * few.heldout.num_tokens + 1
    monkeypatch.setattr(holding_out, "MIN_HELDOUT_TOKENS", fewest)
    more = built("more")
    more.verify()
    before, train, held = all_ids(few.train), all_ids(more.train), all_ids(more.heldout)
    assert fewest <= more.heldout.num_tokens < fewest + max(map(len, before))
    assert "at least" in more.audit["heldout_by"]
    assert sorted(train + held) == sorted(before + all_ids(few.heldout)), "nothing lost, nothing twice"
    assert train == [ids for ids in before if ids not in held], "in the order of the text"
    monkeypatch.setattr(holding_out, "MIN_HELDOUT_TOKENS", more.train.num_tokens)
    assert built("same").digest == few.digest, "never more than a tenth"


def test_the_smallest_hash_is_held_out_if_no_hash_is_below_the_limit(
    tmp_path: Path, tokenizer: Tokenizer, small_chunks: None
) -> None:
    documents, config = texts(90), CorpusConfig(heldout=1e-9)
    built = build_store([write(tmp_path, documents)], tokenizer, tmp_path / "store", config=config)
    least = min(documents, key=lambda text: hashlib.blake2b(text.encode(), digest_size=16).digest())
    assert documents.index(least) > 20, "not in the first chunk"
    assert all_ids(built.heldout) == encoded(tokenizer, [least])
    assert built.audit["heldout_by"] == "smallest hash"
    assert all_ids(built.train) == encoded(tokenizer, (text for text in documents if text != least))


def test_a_killed_worker_is_a_one_line_error(
    tmp_path: Path, tokenizer: Tokenizer, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill_a_worker(activity: str, share: float | None) -> None:
        for path in Path("/proc/self/task").glob("*/children"):
            for child in path.read_text().split():
                if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGKILL)

    corpus, out = write(tmp_path, texts(3000)), tmp_path / "store"
    monkeypatch.setattr(progress, "displays", [kill_a_worker])
    with pytest.raises(RunFailed):
        build_store([corpus], tokenizer, out, workers=2)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


PROGRAM = """
import sys
from pathlib import Path
from electra.data.corpus import documents as corpus
from electra.data.corpus import store_builder
from electra.data.text_settings import CorpusConfig
from electra.data.text_settings import TokenizerConfig
corpus._CHUNK = 2000
text, out, workers = sys.argv[1:]
tokenizer, config = TokenizerConfig(vocab_size=80), CorpusConfig(heldout=0.05)
store = store_builder.build_store([text], tokenizer, out, config=config, workers=int(workers))
print(store.digest)
"""


def builder(corpus: Path, out: Path, workers: int = 1, **variables: str) -> subprocess.Popen[bytes]:
    program = out.parent / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(corpus), str(out), str(workers)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=os.environ | variables, start_new_session=True, **pipes)


def finish(process: subprocess.Popen[bytes]) -> bytes:
    output, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return output


@pytest.mark.slow
def test_hash_seeds_processes_and_locales_change_no_byte(tmp_path: Path) -> None:
    corpus = write(tmp_path, [*texts(200), "Straße, naïve, 東京"])
    others = {"LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Asia/Kathmandu"}  # files are ASCII unless told
    running = [
        builder(corpus, tmp_path / f"s{n}", workers=2 - n, PYTHONHASHSEED=str(n), **(others if n else {}))
        for n in (0, 1)
    ]
    assert len({finish(process) for process in running}) == 1
    assert contents(tmp_path / "s0") == contents(tmp_path / "s1")


@pytest.mark.slow
def test_a_killed_builder_does_not_block_the_next(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", texts(1500))
    began = time.monotonic()
    finish(builder(corpus, tmp_path / "whole", workers=2))
    took = time.monotonic() - began
    moments = random.Random(5)
    for _ in range(2):
        process = builder(corpus, tmp_path / "killed", workers=2)
        time.sleep(moments.uniform(0.2, 1.0) * took)
        process.kill()  # the main process only: its workers must notice
        process.communicate()
        assert group_ends(process.pid), "the workers of a killed builder end"
        if (tmp_path / "killed").exists():
            TokenStore.open(tmp_path / "killed").verify()
    finish(builder(corpus, tmp_path / "killed"))
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "killed", "program.py", "whole"]


def group_ends(group: int) -> bool:
    """Whether all processes of the group end within ten seconds (one that only waits to be reaped
    has ended).
    """
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        states = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            states += [state] if int(its_group) == group else []
        if all(state == "Z" for state in states):
            return True
        time.sleep(0.1)
    return False


class Crash(BaseException):
    """Raised in place of ending the process."""


def test_a_crash_at_any_file_operation_leaves_a_whole_store_or_none(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = write(tmp_path, texts(30)), tmp_path / "store"
    expected = contents(build_store([corpus], tokenizer, tmp_path / "wanted").path)
    left = -1

    def counted(name: str) -> Callable[..., None]:
        whole = getattr(durable, name)

        def operation(*arguments: Any) -> None:
            nonlocal left
            if left == 0:
                raise Crash
            left -= 1
            whole(*arguments)

        return operation

    for name in ("write", "fsync", "rename"):
        monkeypatch.setattr(durable, name, counted(name))
    crashes = 0
    while True:
        left = crashes
        try:
            build_store([corpus], tokenizer, out)
            break
        except Crash:
            crashes += 1
            assert not out.exists() or contents(out) == expected
            shutil.rmtree(out, ignore_errors=True)
    assert crashes > 15 and contents(out) == expected


@pytest.mark.slow
def test_two_builders_at_once_make_one_store(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", texts(2000))
    running = [builder(corpus, tmp_path / "store") for _ in range(3)]
    ended = [(process.communicate(), process.returncode) for process in running]
    assert any(code == 0 for _, code in ended)
    assert all(code == 0 or b"in use by process" in error for (_, error), code in ended), ended
    TokenStore.open(tmp_path / "store").verify()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "program.py", "store"]


def test_a_locked_folder_is_a_one_line_error(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with durable.lock(tmp_path / ".store.building"), pytest.raises(RunFolderError):
        build_store([write(tmp_path, texts(5))], tokenizer, tmp_path / "store")


def test_leftovers_of_an_interrupted_build_are_removed(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / ".store.building"
    (work / "copies" / "x").mkdir(parents=True)
    (work / "train.ds").write_bytes(b"half")

    def interrupt(activity: str, share: float | None) -> None:
        raise KeyboardInterrupt

    corpus = write(tmp_path, texts(30))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(progress, "displays", [interrupt])
        build_store([corpus], tokenizer, tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]
    build_store([corpus], tokenizer, tmp_path / "store").verify()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "store"]


def test_equal_settings_reuse_a_store_and_others_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus, out = write(tmp_path, texts(50)), tmp_path / "store"
    expected = TokenizerConfig(vocab_size=80)
    (tmp_path / "store").mkdir()  # an empty folder is as good as none
    first = build_store([corpus], expected, out, config=CONFIG)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert build_store([corpus], expected, out, config=CONFIG).digest == first.digest
    assert build_store([str(corpus)], first.tokenizer, out, config=CONFIG).digest == first.digest, "its own"
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*")}, "nothing is written"
    refusals: list[tuple[Any, CorpusConfig, str]] = [
        (TokenizerConfig(vocab_size=81, lowercase=False), CONFIG, "vocab_size .*80.*81.*lowercase"),
        (expected, CorpusConfig(heldout=0.5, unit="line"), "unit .*file.*line.*heldout"),
        (tokenizer.train(texts(9), TokenizerConfig(vocab_size=70)), CONFIG, "tokenizer was"),
    ]
    for chosen, config, message in refusals:
        with pytest.raises(StoreError, match=message):
            build_store([corpus], chosen, out, config=config)
    write(tmp_path, texts(51))
    with pytest.raises(StoreError):
        build_store([corpus], expected, out, config=CONFIG)


def test_the_vocabulary_is_trained_on_an_even_sample_of_the_training_split() -> None:
    digests = [hashlib.blake2b(str(i).encode(), digest_size=16).digest() for i in range(1000)]
    documents = [store_builder.KeptDocument(f"{i:04d}" * 250, digest, i % 10 == 0) for i, digest in enumerate(digests)]
    assert len(store_builder.sample_documents(documents, 10**9)) == 900
    places = [int(text[:4]) for text in store_builder.sample_documents(documents, 300_000)]
    assert 100 <= len(places) <= 300 and 400 < sum(places) / len(places) < 600
    assert not any(place % 10 == 0 for place in places)
    assert store_builder.sample_documents(documents[1:2], 10) == [documents[1].text], "never nothing"
