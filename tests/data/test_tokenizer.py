"""Vocabularies are reproducible, and ids, offsets and files agree with other libraries."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from electra.data import wordpiece
from electra.data.corpus import Documents
from electra.data.cut_vocabulary import counts_in, cut
from electra.data.settings import CorpusConfig, TokenizerConfig
from electra.data.tokenizer import Tokenizer
from electra.foundation.errors import ConfigError, TokenizerError

WORDS = [
    "the",
    "chef",
    "cooked",
    "a",
    "meal",
    "caf\u00e9s",
    "und",
    "\u00dcbergr\u00f6\u00dfen",
    "\uc694\ub9ac\uc0ac\uac00",
    "\u6f22\u5b57",
    "Cooks",
    "don't",
]
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
        output = (
            "".join(chooser.choices(SYLLABLES, k=chooser.randint(1, 4)))
            if chooser.random() < 0.3
            else chooser.choice(WORDS)
        )
        return output + chooser.choice(["", "s", "ed", ",", "."])

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
print(Tokenizer.train(corpus(), TokenizerConfig(vocab_size=420)).digest)
"""


@pytest.mark.slow
def test_training_gives_the_same_vocabulary_in_every_process() -> None:
    digests = set()
    for seed in ("0", "1", "random"):
        environment = os.environ | {
            "PYTHONHASHSEED": seed,
            "TOKENIZERS_PARALLELISM": "true" if seed == "1" else "false",
        }
        command = [sys.executable, "-c", TRAINING, str(Path(__file__).parent)]
        digests.add(
            subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        )
    digests.add(Tokenizer.train(reversed_twice(corpus()), TokenizerConfig(vocab_size=420)).digest + "\n")
    assert len(digests) == 1


def reversed_twice(texts: list[str]) -> list[str]:
    """The same texts in another order: the order must not matter either."""
    return texts[::-1]


def test_the_trained_vocabulary_starts_with_the_special_tokens(cased: Tokenizer, uncased: Tokenizer) -> None:
    assert [uncased.id_to_token(i) for i in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tuple(uncased.specials) == (0, 1, 2, 3, 4) and uncased.vocab_size == cased.vocab_size == 400
    assert uncased.token_to_id("chef") is not None and cased.token_to_id("Cooks") is not None
    assert uncased.token_to_id("cafe") is not None or uncased.token_to_id("cafes") is not None, (
        "accents go with capitals"
    )
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


@settings(max_examples=400, deadline=None)
@given(texts=st.lists(HOSTILE, min_size=1, max_size=6))
@pytest.mark.slow
def test_fast_encoding_gives_the_ids_of_the_library(
    texts: list[str], cased: Tokenizer, uncased: Tokenizer
) -> None:
    for tokenizer in (cased, uncased):
        plain = tokenizer._raw.encode_batch(texts, add_special_tokens=False)
        assert [ids.tolist() for ids in tokenizer.encode_corpus(texts)] == [
            encoding.ids for encoding in plain
        ]


def test_words_of_every_length_are_distinguished(cased: Tokenizer) -> None:
    """Words that differ in one byte, at every place of keys of 8, 16 and more bytes, and words that begin
    alike.
    """
    words = ["meka" * 10]
    for size in range(1, 40):
        stem = ("kameLotri" * 5)[:size]
        words += [
            stem,
            *(stem[:place] + other + stem[place + 1 :] for place in range(size) for other in ("n", "\u00fc")),
        ]
    for batch in (words, words[::-1]):
        plain = [encoding.ids for encoding in cased._raw.encode_batch(batch, add_special_tokens=False)]
        assert [ids.tolist() for ids in cased.encode_corpus(batch)] == plain
    assert (
        cased.encode_corpus([" ".join(words)])[0].tolist()
        == cased._raw.encode(" ".join(words), add_special_tokens=False).ids
    )


def test_fast_encoding_is_the_same_after_cache_eviction(
    uncased: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = corpus(60) + ["x" * 500, "word " * 300, ""]
    expected = [encoding.ids for encoding in uncased._raw.encode_batch(texts, add_special_tokens=False)]
    monkeypatch.setattr("electra.data.encoding._MAX_CACHED", 40)
    for _ in range(2):
        assert [ids.tolist() for text in texts for ids in uncased.encode_corpus([text])] == expected
        assert [ids.tolist() for ids in uncased.encode_corpus(texts)] == expected


def test_other_pipelines_are_encoded_by_the_library(cased: Tokenizer) -> None:
    tokenizer = byte_level()
    expected = [encoding.ids for encoding in tokenizer._raw.encode_batch(SENTENCES, add_special_tokens=False)]
    assert [ids.tolist() for ids in tokenizer.encode_corpus(SENTENCES)] == expected
    assert tuple(tokenizer.specials) == (1, 3, 0, 2, 4)
    content = json.loads(
        cased.definition
    )  # an added word with a space in it: no chunk of text stands alone any more
    content["added_tokens"].append(
        content["added_tokens"][0] | {"id": 400, "content": "the chef", "special": False, "normalized": True}
    )
    added = Tokenizer(json.dumps(content), {})
    assert (
        added.encode_corpus(["so the chef cooked"])[0].tolist()
        == added._raw.encode("so the chef cooked", add_special_tokens=False).ids
    )
    assert 400 in added.encode_corpus(["so the chef cooked"])[0]


def test_ids_above_16_bits_are_encoded() -> None:
    vocabulary = {
        token: i
        for i, token in enumerate(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(70_000))]
        )
    }
    raw = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer, raw.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    (ids,) = Tokenizer(raw.to_str(), {}).encode_corpus(["w69999 w3"])
    assert ids.tolist() == [70_004, 8] and ids.dtype == np.uint32


