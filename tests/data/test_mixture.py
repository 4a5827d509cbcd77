"""Mixtures of named corpora: their shares, and which documents are repeated or left out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import electra
from electra.commands.framework.main import main
from electra.commands.results.folders import Store
from electra.data.settings import CorpusConfig
from electra.data.store import TokenStore
from electra.foundation.errors import ConfigError

LARGE, SMALL = "the chef cooked a meal", "und wir essen es"


def write(folder: Path) -> tuple[Path, Path]:
    """Writes corpora of 900 and 100 documents, each with its own number."""
    output = folder / "en.txt", folder / "de.txt"
    for path, words, count in zip(output, (LARGE, SMALL), (900, 100), strict=True):
        path.write_text("\n".join(f"{words} {number}" for number in range(count)), encoding="utf-8")
    return output


def prepared(folder: Path, out: str, heldout: float = 0.02, **options: object) -> Store:
    en, de = write(folder)
    source = {"en": en, "de": [de]}
    return electra.prepare(
        source, out=folder / out, unit="line", vocab_size=80, heldout=heldout, workers=1, **options
    )  # type: ignore[arg-type]


def documents(store: TokenStore) -> Counter[str]:
    return Counter(store.tokenizer.decode(store.train.document(i)) for i in range(store.train.num_documents))


def test_proportions_are_sizes_to_the_power_of_the_exponent(tmp_path: Path) -> None:
    store = prepared(tmp_path, "mixed", mix_exponent=0.5)
    en, de = store.audit["mixture"]
    assert en["share"] / de["share"] == pytest.approx((en["tokens"] / de["tokens"]) ** 0.5, rel=0.02)
    assert en["tokens_mixed"] + de["tokens_mixed"] == pytest.approx(en["tokens"] + de["tokens"], rel=0.02)
    actual = documents(store.tokens)
    german = {text: count for text, count in actual.items() if "wir" in text}
    assert set(german.values()) == {2, 3} and set((actual - Counter(german)).values()) == {1}
    assert len(german) == de["documents"] == de["documents_repeated"] and de["documents_left_out"] == 0
    assert (
        len(actual) - len(german) == en["documents"] - en["documents_left_out"]
        and en["documents_left_out"] > 0
    )
    assert en["documents"] + de["documents"] == store.audit["documents_train"]
    assert store.audit["tokens_lost"] == 0 and store.audit["tokens_train"] == store.num_tokens
    held = {
        store.tokenizer.decode(store.tokens.heldout.document(i))
        for i in range(store.tokens.heldout.num_documents)
    }
    assert not held & set(actual), "what is held out is not repeated into the training text"
    store.verify()
    assert store.tokens.description["settings"]["corpus"]["corpora"] == {"en": 1, "de": 1}


def test_only_the_seed_changes_the_sample(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    one, two = (prepared(folder, "mixed", mix_exponent=0.3) for folder in folders[:2])
    other = prepared(folders[2], "mixed", mix_exponent=0.3, mix_seed=1)
    assert one.tokens.digest == two.tokens.digest != other.tokens.digest
    assert one.audit["mixture"][0]["documents_left_out"] == pytest.approx(
        other.audit["mixture"][0]["documents_left_out"], abs=3
    )


def test_an_exponent_of_one_equals_the_unmixed_corpus(
    tmp_path: Path,
) -> None:
    mixed = prepared(tmp_path, "mixed", mix_exponent=1.0)
    plain = electra.prepare(
        list(write(tmp_path)), out=tmp_path / "plain", unit="line", vocab_size=80, heldout=0.02, workers=1
    )
    assert mixed.tokens.digest == plain.tokens.digest
    assert "mix" not in (tmp_path / "plain" / "store.json").read_text() + json.dumps(plain.audit)


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_documents_keep_their_corpus_when_held_out_later(share: float, tmp_path: Path) -> None:
    """No document is held out by its hash, or every one is."""
    store = prepared(tmp_path, "mixed", heldout=share, mix_exponent=1.0)
    actual = documents(store.tokens)
    assert [corpus["documents"] for corpus in store.audit["mixture"]] == [
        sum(text.startswith(words) for text in actual) for words in (LARGE, SMALL)
    ]


@pytest.mark.slow
def test_enough_is_held_out_of_a_mixture(tmp_path: Path) -> None:
    en, de = write(tmp_path)
    for path, count in ((en, 20_000), (de, 4_000)):
        words = path.read_text().split(" 0")[0]
        path.write_text("\n".join(f"{words} {number}" for number in range(count)), encoding="utf-8")
    store = electra.prepare(
        {"en": en, "de": de},
        out=tmp_path / "mixed",
        unit="line",
        vocab_size=80,
        workers=1,
        mix_exponent=1.0,
    )
    assert store.audit["heldout_by"] == "hash, at least 10,000 tokens"
    actual = documents(store.tokens)
    assert [corpus["documents"] for corpus in store.audit["mixture"]] == [
        sum(text.startswith(words) for text in actual) for words in (LARGE, SMALL)
    ]


def test_an_exponent_of_zero_gives_equal_shares(tmp_path: Path) -> None:
    en, de = prepared(tmp_path, "mixed", mix_exponent=0.0).audit["mixture"]
    assert en["share"] == pytest.approx(0.5, abs=0.01) and de["documents_repeated"] == de["documents"]


def test_prepare_mixes_named_corpora(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    en, de = write(tmp_path)
    command = ["prepare", f"en={en}", f"de={de}", "--out", str(tmp_path / "store"), "--unit", "line"]
    command += ["--vocab-size", "80", "--workers", "1", "--mix-exponent", "0.5"]
    assert main(command) == 0
    message = capsys.readouterr().out
    assert "mixed: de" in message and "repeated" in message and "left out" in message
    assert main(command) == 0 and "already complete" in capsys.readouterr().out
    assert main([*command, "--mix-seed", "3"]) == 2
    assert "mix_seed" in capsys.readouterr().err


def test_corpora_without_any_text_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("en", "de"):
        (tmp_path / f"{name}.txt").write_text("\n\n")
    sources = [f"{name}={tmp_path / name}.txt" for name in ("en", "de")]
    assert main(["prepare", *sources, "--mix-exponent", "0.5", "--out", str(tmp_path / "store")]) == 2
    assert "no text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{en}", "de={de}", "--mix-exponent", "0.5"], "mix-exponent"),
        (["en={en}", "--mix-exponent", "0.5"], "mix-exponent"),
        (["en={en}", "de={de}", "--mix-exponent", "2"], "between 0 and 1"),
        (["en={en}", "de={de}"], "--data.mix-exponent"),
        (
            ["en={en}", "de={en}", "--mix-exponent", "0.5"],
            "de: ",
        ),
    ],
)
def test_wrong_mixtures_are_refused(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    en, de = write(tmp_path)
    typed = [word.format(en=en, de=de) for word in words]
    options = ["--out", str(tmp_path / "store"), "--unit", "line", "--workers", "1"]
    assert main(["prepare", *typed, *options]) == 2
    error = capsys.readouterr().err
    assert told in error.replace("\n", " ") and not (tmp_path / "store").exists()


def test_named_corpora_without_an_exponent_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mix_exponent"):
        prepared(tmp_path, "store")


def test_stores_record_the_old_name_of_the_exponent() -> None:
    recorded = CorpusConfig(mix_exponent=0.5).record(["de=a", "fi=b"])
    assert recorded["mix_temperature"] == 0.5 and "mix_exponent" not in recorded
    assert recorded["corpora"] == {"de": 1, "fi": 1}
