"""Detection by a masked language model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from copies import make_included

import electra
from electra.artifacts.model import CONFIG, SHARED, TOKENIZER, WEIGHTS
from electra.artifacts.run import PairFolder
from electra.data.tokenizer import Tokenizer
from electra.exchange.huggingface import export
from electra.exchange.load import load, load_language_model
from electra.exchange.source import locate
from electra.foundation.errors import AbsentNetwork, ConfigError, ModelError
from electra.inference.detection import Span, build_detection, tokenize
from electra.inference.mlm_detection import detect_by_mlm, insert_wrong_words
from electra.model import passes

TEXT = "The farmer fed the cows and the elephants before breakfast."


def test_each_word_is_judged_by_what_the_network_says_of_its_hidden_pieces() -> None:
    loaded = electra.load("tiny-en").language_model
    [actual] = detect_by_mlm(loaded, [TEXT])
    specials = loaded.tokenizer.specials
    encoding = loaded.tokenizer.encode(TEXT)
    kept = [i for i, special in enumerate(encoding.special) if not special]
    for number, word in enumerate(actual.words):
        at = [i for i in kept if encoding.words[i] == encoding.words[kept[0]] + number]
        ids = torch.tensor([encoding.ids])
        ids[0, at] = specials.mask
        with torch.no_grad():
            log_p = loaded.logits(ids)[0].double().log_softmax(-1)
        surprise = -np.mean([log_p[i, encoding.ids[i]].item() for i in at])
        expected = 1 / (1 + loaded.tokenizer.vocab_size * math.exp(-surprise))
        assert word.p_replaced == pytest.approx(expected, abs=1e-4), word.text


def test_detection_refuses_a_discriminator_and_a_bad_threshold() -> None:
    model = electra.load("tiny-en")
    with pytest.raises(ModelError):
        list(detect_by_mlm(model.network("discriminator"), [TEXT]))
    with pytest.raises(ConfigError):
        model.detect(TEXT, 2.0, scorer="language-model")


def test_detect_prefers_a_full_size_language_model(tmp_path: Path) -> None:
    model = electra.load("tiny-en")
    by_name = model.detect(TEXT, scorer="language-model")
    assert model.detect(TEXT) == by_name != model.detect(TEXT, scorer="discriminator")
    alone = electra.load(model.export(tmp_path / "alone"))
    assert alone.detect(TEXT) == alone.detect(TEXT, scorer="discriminator")
    with pytest.raises(AbsentNetwork):
        alone.detect(TEXT, scorer="language-model")


def test_insert_wrong_words_reports_where_words_changed() -> None:
    tokenizer = electra.load("tiny-en").encoder.tokenizer
    texts = ["The king died in London.", "", "A river flows (slowly) to the sea."] * 40
    changed_texts = insert_wrong_words(tokenizer, texts, share=0.3)
    assert changed_texts == insert_wrong_words(tokenizer, texts, share=0.3)
    changed = 0
    for text, (output, starts) in zip(texts, changed_texts, strict=True):
        pairs = zip(words_of(tokenizer, text), words_of(tokenizer, output), strict=True)
        assert {after.start for before, after in pairs if before.text != after.text} == starts
        changed += len(starts)
    assert 0.1 < changed / sum(len(words_of(tokenizer, text)) for text in texts) < 0.3


def words_of(tokenizer: Tokenizer, text: str) -> tuple[Span, ...]:
    pieces = tokenize(tokenizer, text)
    return build_detection(text, pieces, np.zeros(len(pieces.ids)), 1.0).words


def written_pair(out: Path) -> PairFolder:
    for path, loaded in make_included.load_networks(locate("tiny-en"), out).items():
        export(loaded, path, "tiny-en", dtype="float16")
    return PairFolder(out)


@pytest.mark.slow
def test_two_networks_can_share_the_weights_of_their_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = written_pair(tmp_path / "pair")
    whole = load_language_model(pair.path)
    folder = pair.language_model.path
    make_included.share_encoder(folder, "discriminator")
    thin = load_language_model(pair.path)
    assert whole is not None and thin is not None
    assert (folder / WEIGHTS).stat().st_size < 0.1 * (
        pair.network("discriminator").path / WEIGHTS
    ).stat().st_size
    assert not [finding for finding in electra.verify(folder) if finding.problem]
    assert not list(folder.glob("tokenizer*")) and thin.tokenizer.digest == whole.tokenizer.digest
    for one, other in zip(whole.encoder.parameters(), thin.encoder.parameters(), strict=True):
        assert torch.equal(one, other)
    assert (
        electra.load(pair.path).detect(TEXT, scorer="language-model")
        == list(detect_by_mlm(whole, [TEXT]))[:1]
    )
    monkeypatch.chdir(folder)
    assert load(".", "generator").tokenizer.digest == whole.tokenizer.digest
    (tmp_path / "link").symlink_to(folder)
    assert load(tmp_path / "link", "generator").tokenizer.digest == whole.tokenizer.digest
    record = json.loads((folder / CONFIG).read_text())
    for wrong in ("../discriminator", "nowhere", 3, "", "..", "x" * 5000, ["discriminator"]):
        (folder / CONFIG).write_text(json.dumps(record | {SHARED: wrong}))
        with pytest.raises(ModelError):
            load_language_model(pair.path)


@pytest.mark.slow
def test_a_head_is_refused_beside_another_encoder_or_tokenizer(tmp_path: Path) -> None:
    pair = written_pair(tmp_path / "pair")
    folder, beside = pair.language_model.path, pair.network("discriminator").path
    make_included.share_encoder(folder, "discriminator")
    tokens = (beside / TOKENIZER).read_text()
    (beside / TOKENIZER).write_text(tokens.replace('"##ing"', '"##gni"'))
    with pytest.raises(ModelError):
        load_language_model(pair.path)
    (beside / TOKENIZER).write_text(tokens)
    assert load_language_model(pair.path) is not None
    other = load(beside)
    with torch.no_grad():
        next(other.encoder.parameters()).add_(0.1)
    export(other, beside, "tiny-en", dtype="float16")
    with pytest.raises(ModelError):
        load_language_model(pair.path)


def test_a_text_alone_scores_as_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_language_model(locate("tiny-en"))
    assert loaded is not None
    monkeypatch.setattr(passes, "POOL_ROWS", 8)
    together = list(detect_by_mlm(loaded, [TEXT, "", "a cat"]))
    monkeypatch.undo()
    for text, among in ((TEXT, together[0]), ("a cat", together[2])):
        [alone] = detect_by_mlm(loaded, [text])
        assert [word.p_replaced for word in alone.words] == pytest.approx(
            [word.p_replaced for word in among.words], abs=1e-5
        )
