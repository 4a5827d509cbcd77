"""Reads published tokenizer folders, in every form that transformers writes, as one definition.

The ids depend on tokenizer.json or vocab.txt, on the class in tokenizer_config.json or config.json and its
options, and on the tokens added later (added_tokens.json, special_tokens_map.json, tokenizer_config.json).
The ids equal those of transformers. A class or option that is not implemented is an error that names it.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from electra.artifacts.model import (
    ADDED_TOKENS,
    CONFIG,
    MERGES,
    SENTENCE_PIECES,
    SPECIAL_TOKENS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    TOKENIZER_FILES,
    VOCABULARY,
    VOCABULARY_JSON,
)
from electra.data import hostile, sentencepiece, wordpiece
from electra.foundation import durable
from electra.foundation.errors import TokenizerError

FILES = (*TOKENIZER_FILES, CONFIG)
VOCABULARIES = (TOKENIZER, VOCABULARY, VOCABULARY_JSON, MERGES, SENTENCE_PIECES)
# Classes (in lower case, without "Tokenizer" and "Fast") that equal BERT's or RoBERTa's; most are also model
# types in config.json.
_BERT = {
    *("bert", "electra", "distilbert", "convbert", "mobilebert", "squeezebert", "retribert", "layoutlm"),
    *("lxmert", "realm", "megatron-bert", "nezha", "ernie", "nomic_bert", "modernbert"),
}
_ROBERTA = {"roberta", "longformer"}
_DEBERTA = {"deberta-v2", "debertav2"}
_WITHOUT_JSON = {"bertjapanese", "bertweet", "phobert"}  # classes that never use a tokenizer.json
_GENERIC = ("", "pretrained", "tokenizersbackend")  # classes that use tokenizer.json unchanged
STYLES = (  # the usual tokens of the roles in BERT and RoBERTa
    wordpiece.SPECIAL_TOKENS,
    {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
)
_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_EXTRA = ("extra_special_tokens", "additional_special_tokens")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_SWITCHES = {  # options of tokenizer_config.json that override tokenizer.json -> part, type and key there
    "do_lower_case": ("normalizer", "BertNormalizer", "lowercase"),
    "strip_accents": ("normalizer", "BertNormalizer", "strip_accents"),
    "tokenize_chinese_chars": ("normalizer", "BertNormalizer", "handle_chinese_chars"),
    "add_prefix_space": ("pre_tokenizer", "ByteLevel", "add_prefix_space"),
}
_UNSUPPORTED = {  # options that are not implemented -> the value that has no effect
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
    "do_word_tokenize": True,
    "do_subword_tokenize": True,
    "do_basic_tokenize": True,
    "never_split": None,
    "normalization": False,
}
_CONVERT = (
    "Pass a folder with a tokenizer.json. If transformers can run this tokenizer (a .model file needs"
    " sentencepiece), AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OUT) writes one, unless there is"
    " only a slow tokenizer"
)


class Specials(NamedTuple):
    """The ids of the special tokens in a vocabulary."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


