"""Published tokenizer folders give the ids of transformers, or an error that names the unsupported part."""

import json
import string
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, processors, trainers

from electra.data.corpus.tokenizer import Tokenizer
from electra.foundation.errors import TokenizerError

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"[]/.'", *string.ascii_lowercase, *"0123456789", "\u5b66"]
ENTRIES = [*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "film", "was", "##s"]
WORDS = list(dict.fromkeys(ENTRIES))
VOCABULARY = "\n".join(WORDS) + "\n"
TEXTS = [
    "the [E1] film [/E1] was covid19",
    "COVID19 Covid19x a[E1]b [NEW].",
    "caf\u00e9 Caf\u00c9 \u5b66\u5b66 x",
    "  <ent>  the <ent>film ",
]


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), newline="")
    return folder


def token(content: str, **flags: bool) -> dict[str, Any]:
    usual = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    return {"content": content, **usual, **flags}


def assert_ids_of_transformers(folder: Path, texts: list[str] = TEXTS) -> Tokenizer:
    from transformers import AutoTokenizer

    reference, ours = AutoTokenizer.from_pretrained(folder), Tokenizer.load(folder)
    for text in texts:
        assert ours.encode(text).ids == reference(text)["input_ids"], text
        plain = reference(text, add_special_tokens=False)["input_ids"]
        assert ours.encode_corpus([text])[0].tolist() == plain, text
    assert ours.vocab_size == max(reference.get_vocab().values()) + 1
    return ours


BERT = {"vocab.txt": VOCABULARY, "config.json": {"model_type": "bert"}}
SIZE = len(WORDS)
ADDED: dict[str, dict[str, Any]] = {
    "added_tokens.json": {"added_tokens.json": {"covid19": SIZE + 1, "[E1]": SIZE}},
    "special_tokens_map.json": {
        "special_tokens_map.json": {
            "additional_special_tokens": ["[E1]", "[/E1]"],
            "mask_token": token("[MASK]", lstrip=True),
        }
    },
    "both": {
        "special_tokens_map.json": {"additional_special_tokens": ["[E1]", "[NEW]"]},
        "added_tokens.json": {"[E1]": SIZE + 1, "covid19": SIZE},
    },
    "additional": {"tokenizer_config.json": {"additional_special_tokens": ["[E1]", "[/E1]"]}},
    "named": {"tokenizer_config.json": {"extra_special_tokens": {"ent": "<ent>"}, "new_token": "[NEW]"}},
    "ends": {"tokenizer_config.json": {"bos_token": "[E1]", "eos_token": "<ent>"}},
    "flags": {
        "tokenizer_config.json": {
            "added_tokens_decoder": {
                str(SIZE): token("[E1]", lstrip=True, rstrip=True),
                str(SIZE + 1): token("covid19", normalized=True, special=False, single_word=True),
                str(SIZE + 2): token("<ent>", rstrip=True, special=False),
            }
        },
        "special_tokens_map.json": {"additional_special_tokens": ["[NEW]"]},
    },
}


@pytest.mark.parametrize("files", ADDED.values(), ids=list(ADDED))
def test_added_tokens_are_read_and_survive_export(files: dict[str, Any], tmp_path: Path) -> None:
    ours = assert_ids_of_transformers(write(tmp_path, BERT | files))
    assert ours.vocab_size > SIZE
    (tmp_path / "out").mkdir()
    ours.save(tmp_path / "out")
    assert assert_ids_of_transformers(tmp_path / "out").digest == ours.digest


@pytest.mark.parametrize(
    "settings",
    [
        {"do_lower_case": False},
        {"strip_accents": False},
        {"strip_accents": True, "do_lower_case": False},
        {"tokenize_chinese_chars": False},
        {"tokenizer_class": "ElectraTokenizerFast", "model_max_length": 1e30},
        {"tokenizer_class": "DistilBertTokenizer", "model_max_length": -5},
    ],
)
@pytest.mark.parametrize("fast", [False, True])
def test_bert_tokenizer_options_are_read(settings: dict[str, Any], fast: bool, tmp_path: Path) -> None:
    """Also where tokenizer.json says something else: transformers follows tokenizer_config.json."""
    from transformers import BertTokenizer

    write(tmp_path, BERT)
    if fast:
        BertTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    settings = {"tokenizer_class": "BertTokenizer"} | settings
    assert_ids_of_transformers(write(tmp_path, {"tokenizer_config.json": settings}))


