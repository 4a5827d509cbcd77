"""Unknown tokens: every command that encodes says their share above 1 %, and refuses above 20 %."""

import csv
from pathlib import Path

import pytest

import electra
from electra.commands.framework.main import main
from electra.data.corpus.unknown import Count
from electra.foundation.errors import TokenizerError, UnknownTokens

ENGLISH = ["The film was a long way from the first one.", "It is the best of the year, and I saw it twice."]
KOREAN = [
    "\uc601\ud654\uac00 \uc815\ub9d0 \uc7ac\ubbf8\uc788\uc5c8\ub2e4",
    "\uc2dc\uac04\uc774 \uc544\uae4c\uc6e0\ub2e4",
]
LETTERS = ["ACGT" * 40, "TTGACA" * 30]


def table(path: Path, texts: list[str]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = [(f"{text} {i}", "ab"[i % 2]) for i in range(20) for text in texts]
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


@pytest.mark.parametrize(("texts", "word"), [(KOREAN, "Hangul"), (LETTERS, "100 letters")])
def test_texts_of_unknown_tokens_are_refused(texts: list[str], word: str, tmp_path: Path) -> None:
    corpus, rows = tmp_path / "corpus.txt", table(tmp_path / "rows.csv", texts)
    corpus.write_text("\n".join(texts * 20), encoding="utf-8")
    calls = {
        "prepare": lambda: electra.prepare(corpus, out=tmp_path / "s", tokenizer="tiny-en", workers=1),
        "pretrain": lambda: electra.pretrain(corpus, out=tmp_path / "r", init="tiny-en", budget="2steps"),
        "finetune": lambda: electra.finetune(
            "tiny-en", task="classification", data=rows, out=tmp_path / "f", baselines=False
        ),
        "embed": lambda: electra.embed("tiny-en", texts),
        "detect": lambda: electra.detect("tiny-en", texts, scorer="discriminator"),
        "show": lambda: electra.show("tiny-en", texts[0]),
    }
    for name, call in calls.items():
        with pytest.raises(TokenizerError, match=word):
            call()
            pytest.fail(name)
    assert {path.name for path in tmp_path.iterdir()} <= {"corpus.txt", "rows.csv", "r"}
    with pytest.warns(UnknownTokens, match=word):
        assert electra.embed("tiny-en", texts, allow_unknown=True).shape[0] == len(texts)


@pytest.mark.parametrize(
    ("texts", "is_said"),
    [(ENGLISH * 20, False), ([*ENGLISH * 9, KOREAN[0]], True), (["one \u2615 cup"], True)],
)
def test_a_small_share_is_said(texts: list[str], is_said: bool, recwarn: pytest.WarningsRecorder) -> None:
    for _ in electra.load("tiny-en").detector("discriminator")(texts, 0.5, allow_unknown=False):
        assert any(warning.category is UnknownTokens for warning in recwarn) == is_said, "before the first"
    electra.load("tiny-en").embed(texts)
    assert len([warning for warning in recwarn if warning.category is UnknownTokens]) == 2 * is_said


def test_a_store_with_unknown_tokens_is_refused_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dna.txt").write_text("\n".join(LETTERS * 20))
    options = ("--unit", "line", "--vocab-size", "50", "--workers", "1", "--out", "store", "--allow-unknown")
    for words, code in (
        (("prepare", "dna.txt", *options), 0),
        (("prepare", "dna.txt", *options[:-1]), 2),
        (("pretrain", "store", "--out", "run", "--dry-run"), 2),
    ):
        assert main([*words]) == code
        printed = capsys.readouterr()
        assert printed.err.count("\n") == (code == 2) and "100 letters" in printed.out + printed.err
    found = electra.prepare("dna.txt", out=tmp_path / "bytes", kind="bpe", vocab_size=300, workers=1)
    assert Count.of(found.tokens.audit).unknown == 0