def read(files: Mapping[str, Path], origin: object) -> tuple[str, dict[str, str]]:
    """Returns the definition (the content of a tokenizer.json) and the tokens of the roles that are named.

    Args:
        files: file name -> path, as from `files_in`.
        origin: where the files are from, for messages.

    Raises:
        TokenizerError: a file is missing or damaged, or the class or an option is not supported.
    """
    settings = _settings(files)
    kind = _class_of(settings, files, origin)
    roles = {role: name for role in Specials._fields if (name := _content(settings.get(f"{role}_token")))}
    if TOKENIZER in files:
        tokenizer, definition = _from_tokenizer_json(files[TOKENIZER], settings, kind, origin)
        if _add_tokens(tokenizer, settings, files, roles.values()):
            definition["added_tokens"] = json.loads(tokenizer.to_str())["added_tokens"]
        for role, key, *usual in (
            ("cls", "bos_token", "[CLS]", "<s>"),
            ("sep", "eos_token", "[SEP]", "</s>"),
        ):
            present = (name for name in usual if tokenizer.token_to_id(name) is not None)
            # Some folders name only the bos and eos tokens.
            roles[role] = roles.get(role) or next(present, "") or _content(settings.get(key)) or ""
        named_roles = {role: name for role, name in roles.items() if name}
        return json.dumps(definition, ensure_ascii=False), named_roles
    if SENTENCE_PIECES in files and kind in ("", "pretrained", *_DEBERTA):
        return _from_sentence_pieces(files, settings, roles)
    is_byte_level = VOCABULARY not in files
    if is_byte_level and not (VOCABULARY_JSON in files and MERGES in files):
        folder = Path(str(origin))
        if pieces := sorted(folder.glob("*.model")) if folder.is_dir() else []:
            raise sentencepiece_error(pieces[0])
        other = SENTENCE_PIECES if kind in _DEBERTA else f"a {VOCABULARY}"
        fix = f"Copy {SENTENCE_PIECES} from the model's repository" if kind in _DEBERTA else _CONVERT
        raise TokenizerError(f"neither a {TOKENIZER} nor {other} here", where=origin, fix=fix)
    roles = STYLES[is_byte_level] | roles
    if is_byte_level:
        tokenizer = _from_merges(files, settings)
    else:
        tokenizer = _from_vocabulary(files[VOCABULARY], settings, roles)
    _add_tokens(tokenizer, settings, files, roles.values())
    for role, name in roles.items():
        if tokenizer.token_to_id(name) is None:
            where = files[VOCABULARY_JSON if is_byte_level else VOCABULARY]
            fix = f"Add it, or set another {role}_token in {TOKENIZER_CONFIG}"
            raise TokenizerError(f"the vocabulary has no {name}", where=where, fix=fix)
    wordpiece.add_special_tokens(tokenizer, roles)
    if is_byte_level:
        cls, sep = ((roles[role], tokenizer.token_to_id(roles[role])) for role in ("cls", "sep"))
        tokenizer.post_processor = processors.RobertaProcessing(sep, cls)  # type: ignore[arg-type]
    return str(tokenizer.to_str()), roles


def files_in(folder: Path) -> dict[str, Path]:
    """Returns the tokenizer files and config.json that exist in a folder, by name."""
    return {name: folder / name for name in FILES if (folder / name).is_file()}


def sentencepiece_error(path: Path) -> TokenizerError:
    """Returns the error for a SentencePiece model other than DeBERTa's."""
    return TokenizerError("SentencePiece models are not read directly", where=path, fix=_CONVERT)


def _settings(files: Mapping[str, Path]) -> dict[str, Any]:
    """Returns tokenizer_config.json merged with special_tokens_map.json as transformers does."""
    config, special = (
        _object(files[name]) if name in files else {} for name in (TOKENIZER_CONFIG, SPECIAL_TOKENS)
    )
    if "added_tokens_decoder" in config:
        return {key: value for key, value in special.items() if key not in _EXTRA} | config
    return config | special


def _object(path: Path) -> dict[str, Any]:
    content = durable.read_json(path, TokenizerError)
    if not isinstance(content, dict):
        raise TokenizerError(f"expected an object, got {type(content).__name__}", where=path)
    return content