@settings(max_examples=200, deadline=None)
@given(text=HOSTILE)
def test_offsets_point_into_the_original_text(text: str, cased: Tokenizer) -> None:
    encoding = cased.encode(text)
    assert encoding.special[0] and encoding.special[-1] and encoding.ids[0] == 2 and encoding.ids[-1] == 3
    end = 0
    for token_id, (start, stop), word, special in zip(
        encoding.ids, encoding.offsets, encoding.words, encoding.special, strict=True
    ):
        assert (word is None) == special
        if not special:
            assert end <= start <= stop <= len(text)
            end = stop
            piece = cased.id_to_token(token_id).removeprefix("##")
            if token_id != cased.specials.unk:
                assert piece in text[start:stop] or not text[start:stop].isprintable(), (
                    "cased: a piece stands in the text as it is"
                )


def test_offsets_match_known_cases(uncased: Tokenizer) -> None:
    text = "Caf\u00e9s \U0001f468\u200d\U0001f373 CHEF \u6f22\u5b57"
    encoding = uncased.encode(text)
    pieces = [
        text[a:b] for (a, b), special in zip(encoding.offsets, encoding.special, strict=True) if not special
    ]
    assert (
        "".join(pieces[:1]).startswith("C")
        and "CHEF" in "".join(pieces)
        and pieces[-2:] == ["\u6f22", "\u5b57"]
    )
    words = [word for word in encoding.words if word is not None]
    assert words == sorted(words) and len(set(words)) >= 4
    lone = uncased.encode("half \ud83d pair")
    assert max(stop for _, stop in lone.offsets) == len("half \ud83d pair"), (
        "a lone surrogate is one character, not an error"
    )


def test_pairs_are_truncated_as_transformers_does(uncased: Tokenizer) -> None:
    pair = uncased.encode("the chef", "a meal")
    assert pair.ids[0] == 2 and pair.ids.count(3) == 2 and sorted(set(pair.segments)) == [0, 1]
    assert [i for i, special in enumerate(pair.special) if special] == [
        0,
        pair.segments.index(1) - 1,
        len(pair.ids) - 1,
    ]
    long, short = " ".join(["the"] * 50), "a a a"
    for limit in (6, 9, 20):
        cut = uncased.encode(long, short, limit)
        assert len(cut.ids) == limit and cut.segments.count(1) - 1 == min(
            len(uncased.encode(short).ids) - 2, (limit - 3) // 2
        )
        assert len(uncased.encode(long, max_length=limit).ids) == limit
    assert uncased.encode("the", max_length=128).ids == uncased.encode("the").ids
    with pytest.raises(TokenizerError):
        uncased.encode("the", "chef", 4)


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

    ours = {"cased": cased, "uncased": uncased, "byte level": byte_level()}.get(kind) or Tokenizer.train(
        corpus(),
        TokenizerConfig(kind=kind, vocab_size=400),  # type: ignore[arg-type]
    )
    ours.save(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "electra"})
    )  # the trap: classes it knows are rebuilt from flags
    reference = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*SENTENCES, *corpus(20)]:
        if "[CLS]" not in text:
            assert reference(text)["input_ids"] == ours.encode(text).ids
            assert (
                reference(text, add_special_tokens=False)["input_ids"]
                == ours.encode_corpus([text])[0].tolist()
            )
    for first, second in itertools.product(["a", "the chef", SENTENCES[0]], repeat=2):
        for limit in (6, 7, 9, 12, 100):
            cut = reference(first, second, truncation="longest_first", max_length=limit)["input_ids"]
            assert cut == ours.encode(first, second, limit).ids, (first, second, limit)
    pair = reference("the chef", "a meal")
    assert pair["input_ids"] == ours.encode("the chef", "a meal").ids
    assert pair["token_type_ids"] == ours.encode("the chef", "a meal").segments
    assert [
        reference.pad_token_id,
        reference.unk_token_id,
        reference.cls_token_id,
        reference.sep_token_id,
        reference.mask_token_id,
    ] == list(ours.specials)
    again = Tokenizer.load(tmp_path)
    assert again.digest == ours.digest and again.specials == ours.specials


