"""Detection by a masked language model."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from copies import make_included

import electra
from electra.artifacts.included import MODELS
from electra.artifacts.model_files import CONFIG, DETECTION, SHARED, TOKENIZER, WEIGHTS
from electra.artifacts.run_files import PairFolder
from electra.exchange.huggingface import export
from electra.exchange.load import load, load_language_model
from electra.exchange.source import locate
from electra.foundation.errors import AbsentNetwork, ModelError
from electra.inference.detection import MASKED_APART, detect
from electra.inference.spellings import LONGEST_WORD, Spellings
from electra.model import passes

TEXT = "The farmer fed the cows and the elephants before breakfast."


def test_each_word_is_judged_by_what_the_network_says_of_its_hidden_pieces() -> None:
    loaded = electra.load("tiny-en").language_model
    [actual] = detect(loaded, [TEXT])
    specials = loaded.tokenizer.specials
    encoding = loaded.tokenizer.encode(TEXT)
    kept = [i for i, special in enumerate(encoding.special) if not special]
    pieces = [[i for i in kept if encoding.words[i] == encoding.words[kept[0]] + n] for n in range(11)]
    for number, word in enumerate(actual.words):
        ids = torch.tensor([encoding.ids])
        for hidden in pieces[number % MASKED_APART :: MASKED_APART]:
            ids[0, hidden] = specials.mask
        with torch.no_grad():
            log_p = loaded.logits(ids)[0].double().log_softmax(-1)
        surprise = max(-log_p[i, encoding.ids[i]].item() for i in pieces[number])
        expected = 1 / (1 + loaded.tokenizer.vocab_size * math.exp(-surprise))
        assert word.p_replaced == pytest.approx(expected, abs=1e-4), word.text


def test_detect_prefers_what_the_models_record_names(tmp_path: Path) -> None:
    model = electra.load("tiny-en")
    by_name = model.detect(TEXT, scorer="both")
    assert model.detect(TEXT) == by_name != model.detect(TEXT, scorer="discriminator")
    shutil.copytree(MODELS / "tiny-en", tmp_path / "pair")
    (tmp_path / "pair" / "discriminator" / DETECTION).unlink()
    old = electra.load(tmp_path / "pair")
    assert old.detect(TEXT) == old.detect(TEXT, scorer="language-model")
    alone = electra.load(electra.export(model, out=tmp_path / "alone"))
    assert alone.detect(TEXT) == alone.detect(TEXT, scorer="discriminator")
    with pytest.raises(AbsentNetwork):
        alone.detect(TEXT, scorer="language-model")


@pytest.mark.parametrize("word", ["bridge", "Hridge", "to", "tlie", "1ittle", "qqqqq", "straightforwardness"])
def test_near_spellings_share_all_but_two_letters(word: str) -> None:
    tokenizer = electra.load("tiny-en").encoder.tokenizer
    tokens = {tokenizer.readable(i) for i in range(tokenizer.vocab_size)}
    expected = {}
    for other in (token for token in tokens if token.isalpha() and 2 <= len(token) <= LONGEST_WORD):
        common = shared_letters(word.lower(), other)
        dropped = [(len(each) - common, 2 if len(each) >= 4 else 1) for each in (word, other)]
        if other != word.lower() and all(n <= most for n, most in dropped):
            expected[other] = max(n for n, _ in dropped)
    assert Spellings(tokenizer).near(word) == expected


def shared_letters(a: str, b: str) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        last, row = row, [0]
        for j, y in enumerate(b, 1):
            row.append(last[j - 1] + 1 if x == y else max(last[j], row[-1]))
    return row[-1]


def written_pair(out: Path) -> PairFolder:
    for path, loaded in make_included.load_networks(locate("tiny-en"), out).items():
        export(loaded, path, "tiny-en", dtype="float16")
    return PairFolder(out)


@pytest.mark.slow
def test_two_networks_can_share_the_weights_of_their_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = written_pair(tmp_path / "pair")
    whole = load_language_model(pair.path)
    folder = pair.language_model.path
    make_included.share_encoder(folder, "discriminator")
    thin = load_language_model(pair.path)
    assert whole is not None and thin is not None
    assert (folder / WEIGHTS).stat().st_size < 0.1 * (pair.network("discriminator").path / WEIGHTS).stat().st_size
    assert not [finding for finding in electra.verify(folder) if finding.problem]
    assert not list(folder.glob("tokenizer*")) and thin.tokenizer.digest == whole.tokenizer.digest
    for one, other in zip(whole.encoder.parameters(), thin.encoder.parameters(), strict=True):
        assert torch.equal(one, other)
    [ours] = electra.load(pair.path).detect(TEXT, scorer="language-model")
    assert ours.tokens == next(iter(detect(whole, [TEXT]))).tokens
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
    together = list(detect(loaded, [TEXT, "", "a cat"]))
    monkeypatch.undo()
    for text, among in ((TEXT, together[0]), ("a cat", together[2])):
        [alone] = detect(loaded, [text])
        assert [word.p_replaced for word in alone.words] == pytest.approx(
            [word.p_replaced for word in among.words], abs=1e-5
        )
