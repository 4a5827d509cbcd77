"""electra prepare, as a command and as a step of a run."""

import json
import random
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from electra.commands.framework.main import main
from electra.commands.prepare import prepare
from electra.data.corpus.store import TokenStore
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import TokenizerConfig


def corpus(path: Path, count: int = 200) -> Path:
    chooser = random.Random(3)
    words = ["the", "chef", "cooked", "a", "meal", "and", "ate", "it", "Slowly"]
    path.write_text("\n".join(" ".join(chooser.choices(words, k=12)) for _ in range(count)))
    return path


def electra(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "electra", "prepare", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.slow
def test_prepare_makes_a_store_and_reports_it(tmp_path: Path) -> None:
    text, out = corpus(tmp_path / "a.txt"), tmp_path / "store"
    command = (text, "--unit", "line", "--out", out, "--vocab-size", 50, "--no-lowercase", "--heldout", 0.02)
    done = electra(*command)
    assert done.returncode == 0, done.stderr
    assert "0 lost" in done.stdout and f"written: {out}" in done.stdout.replace("\n", "")
    store = TokenStore.open(out)
    assert store.vocab_size == 50 and store.tokenizer.token_to_id("S") is not None
    assert store.heldout.num_documents >= 1
    again = electra(*command)
    assert again.returncode == 0 and "already complete" in again.stdout and "documents" in again.stdout
    other = electra(text, "--unit", "line", "--out", out, "--vocab-size", 51, "--heldout", 0.02)
    assert other.returncode == 2 and other.stderr.count("\n") == 1
    assert "tokenizer.vocab_size was 50, now 51; tokenizer.lowercase was False, now True" in other.stderr


def test_prepare_reads_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = "".join(json.dumps({"body": f"the chef cooked meal {i}"}) + "\n" for i in range(50))
    tokenizer = Tokenizer.train(["the chef cooked a meal"] * 9, TokenizerConfig(vocab_size=24))
    tokenizer.save(tmp_path / "tokenizer")
    command = ("-", "--out", "s", "--format", "jsonl", "--text-field", "body", "--tokenizer", "tokenizer")
    command += ("--allow-unknown",)  # the numbers
    done = electra(*command, input=records, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    store = TokenStore.open(tmp_path / "s")
    assert store.audit["documents_read"] == 50 and store.tokenizer_digest == tokenizer.digest
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", *command]) == 0, "complete: stdin is not needed again"


SCRIPTS = {  # two words that removing the marks of Unicode's decomposition makes one
    "ja": ("\u304b", "\u304c"),
    "ru": ("\u043c\u043e\u0438", "\u043c\u043e\u0439"),
    "hi": ("\u0915", "\u0915\u0941"),
    "th": ("\u0e21\u0e32", "\u0e21\u0e49\u0e32"),
    "ar": ("\u0643\u064e\u062a\u064e\u0628\u064e", "\u0643\u064f\u062a\u0650\u0628\u064e"),
    "vi": ("ma", "m\u00e1"),
    "de": ("mochte", "m\u00f6chte"),
    "ko": ("\uac01", "\uac02"),
}


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_lower_casing_keeps_accents_where_they_matter(kind: str, tmp_path: Path) -> None:
    """By default, in every script; in English they are removed, as BERT does."""
    size = 60 if kind == "wordpiece" else 300
    options: dict[str, Any] = {"unit": "line", "vocab_size": size, "kind": kind}
    options |= {"workers": 1, "progress": "quiet"}
    for name, (first, second) in SCRIPTS.items():
        assert unmarked(first) == unmarked(second) or name == "ko", name
        text = tmp_path / f"{name}.txt"
        text.write_text("".join(f"{first} {second} {n}\n" for n in range(60)), encoding="utf-8")
        store = prepare(text, out=tmp_path / name, **options).tokens
        assert store.tokenizer.encode(first).ids != store.tokenizer.encode(second).ids, name
        assert store.tokenizer.encode(second.upper()).ids == store.tokenizer.encode(second).ids
        assert store.audit["accents"]["removed"] is False
        lines = text.read_text(encoding="utf-8").splitlines()
        share = sum(map(marked, "".join(lines))) / len("".join(lines))
        assert store.audit["accents"]["share"] == pytest.approx(share, rel=0.02)
    english = tmp_path / "en.txt"
    lines = [f"the caf\u00e9 and the room pleased us {'very ' * 200} {n}" for n in range(60)]
    english.write_text("\n".join(lines))
    store = prepare(english, out=tmp_path / "en", **options).tokens
    assert store.tokenizer.encode("caf\u00e9").ids == store.tokenizer.encode("cafe").ids
    assert store.audit["accents"]["removed"] is True
    forced = prepare(tmp_path / "de.txt", out=tmp_path / "forced", strip_accents=True, **options).tokens
    assert forced.tokenizer.encode("m\u00f6chte").ids == forced.tokenizer.encode("mochte").ids


def unmarked(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def marked(character: str) -> bool:
    return unmarked(character) != character


TURKISH = ["I\u015eIK \u0131\u015f\u0131k ve \u0130stanbul"] * 2 + ["\u0131l\u0131k su"]
FORMS, BROKEN = ("caf\u00e9", "cafe\u0301"), ("one\x0ctwo\x85four", "one two four")
CORPORA = {  # documents, what a note says, and two texts of the same tokens
    "Turkish": (TURKISH, "--no-lowercase", None),
    "a menu on every page": ([f"Home | Help | Log in\nPage {n}." for n in range(60)], "Home | Help", None),
    "two forms": ([f"{word} {n}" for word in FORMS for n in range(9)], "", FORMS),
    "page breaks": ([f"one\x0ctwo\x0bthree\x85four {n}" for n in range(9)], "", BROKEN),
}


@pytest.mark.parametrize("name", CORPORA)
def test_what_is_odd_in_a_corpus_is_noted_or_made_one(name: str, tmp_path: Path) -> None:
    documents, said, same = CORPORA[name]
    path = tmp_path / "texts.json"
    path.write_text(json.dumps(documents))
    options: dict[str, Any] = {"strip_accents": False, "vocab_size": 60, "allow_unknown": True}
    store = prepare(path, out=tmp_path / "s", workers=1, **options).tokens
    assert any(said in note for note in store.audit.get("notes", ())) if said else "notes" not in store.audit
    if same:
        first, second = (store.tokenizer.encode(text) for text in same)
        assert first.ids == second.ids and store.tokenizer.specials.unk not in first.ids
    distinct = {unicodedata.normalize("NFC", document) for document in documents}
    assert store.audit["documents_duplicate"] == len(documents) - len(distinct)
