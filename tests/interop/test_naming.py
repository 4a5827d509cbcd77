"""Detection by a masked language model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import electra
from electra.cli.main import main
from electra.errors import ConfigError, ElectraError
from electra.interop.naming import detect_by_naming

TEXT = "The farmer fed the cows and the elephants before breakfast."


def test_each_word_is_judged_by_what_the_network_says_of_its_hidden_pieces() -> None:
    loaded = electra.load("tiny-en").language_model
    [found] = detect_by_naming(loaded, [TEXT])
    specials = loaded.tokenizer.specials
    encoding = loaded.tokenizer.encode(TEXT)
    kept = [i for i, special in enumerate(encoding.special) if not special]
    for number, word in enumerate(found.words):
        at = [i for i in kept if encoding.words[i] == encoding.words[kept[0]] + number]
        ids = torch.tensor([encoding.ids])
        ids[0, at] = specials.mask
        with torch.no_grad():
            log_p = loaded.logits(ids)[0].double().log_softmax(-1)
        surprise = -np.mean([log_p[i, encoding.ids[i]].item() for i in at])
        expected = 1 / (1 + loaded.tokenizer.vocab_size * math.exp(-surprise))
        assert word.p_replaced == pytest.approx(expected, abs=1e-4), word.text


def test_long_texts_are_read_in_windows_and_empty_ones_are_nothing() -> None:
    loaded = electra.load("tiny-en").language_model
    empty, long = detect_by_naming(loaded, ["", "the king died . " * 40])
    assert empty.words == () and len(long.words) == 160
    assert all(0 < word.p_replaced < 1 for word in long.words)


def test_what_cannot_judge_is_refused() -> None:
    model = electra.load("tiny-en")
    with pytest.raises(ElectraError, match="a masked language model is needed"):
        list(detect_by_naming(model.network("discriminator"), [TEXT]))
    with pytest.raises(ConfigError, match="probability"):
        model.detect(TEXT, 2.0, by="language-model")


def test_the_summary_tells_the_threshold_that_was_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "tiny-en", "--by", "language-model", "The capital of France is seven."]) == 0
    text, _, summary = capsys.readouterr().out.splitlines()
    assert "[seven 0." in text and summary == "1 of 7 words marked: P(replaced) >= 0.5"