def _class_of(settings: Mapping[str, Any], files: Mapping[str, Path], origin: object) -> str:
    """Returns the tokenizer's class in lower case, without "Tokenizer" and "Fast".

    Raises:
        TokenizerError: the class or an option is not supported.
    """
    where = files.get(TOKENIZER_CONFIG, origin)
    model_config = _object(files[CONFIG]) if CONFIG in files else {}
    auto_map = settings.get("auto_map")
    if isinstance(auto_map, list) or (isinstance(auto_map, dict) and auto_map.get("AutoTokenizer")):
        problem = f"this tokenizer is Python code in the folder (auto_map: {str(auto_map)[:80]})"
        raise TokenizerError(problem, where=where, fix="Code in a folder is never run. " + _CONVERT)
    for option, harmless in _UNSUPPORTED.items():
        value = settings.get(option)
        if value not in (None, harmless, []):
            problem = f"the option {option} = {json.dumps(value)[:80]} is not supported"
            raise TokenizerError(problem, where=where, fix=_CONVERT)
    for option in _SWITCHES:
        value = settings.get(option)
        if option in settings and not (isinstance(value, bool) or value is None):
            raise TokenizerError(
                f"must be true or false, not {json.dumps(value)[:80]}", where=where, key=option
            )
    for content, source in ((settings, where), (model_config, files.get(CONFIG))):
        name = content.get("tokenizer_class")
        if name is not None and not isinstance(name, str):
            raise TokenizerError(
                f"must be a name, not {json.dumps(name)[:80]}", where=source, key="tokenizer_class"
            )
        if name:
            break
    kind = (name or "").removesuffix("Fast").removesuffix("Tokenizer").lower()
    if TOKENIZER in files:
        supported = kind not in _WITHOUT_JSON
    else:
        if not name and (model_type := model_config.get("model_type")):
            kind, name = str(model_type).lower(), f"of model type {model_type}"
        may_be_deberta = SENTENCE_PIECES in files or not any(file in files for file in VOCABULARIES)
        supported = kind in (
            *("", "pretrained"),
            *(_BERT if VOCABULARY in files else _ROBERTA),
            *(_DEBERTA if may_be_deberta else ()),
        )
    if not supported:
        problem = f"the tokenizer {name} is not supported"
        problem += "" if TOKENIZER in files else f" without a {TOKENIZER}"
        raise TokenizerError(problem, where=source or origin, fix=_CONVERT)
    return kind


def _from_tokenizer_json(
    path: Path, settings: Mapping[str, Any], kind: str, origin: object
) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    content = durable.read_json(path, TokenizerError)
    if not isinstance(content, dict) or "model" not in content:
        raise TokenizerError("not a tokenizer.json (it has no model)", where=path)
    if kind not in _GENERIC:
        for option, (part, type_, key) in _SWITCHES.items():
            step = content.get(part)
            is_set = option in settings and (settings[option] is not None or option == "strip_accents")
            if is_set and isinstance(step, dict) and step.get("type") == type_:
                step[key] = settings[option]
    return build(content, origin), content


def build(content: Mapping[str, Any], origin: object) -> tokenizers.Tokenizer:
    """Builds the library's tokenizer from a definition. Raises TokenizerError if it cannot be used."""
    hostile.refuse_hostile(content, origin)
    with hostile.explain_panics(origin):
        try:
            return tokenizers.Tokenizer.from_str(json.dumps(content, ensure_ascii=False))
        except Exception as error:  # the library raises bare Exceptions
            problem = f"cannot be used as a tokenizer ({error})"
            fix = f"It may be damaged, or need a newer version than tokenizers {tokenizers.__version__}"
            raise TokenizerError(problem, where=origin, fix=fix) from None


def _from_sentence_pieces(
    files: Mapping[str, Path], settings: Mapping[str, Any], roles: dict[str, str]
) -> tuple[str, dict[str, str]]:
    """Reads DeBERTa's tokenizer. Special tokens have BERT's names, and are added if they are not pieces."""
    path = files[SENTENCE_PIECES]
    roles = STYLES[0] | roles
    tokenizer = sentencepiece.read_unigram(
        path,
        lowercase=settings.get("do_lower_case") is True,
        split_marks=settings.get("split_by_punct") is True,
    )
    named = {f"{role}_token": name for role, name in roles.items()}
    _add_tokens(
        tokenizer, {"bos_token": roles["cls"], "eos_token": roles["sep"], **named, **settings}, files, ()
    )
    wordpiece.add_special_tokens(tokenizer, roles)
    return str(tokenizer.to_str()), roles


def _from_vocabulary(
    path: Path, settings: Mapping[str, Any], roles: Mapping[str, str]
) -> tokenizers.Tokenizer:
    """Builds the tokenizer from a vocab.txt and its options; like BERT, it lower-cases by default.

    Each line is an entry; white space at its end is ignored. If an entry occurs twice, the last one counts.
    """
    try:
        with open(path, "rb") as file:
            if file.read(3) == codecs.BOM_UTF8:
                problem = "a byte order mark is part of the first entry"
                raise TokenizerError(problem, where=f"{path}:1", fix="Save it as UTF-8 without one")
        vocabulary = models.WordPiece.read_file(str(path))
    except TokenizerError:
        raise
    except Exception as error:  # the library raises bare Exceptions
        raise TokenizerError(f"not readable as a vocabulary ({error})", where=path) from None
    lowercase, chinese = (
        settings.get(key) is not False for key in ("do_lower_case", "tokenize_chinese_chars")
    )
    return wordpiece.bert_pipeline(
        vocabulary,
        lowercase=lowercase,
        strip_accents=settings.get("strip_accents"),
        chinese=chinese,
        unknown=roles["unk"],
    )


