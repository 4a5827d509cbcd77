"""Vocabularies are reproducible, and ids, offsets and files agree with other libraries."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from electra.data.corpus import wordpiece
from electra.data.corpus.tokenizer import Tokenizer
from electra.data.text_settings import TokenizerConfig
from electra.foundation.errors import ConfigError, TokenizerError

WORDS = ["the", "chef", "cooked", "a", "meal", "cafés", "und", "Übergrößen", "요리사가"]
WORDS += ["\u6f22\u5b57", "Cooks", "don't"]
SYLLABLES = ["ka", "me", "Lo", "tri", "\u00fc", "n", "sch", "\uc694", "er", "ing"]
SENTENCES = [
    "The chef cooked the meal, didn't he?",
    "\u00dcbergr\u00f6\u00dfen f\u00fcr den K\u00f6ch: caf\u00e9 CAF\u00c9 cafe\u0301",
    "\uc694\ub9ac\uc0ac\uac00 \uc74c\uc2dd\uc744 \u6f22\u5b57 \uc870\ub9ac",
    "family \U0001f468\u200d\U0001f469\u200d\U0001f467 and \U0001f373\U0001f3fd chef\U0001f373cooked",
    "[CLS] literal [MASK] and [SEP]; ##s",
    "tab\tnew\nline\u00a0space\u3000wide\x0bcontrol\x85next \u0130stanbul \u03a3\u03c2",
]


def corpus(count: int = 400, seed: int = 0) -> list[str]:
    chooser = random.Random(seed)

    def word() -> str:
        is_made = chooser.random() < 0.3
        stem = chooser.choices(SYLLABLES, k=chooser.randint(1, 4)) if is_made else [chooser.choice(WORDS)]
        return "".join(stem) + chooser.choice(["", "s", "ed", ",", "."])

    return [" ".join(word() for _ in range(30)) for _ in range(count)]


@pytest.fixture(scope="module")
def cased() -> Tokenizer:
    return Tokenizer.train(corpus(), TokenizerConfig(vocab_size=400, lowercase=False))


@pytest.fixture(scope="module")
def uncased() -> Tokenizer:
    return Tokenizer.train(corpus(), TokenizerConfig(vocab_size=400))


def byte_level() -> Tokenizer:
    """A tokenizer of another family: byte-level BPE with <s> and </s>, as RoBERTa has it."""
    raw = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    raw.normalizer = normalizers.NFC()
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(corpus(), trainer)
    raw.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return Tokenizer(raw.to_str(), {})


TRAINING = """
import sys
sys.path.insert(0, sys.argv[1])
from test_tokenizer import Tokenizer, TokenizerConfig, corpus
made = [TokenizerConfig(kind=kind, vocab_size=420) for kind in ("wordpiece", "bpe")]
print(*(Tokenizer.train(corpus(), each).digest for each in made))
"""


@pytest.mark.slow
def test_training_gives_the_same_vocabulary_in_every_process() -> None:
    made = [TokenizerConfig(kind=kind, vocab_size=420) for kind in ("wordpiece", "bpe")]
    digests = {" ".join(Tokenizer.train(corpus()[::-1], each).digest for each in made) + "\n"}
    for seed in ("0", "1", "random"):
        parallel = {"TOKENIZERS_PARALLELISM": "true" if seed == "1" else "false"}
        command = [sys.executable, "-c", TRAINING, str(Path(__file__).parent)]
        environment = os.environ | {"PYTHONHASHSEED": seed} | parallel
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        digests.add(done.stdout)
    assert len(digests) == 1


def test_the_trained_vocabulary_starts_with_the_special_tokens(cased: Tokenizer, uncased: Tokenizer) -> None:
    assert [uncased.id_to_token(i) for i in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tuple(uncased.specials) == (0, 1, 2, 3, 4) and uncased.vocab_size == cased.vocab_size == 400
    assert uncased.token_to_id("chef") is not None and cased.token_to_id("Cooks") is not None
    assert {"cafe", "cafes"} & {uncased.id_to_token(i) for i in range(400)}, "accents go with capitals"
    assert "\u00e9" not in "".join(uncased.id_to_token(i) for i in range(400))
    kept = Tokenizer.train(corpus(), TokenizerConfig(vocab_size=400, strip_accents=False))
    assert "\u00e9" in "".join(kept.id_to_token(i) for i in range(400))


def test_a_small_text_makes_a_smaller_vocabulary() -> None:
    reached = Tokenizer.train(corpus(), TokenizerConfig(vocab_size=5000))
    assert 400 < reached.vocab_size < 5000
    same = Tokenizer.train(corpus(), TokenizerConfig(vocab_size=reached.vocab_size))
    assert same.digest == reached.digest


def test_impossible_vocabulary_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 10"):
        Tokenizer.train(corpus(), TokenizerConfig(vocab_size=5))
    with pytest.raises(TokenizerError):
        Tokenizer.train([], TokenizerConfig(vocab_size=100))


HOSTILE = st.text(
    st.one_of(
        st.sampled_from(
            list(
                " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u200b\u200d\u2028\u3000"
                "\u0301\u0338\u0130\u03a3\u1e9e.,'-_[]##\x00\x7f\ufffd\U0001f373"
            )
        ),
        st.sampled_from(list("theCHEFcooked\u00e9\u00dc\u00df\uc694\uac00\u6f22")),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)


def in_library(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer._raw.encode_batch(texts, add_special_tokens=False)]


def in_corpus(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [ids.tolist() for ids in tokenizer.encode_corpus(texts)]


@settings(max_examples=400, deadline=None)
@given(texts=st.lists(HOSTILE, min_size=1, max_size=6))
@pytest.mark.slow
def test_fast_encoding_gives_the_ids_of_the_library(texts: list[str], cased: Tokenizer, uncased: Tokenizer) -> None:
    for tokenizer in (cased, uncased):
        assert in_corpus(tokenizer, texts) == in_library(tokenizer, texts)


def test_fast_encoding_is_the_same_after_cache_eviction(uncased: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = corpus(60) + ["x" * 500, "word " * 300, ""]
    expected = in_library(uncased, texts)
    monkeypatch.setattr("electra.data.corpus.encoding._MAX_CACHED", 40)
    for _ in range(2):
        assert [ids for text in texts for ids in in_corpus(uncased, [text])] == expected
        assert in_corpus(uncased, texts) == expected


def test_other_pipelines_are_encoded_by_the_library(cased: Tokenizer) -> None:
    tokenizer = byte_level()
    assert in_corpus(tokenizer, SENTENCES) == in_library(tokenizer, SENTENCES)
    assert tuple(tokenizer.specials) == (1, 3, 0, 2, 4)
    content = json.loads(cased.definition)
    # An added word with a space in it: no chunk of text stands alone any more.
    changes = {"id": 400, "content": "the chef", "special": False, "normalized": True}
    content["added_tokens"].append(content["added_tokens"][0] | changes)
    added, texts = Tokenizer(json.dumps(content), {}), ["so the chef cooked"]
    assert in_corpus(added, texts) == in_library(added, texts) and 400 in in_corpus(added, texts)[0]


def test_ids_above_16_bits_are_encoded() -> None:
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(70_000))]
    vocabulary = {token: i for i, token in enumerate(entries)}
    raw = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer, raw.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    (ids,) = Tokenizer(raw.to_str(), {}).encode_corpus(["w69999 w3"])
    assert ids.tolist() == [70_004, 8] and ids.dtype == np.uint32


@settings(max_examples=200, deadline=None)
@given(text=HOSTILE)
def test_offsets_point_into_the_original_text(text: str, cased: Tokenizer) -> None:
    encoding = cased.encode(text)
    assert encoding.special[0] and encoding.special[-1] and encoding.ids[0] == 2 and encoding.ids[-1] == 3
    end, rows = 0, zip(encoding.ids, encoding.offsets, encoding.words, encoding.special, strict=True)
    for token_id, (start, stop), word, special in rows:
        assert (word is None) == special
        if special:
            continue
        assert end <= start <= stop <= len(text)
        end, piece = stop, cased.id_to_token(token_id).removeprefix("##")
        # Cased: a piece stands in the text as it is.
        is_shown = text[start:stop].isprintable() and token_id != cased.specials.unk
        assert piece in text[start:stop] or not is_shown


def test_a_pair_lies_between_special_tokens(uncased: Tokenizer) -> None:
    pair = uncased.encode("the chef", "a meal")
    assert pair.ids[0] == 2 and pair.ids.count(3) == 2 and sorted(set(pair.segments)) == [0, 1]
    specials = [i for i, special in enumerate(pair.special) if special]
    assert specials == [0, pair.segments.index(1) - 1, len(pair.ids) - 1]


def test_special_tokens_in_a_text_are_plain_text(uncased: Tokenizer) -> None:
    ids = uncased.encode("[MASK] [SEP]").ids[1:-1]
    assert not set(ids) & {0, 2, 3, 4}
    assert uncased.decode(uncased.encode("the chef cooked a").ids) == "the chef cooked a"
    assert uncased.decode([2, 4, 3], skip_specials=False) == "[CLS] [MASK] [SEP]"
    with pytest.raises(TokenizerError, match="999"):
        uncased.id_to_token(999)


@pytest.mark.parametrize("kind", ["cased", "uncased", "byte level", "bpe"])
def test_transformers_gives_the_same_ids_for_a_saved_folder(
    kind: str, tmp_path: Path, cased: Tokenizer, uncased: Tokenizer
) -> None:
    from transformers import AutoTokenizer

    settings = TokenizerConfig(kind="bpe", vocab_size=400)
    made = {"cased": cased, "uncased": uncased, "byte level": byte_level()}
    ours = made.get(kind) or Tokenizer.train(corpus(), settings)
    ours.save(tmp_path)
    # The trap: classes that it knows are rebuilt from flags.
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "electra"}))
    reference = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*SENTENCES, *corpus(20)]:
        if "[CLS]" not in text:
            assert reference(text)["input_ids"] == ours.encode(text).ids
            assert [reference(text, add_special_tokens=False)["input_ids"]] == in_corpus(ours, [text])
    pair = reference("the chef", "a meal")
    assert pair["input_ids"] == ours.encode("the chef", "a meal").ids
    assert pair["token_type_ids"] == ours.encode("the chef", "a meal").segments
    names = ("pad", "unk", "cls", "sep", "mask")
    assert [getattr(reference, f"{name}_token_id") for name in names] == list(ours.specials)
    again = Tokenizer.load(tmp_path)
    assert again.digest == ours.digest and again.specials == ours.specials
    raw = tokenizers.Tokenizer.from_str(ours.definition)
    raw.enable_truncation(8)
    raw.enable_padding(length=20)
    raw.save(str(tmp_path / "mine.json"))
    assert Tokenizer.load(tmp_path / "mine.json").digest == ours.digest, "their limits are not its own"


def test_special_tokens_are_found_by_name_and_missing_ones_named(tmp_path: Path, uncased: Tokenizer) -> None:
    content = json.loads(uncased.definition)

    def write(rename: dict[str, str], names: dict[str, Any]) -> Path:
        text = json.dumps(content)
        for old, new in rename.items():
            text = text.replace(old, new)
        (tmp_path / "tokenizer.json").write_text(text)
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
        return tmp_path

    named = write(
        {"[MASK]": "<hide>", "[CLS]": "<begin>"},
        {"mask_token": {"content": "<hide>", "lstrip": True}, "bos_token": "<begin>"},
    )
    assert Tokenizer.load(named).specials == uncased.specials
    with pytest.raises(TokenizerError, match="mask_token"):
        Tokenizer.load(write({"[MASK]": "<hide>"}, {}))
    named = Tokenizer.load(write({}, {"eos_token": "</s>"}))  # a token to add, and the end of a text stays
    assert named.specials == uncased.specials and named.token_to_id("</s>") == uncased.vocab_size
    with pytest.raises(TokenizerError):
        Tokenizer.load(write({}, {"mask_token": "[PAD]"}))


def test_unusable_tokenizer_files_are_refused(tmp_path: Path) -> None:
    bad = {
        "list.json": "[]",
        "broken.json": "{",
        "model.json": '{"model": {"type": "model.json"}}',
        "short.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n",
    }
    for name, content in bad.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "empty").mkdir()
    for name in [*bad, "empty", "a/b/c"]:
        with pytest.raises(TokenizerError) as caught:
            Tokenizer.load(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


def test_encoding_one_huge_word_takes_linear_time() -> None:
    """The trainer takes time quadratic in a word: three million letters did not end."""
    text = " ".join(["the cat ate", "the dog ran"] * 50)
    long = "".join(random.Random(0).choices("abcdefgh", k=100_000))
    started = time.process_time()
    output = wordpiece.train([text, long], TokenizerConfig(vocab_size=60))
    assert time.process_time() - started < 2.0
    assert output.encode("the cat").ids != output.encode(long[:7]).ids