@pytest.mark.parametrize("kind", ["cased", "uncased"])
def test_vocab_txt_alone_gives_the_same_ids(
    kind: str, tmp_path: Path, cased: Tokenizer, uncased: Tokenizer
) -> None:
    from transformers import BertTokenizer

    ours = {"cased": cased, "uncased": uncased}[kind]
    ours.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    reference = BertTokenizer.from_pretrained(tmp_path)
    for text in [*SENTENCES[:4], SENTENCES[5]]:
        for name in (tmp_path, tmp_path / "vocab.txt"):
            assert (
                Tokenizer.load(name).encode(text).ids == ours.encode(text).ids == reference(text)["input_ids"]
            )
    (tmp_path / "tokenizer_config.json").unlink()
    assert (
        Tokenizer.load(tmp_path / "vocab.txt").encode("The CHEF").ids
        == Tokenizer.load(tmp_path / "vocab.txt").encode("the chef").ids
    )


def test_tokenizer_json_alone_ignores_saved_padding_and_truncation(
    tmp_path: Path, uncased: Tokenizer
) -> None:
    raw = tokenizers.Tokenizer.from_str(uncased.definition)
    raw.enable_truncation(8)
    raw.enable_padding(length=20)
    raw.save(str(tmp_path / "mine.json"))
    loaded = Tokenizer.load(tmp_path / "mine.json")
    assert (
        loaded.encode(" ".join(WORDS)).ids == uncased.encode(" ".join(WORDS)).ids
        and loaded.digest == uncased.digest
    )


def test_special_tokens_are_found_by_name_and_missing_ones_are_named(
    tmp_path: Path, uncased: Tokenizer
) -> None:
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
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "model.json").write_text('{"model": {"type": "model.json"}}')
    (tmp_path / "short.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    (tmp_path / "empty").mkdir()
    bad = {
        "list.json": r"list\.json",
        "broken.json": r"broken\.json",
        "model.json": "model.json",
        "short.txt": r"\[MASK\]",
        "empty": r"tokenizer\.json.*vocab\.txt",
        "a/b/c": "a/b/c",
    }
    for name, message in bad.items():
        with pytest.raises(TokenizerError, match=message) as caught:
            Tokenizer.load(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


def test_a_cut_vocabulary_keeps_letters_and_frequent_words(uncased: Tokenizer) -> None:
    counts = counts_in(["the chef"] * 9 + ["a meal"] * 5, uncased)
    smaller = cut(uncased, counts, 100)
    assert smaller.vocab_size == 100 and smaller.specials == uncased.specials
    for word in ("the chef", "a meal"):
        assert [smaller.readable(i) for i in smaller.encode(word).ids] == [
            uncased.readable(i) for i in uncased.encode(word).ids
        ]
    assert smaller.specials.unk not in smaller.encode("cooked tri ka").ids, "letters spell the rest"
    with pytest.raises(ConfigError):
        cut(uncased, counts, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("dewiki", 6000), ("kowiki", 12_000)])
def test_german_and_korean_are_tokenized(
    name: str, size: int, shared_data: Callable[[str], Path], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    documents = iter(Documents([shared_data(f"corpora/{name}.jsonl.zst")], CorpusConfig(), tmp_path))
    texts = [next(documents).text for _ in range(1200 if name == "kowiki" else 200)]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(vocab_size=size, lowercase=False))
    fresh = [next(documents).text for _ in range(100)]
    ids = np.concatenate(tokenizer.encode_corpus(fresh))
    assert (ids == tokenizer.specials.unk).mean() < 0.01
    tokenizer.save(tmp_path)
    reference = AutoTokenizer.from_pretrained(tmp_path)
    assert reference(fresh[:20], add_special_tokens=False)["input_ids"] == [
        ids.tolist() for ids in tokenizer.encode_corpus(fresh[:20])
    ]


def test_encoding_one_huge_word_takes_linear_time() -> None:
    """The trainer takes time quadratic in a word: three million letters did not end."""
    text = " ".join(["the cat ate", "the dog ran"] * 50)
    long = "".join(random.Random(0).choices("abcdefgh", k=100_000))
    started = time.process_time()
    output = wordpiece.train([text, long], TokenizerConfig(vocab_size=60))
    assert time.process_time() - started < 2.0
    assert output.encode("the cat").ids != output.encode(long[:7]).ids