def _from_merges(files: Mapping[str, Path], settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Builds RoBERTa's byte-level BPE from a vocab.json and a merges.txt."""
    try:
        vocabulary, merges = models.BPE.read_file(str(files[VOCABULARY_JSON]), str(files[MERGES]))
        tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    except Exception as error:  # the library raises bare Exceptions
        problem = f"not readable as a vocabulary with its merges ({error})"
        raise TokenizerError(problem, where=files[VOCABULARY_JSON]) from None
    prefix = settings.get("add_prefix_space") is True
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _add_tokens(
    tokenizer: tokenizers.Tokenizer,
    settings: Mapping[str, Any],
    files: Mapping[str, Path],
    roles: Collection[str],
) -> bool:
    """Adds the tokens that other files list, in transformers' order, which decides the ids of new tokens.

    Returns whether there were any.
    """
    present_tokens = {token.content: token for token in tokenizer.get_added_tokens_decoder().values()}
    tokens = [
        token
        for token, overrides in _listed_tokens(settings, files)
        if token.content not in present_tokens
        or (overrides and _flags(token) != _flags(present_tokens[token.content]))
        if token.content not in roles or tokenizer.token_to_id(token.content) is None
    ]
    if len(tokens) > hostile.MAX_ADDED:
        problem = f"its list of added tokens has {len(tokens):,} entries, over {hostile.MAX_ADDED:,}"
        raise TokenizerError(problem, where=files.get(TOKENIZER_CONFIG) or files[ADDED_TOKENS])
    tokenizer.add_tokens(tokens)
    return bool(tokens)


def _listed_tokens(
    settings: Mapping[str, Any], files: Mapping[str, Path]
) -> Iterator[tuple[tokenizers.AddedToken, bool]]:
    """Yields each added token outside the vocabulary, and whether its flags override tokenizer.json's."""
    where, tokens_by_id = files.get(TOKENIZER_CONFIG), settings.get("added_tokens_decoder")
    overrides = tokens_by_id is not None
    extra: Any = next((settings[key] for key in _EXTRA if settings.get(key)), [])
    other_tokens = [value for key, value in settings.items() if key.endswith("_token") and key not in _NAMED]
    named = [
        *(settings.get(key) for key in _NAMED),
        *(value for value in other_tokens if isinstance(value, str)),
        *(extra.values() if isinstance(extra, dict) else extra if isinstance(extra, list) else [extra]),
    ]
    special_contents = {_content(token) for token in named}
    if tokens_by_id is None and ADDED_TOKENS in files:
        where = files[ADDED_TOKENS]
        tokens_by_id = {id_: token for token, id_ in _object(where).items()}
    try:
        listed = [token for _, token in sorted((tokens_by_id or {}).items(), key=lambda item: int(item[0]))]
        for index, token in enumerate([*listed, *(token for token in named if token is not None)]):
            content, flags = _content(token), token if isinstance(token, dict) else {}
            if content is None:
                raise TypeError
            options = {name: bool(flags[name]) for name in _FLAGS if name in flags}
            options |= {"special": True} if content in special_contents else {}
            if content:
                yield tokenizers.AddedToken(content, **options), overrides and index < len(listed)
    except (AttributeError, TypeError, ValueError, OverflowError):
        problem = "an added token must be a string, or an object whose content is a string"
        raise TokenizerError(problem, where=where) from None


def _flags(token: tokenizers.AddedToken) -> list[bool]:
    return [getattr(token, name) for name in _FLAGS]


def _content(token: Any) -> str | None:
    """Returns the text of a token that is written as a string or as an object; None if it is neither."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