@pytest.mark.parametrize("name", ["PreTrainedTokenizerFast", "TokenizersBackend", "BertTokenizer"])
def test_a_tokenizer_json_is_followed(name: str, tmp_path: Path) -> None:
    """As the library reads it; transformers does so too, except for classes that it builds anew."""
    made = tokenizers.Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    sep, cls = ((name, WORDS.index(name)) for name in ("[SEP]", "[CLS]"))
    made.post_processor = processors.BertProcessing(sep, cls)
    made.save(str(tmp_path / "tokenizer.json"))
    write(tmp_path, {"tokenizer_config.json": {"tokenizer_class": name}})
    ours = Tokenizer.load(tmp_path)
    assert [ours.encode(text).ids for text in TEXTS] == [made.encode(text).ids for text in TEXTS]
    if name != "BertTokenizer":
        assert_ids_of_transformers(tmp_path, ["the film was", "The FILM"])


@pytest.mark.parametrize(
    "text",
    [
        VOCABULARY.replace("\n", "\r\n"),
        VOCABULARY.replace("film\n", "film \t\n").replace("was\n", "was\u3000\n"),
        VOCABULARY.replace("##a\n", "##a\nfilm\n"),
        VOCABULARY + "\n\n",
        VOCABULARY.replace("film\n", "film\n\n\n"),
        VOCABULARY.rstrip("\n"),
        VOCABULARY.replace("film\n", "film\nw\u2028x\ny\x85z\n"),
    ],
    ids=["crlf", "spaces", "twice", "blank at the end", "blank", "no last line end", "other line ends"],
)
def test_vocabulary_lines_are_read_as_transformers_does(text: str, tmp_path: Path) -> None:
    ours = assert_ids_of_transformers(write(tmp_path, BERT | {"vocab.txt": text}))
    assert Tokenizer.load(tmp_path / "vocab.txt").digest == ours.digest
    for number in range(ours.vocab_size):  # gaps, too, can be shown
        assert isinstance(ours.id_to_token(number), str) and isinstance(ours.readable(number), str)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"tokenizer_config.json": {"tokenizer_class": "KoBertTokenizer"}}, "KoBertTokenizer"),
        ({"config.json": {"tokenizer_class": "BertJapaneseTokenizer"}}, "BertJapaneseTokenizer"),
        ({"config.json": {"model_type": "roformer"}}, "roformer"),
        ({"config.json": {"model_type": "albert"}}, "albert"),
        ({"tokenizer_config.json": {"word_tokenizer_type": "mecab"}}, "word_tokenizer_type"),
        ({"tokenizer_config.json": {"subword_tokenizer_type": "character"}}, "subword_tokenizer_type"),
        ({"tokenizer_config.json": {"do_basic_tokenize": False}}, "do_basic_tokenize"),
        ({"tokenizer_config.json": {"never_split": ["covid19"]}}, "never_split"),
        ({"tokenizer_config.json": {"do_lower_case": "false"}}, "do_lower_case"),
        ({"tokenizer_config.json": {"tokenizer_class": 7}}, "tokenizer_class"),
        ({"tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["code.My", None]}}}, "auto_map"),
        ({"tokenizer_config.json": {"added_tokens_decoder": {"x": 3}}}, "tokenizer_config.json"),
        ({"tokenizer_config.json": {"additional_special_tokens": [7]}}, "tokenizer_config.json"),
        ({"added_tokens.json": ["[E1]"]}, "bert"),
        ({"tokenizer_config.json": "[1]"}, "tokenizer_config.json"),
        ({"tokenizer_config.json": '{"do_lower'}, "tokenizer_config.json:1"),
        ({"vocab.txt": VOCABULARY.replace("[MASK]", "[M]")}, "[MASK]"),
        ({"vocab.txt": "\ufeff" + VOCABULARY}, "vocab.txt:1"),
    ],
)
def test_unsupported_tokenizers_are_named(files: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(write(tmp_path, BERT | files))
    assert named in str(caught.value) and "\n" not in str(caught.value)


def test_a_sentencepiece_model_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(b"\x0a\x0e\x0a\x05<unk>\x15\x00\xff")
    for name in (tmp_path, tmp_path / "spiece.model"):
        with pytest.raises(TokenizerError, match=r"spiece\.model"):
            Tokenizer.load(name)


@pytest.mark.parametrize("prefix", [False, True])
def test_roberta_merges_are_read(prefix: bool, tmp_path: Path) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = ["<s>", "<pad>", "</s>", "<unk>", *letters, "\u0120t", "\u0120th", "\u0120the", "<mask>"]
    merges = ["\u0120 t", "\u0120t h", "\u0120th e"]
    settings = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": prefix}
    files = {
        "vocab.json": {entry: number for number, entry in enumerate(entries)},
        "merges.txt": "\n".join(["#version: 0.2", *merges]) + "\n",
        "tokenizer_config.json": settings | {"additional_special_tokens": ["[E1]"]},
        "config.json": {"model_type": "roberta"},
    }
    ours = assert_ids_of_transformers(write(tmp_path, files))
    assert tuple(ours.specials) == (1, 3, 0, 2, len(entries) - 1)


def definition(added: list[dict[str, Any]] | None = None, **parts: Any) -> dict[str, Any]:
    model = models.WordPiece({name: n for n, name in enumerate(WORDS)}, unk_token="[UNK]")
    content: dict[str, Any] = json.loads(tokenizers.Tokenizer(model).to_str())
    return content | {"added_tokens": added or []} | parts


def test_ids_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    processor = {"type": "BertProcessing", "sep": ["[SEP]", 999_999], "cls": ["[CLS]", 2]}
    far = definition()
    far["model"]["vocab"]["far"] = 4_000_000_000
    for content, said in ((definition(post_processor=processor), "999999"), (far, "4000000000")):
        with pytest.raises(TokenizerError, match=said):
            Tokenizer.load(write(tmp_path, {"tokenizer.json": content}))


def test_a_definition_by_an_older_library_is_read(tmp_path: Path) -> None:
    """The model's type and empty parts were left out once."""
    content = definition()
    del content["model"]["type"], content["decoder"], content["normalizer"]
    raw = tokenizers.Tokenizer.from_str(json.dumps(content))
    ours = Tokenizer.load(write(tmp_path, {"tokenizer.json": content}))
    assert ours.encode("film").ids == raw.encode("film").ids
    assert ours.encode_corpus(["film"])[0].tolist() == raw.encode("film", add_special_tokens=False).ids
    assert ours.continues.any() and ours.files()


def test_a_role_can_be_added(tmp_path: Path) -> None:
    """A vocabulary without [MASK] serves once tokenizer_config.json names one; the id is transformers'."""
    text = VOCABULARY.replace("[MASK]", "[M]")
    files = BERT | {"vocab.txt": text, "tokenizer_config.json": {"mask_token": "[MASK]"}}
    assert assert_ids_of_transformers(write(tmp_path, files)).specials.mask == SIZE


def test_an_unknown_token_missing_from_the_model_is_an_error(tmp_path: Path) -> None:
    """Found only by a text with an unknown character, in the library."""
    content = definition()
    content["model"]["unk_token"] = "[NONE]"
    ours = Tokenizer.load(write(tmp_path, {"tokenizer.json": content}))
    for encode in (ours.encode, lambda text: ours.encode_corpus([text])):
        with pytest.raises(TokenizerError, match=r"tokenizer|Missing"):
            encode("\u2603")


HARD = [
    *("", " ", "The chef ate.", "  two  spaces ", "tabs\tand\nlines\r\n", "don't can't U.S.A. 3.14 1,000"),
    "caf\u00e9 Cafe\u0301 CAF\u00c9 e\u0301\u0301\u0301",
    *("Stra\u00dfe \u1e9e \u0130\u0131 \ufb01 \u2460\u00b2", "\u5b66\u751f\u306f\u6771\u4eac\u306b"),
    "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8",
    "\u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f600\U0001f44d\U0001f3fd \U0001f469\u200d\U0001f469",
    *("a\u00a0b\u200bc\u200dd\ufeffe", "x\u0000y \u202eabc\u202c \ufffd"),
    *("[MASK] <mask> </s> [CLS]", "\u2581under \u0120space ##cont", "\u3000\u5168\u89d2\u3000", "a" * 300),
]
# The classes of twelve architectures: of those not named, it is one of these
CLASSES = ["Bert", "Roberta", "XLMRoberta", "Camembert", "DebertaV2", "Albert", "MPNet"]
BYTE_LEVEL = {"ModernBERT": ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]")}
BYTE_LEVEL["EuroBERT"] = ("<|begin|>", "<|end|>", "<|pad|>", "<|unk|>", "<|mask|>")
ROLES = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")


def published_tokenizer(name: str, folder: Path) -> Any:
    """A tokenizer of that class or architecture, trained on the hard texts, as transformers saves it."""
    import transformers

    texts = [*HARD, *TEXTS] * 3
    if name in CLASSES:
        made = getattr(transformers, f"{name}Tokenizer")().train_new_from_iterator(texts, 300)
    else:
        raw, tokens = tokenizers.Tokenizer(models.BPE()), BYTE_LEVEL[name]
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[*tokens], initial_alphabet=alphabet)
        raw.train_from_iterator(texts, trainer)
        ends = [(token, raw.token_to_id(token)) for token in tokens[:2]]
        form = f"{tokens[0]} $A {tokens[1]}"
        raw.post_processor = processors.TemplateProcessing(form, f"{form} $B:1 {tokens[1]}:1", ends)
        roles = dict(zip(ROLES, tokens, strict=True))
        made = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **roles)
    made.save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", [*CLASSES, *BYTE_LEVEL])
def test_ids_and_offsets_of_twelve_architectures(name: str, tmp_path: Path) -> None:
    """On hard texts, alone and in pairs; our offsets leave out the white space that some classes include."""
    reference = published_tokenizer(name, tmp_path)
    ours = Tokenizer.load(tmp_path)
    for text in HARD:
        for pair in (None, "the  film"):
            given = reference(text, pair, return_offsets_mapping=True, split_special_tokens=True)
            encoded = ours.encode(text, pair)
            assert encoded.ids == given["input_ids"], text
            spans = zip(given["offset_mapping"], encoded.offsets, given.sequence_ids(), strict=True)
            for (start, end), span, sequence in spans:
                part = {0: text, 1: pair or "", None: ""}[sequence][start:end]
                left, right = len(part) - len(part.lstrip()), len(part) - len(part.rstrip())
                assert span == ((start + left, end - right) if part.strip() else (end, end)), text
    encoded, words, begins = ours.encode("the film  was the the film"), set(), True
    for id_, (start, end) in zip(encoded.ids, encoded.offsets, strict=True):
        begins |= not ours.continues[id_]  # with the space alone, before the word
        if end > start:
            words |= {start} if begins else set()
            begins = False
    assert words == {0, 4, 10, 14, 18, 22}


def test_a_tokenizer_without_offsets_is_refused_by_name(tmp_path: Path) -> None:
    files = {"tokenizer_config.json": {"tokenizer_class": "CanineTokenizer"}, "config.json": {}}
    with pytest.raises(TokenizerError, match="CanineTokenizer"):
        Tokenizer.load(write(tmp_path, BERT | files))
