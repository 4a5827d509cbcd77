"""Reads tokenizer folders as one definition: those written here directly, all others through transformers.

A tokenizer.json is used as it is, with the options of tokenizer_config.json and tokens that other files list.
Folders without one (vocab.txt, or vocab.json and merges.txt) are converted by transformers, so that their ids
are its ids. Code in a folder is never run.
"""

import codecs
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from electra.artifacts.model_files import (
    ADDED_TOKENS,
    CONFIG,
    MERGES,
    SPECIAL_TOKENS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    TOKENIZER_FILES,
    VOCABULARY,
    VOCABULARY_JSON,
)
from electra.data.corpus import tokenizer_limits, wordpiece
from electra.foundation import durable
from electra.foundation.errors import TokenizerError, reason_of, translated

FILES = (*TOKENIZER_FILES, CONFIG)
VOCABULARIES = (TOKENIZER, VOCABULARY, VOCABULARY_JSON, MERGES)
STYLES = (  # the usual tokens of the roles in BERT and RoBERTa
    wordpiece.SPECIAL_TOKENS,
    {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
)
_OWN = {  # what `Tokenizer.files` and exports write: a folder with nothing else needs no transformers
    *("tokenizer_class", "model_input_names", "clean_up_tokenization_spaces", "model_max_length"),
    *("do_lower_case", "strip_accents", "tokenize_chinese_chars"),
}
# Classes that use tokenizer.json unchanged, and classes that never use it
_GENERIC = ("", "PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")
_WITHOUT_JSON = ("BertJapaneseTokenizer", "BertweetTokenizer", "PhobertTokenizer")
_BERT = ("modernbert", "nomic_bert")  # their vocab.txt is BERT's; transformers does not know it
_ENDS = (("cls", "bos_token", ("[CLS]", "<s>")), ("sep", "eos_token", ("[SEP]", "</s>")))
_SWITCHES = {  # options of tokenizer_config.json that override tokenizer.json -> part, type and key there
    "do_lower_case": ("normalizer", "BertNormalizer", "lowercase"),
    "strip_accents": ("normalizer", "BertNormalizer", "strip_accents"),
    "tokenize_chinese_chars": ("normalizer", "BertNormalizer", "handle_chinese_chars"),
    "add_prefix_space": ("pre_tokenizer", "ByteLevel", "add_prefix_space"),
}
_IGNORED = {  # options that transformers 5 no longer follows -> the value that has no effect
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

    `files` are as from `files_in`. Raises TokenizerError if one is missing or damaged, or transformers cannot
    read the folder without running code or with a fast tokenizer.
    """
    settings = _object(files, TOKENIZER_CONFIG)
    name = _check_settings(settings, files, origin)
    named = {role: text for role in Specials._fields if (text := _content(settings.get(f"{role}_token")))}
    if TOKENIZER in files:
        content = _object(files, TOKENIZER)
        if "model" not in content:
            raise TokenizerError("not a tokenizer.json (it has no model)", where=files[TOKENIZER])
        tokenizer_limits.check(content, origin)
        if name not in _GENERIC:
            _switch(content, settings)
        others = settings.keys() - _OWN - {f"{role}_token" for role in Specials._fields}
        if others or SPECIAL_TOKENS in files or ADDED_TOKENS in files:
            content, named = _convert(files, settings, content, origin)
        for role, key, usual in _ENDS:
            tokens = {_content(token) for token in content.get("added_tokens") or ()}
            present = (text for text in usual if text in tokens or text in _entries(content))
            # Some folders name only the bos and eos tokens.
            named[role] = named.get(role) or next(present, "") or _content(settings.get(key)) or ""
        return json.dumps(content, ensure_ascii=False), {role: text for role, text in named.items() if text}
    kind = str(_object(files, CONFIG).get("model_type") or "") if name in _GENERIC else name
    if VOCABULARY not in files and not (VOCABULARY_JSON in files and MERGES in files):
        folder = Path(str(origin))
        if pieces := sorted(folder.glob("*.model")) if folder.is_dir() else []:
            raise sentencepiece_error(pieces[0])
        fix = f"Copy the {VOCABULARY} or {TOKENIZER} that the model was published with into it"
        raise TokenizerError(f"neither a {TOKENIZER} nor a {VOCABULARY} here", where=origin, fix=fix)
    if VOCABULARY in files:
        with open(files[VOCABULARY], "rb") as file:
            if file.read(3) == codecs.BOM_UTF8:
                problem, where = "a byte order mark is part of the first entry", f"{files[VOCABULARY]}:1"
                raise TokenizerError(problem, where=where, fix="Save it as UTF-8 without one")
    if kind in _GENERIC or (kind in _BERT and VOCABULARY in files):  # the vocabulary's looks decide
        name = "BertTokenizer" if VOCABULARY in files else "RobertaTokenizer"
    settings = {key: value for key, value in settings.items() if key != "tokenizer_class"}
    if name not in _GENERIC:  # a class that is named comes before the model's type
        files = {file: path for file, path in files.items() if file != CONFIG}
        settings["tokenizer_class"] = name
    content, roles = _convert(files, settings, None, origin)
    if VOCABULARY in files and 2 * len(_entries(content)) < files[VOCABULARY].read_bytes().count(b"\n"):
        problem = f"the tokenizer of {name or kind} in transformers does not read this"
        fix = f'Name the class that does in {TOKENIZER_CONFIG}, such as "tokenizer_class": "BertTokenizer"'
        raise TokenizerError(problem, where=files[VOCABULARY], fix=fix)
    for role, text in roles.items():
        if text not in _entries(content) and role not in named and text not in str(settings):
            vocabulary = files.get(VOCABULARY) or files[VOCABULARY_JSON]
            fix = f"Add it, or set another {role}_token in {TOKENIZER_CONFIG}"
            raise TokenizerError(f"the vocabulary has no {text}", where=vocabulary, fix=fix)
    return json.dumps(content, ensure_ascii=False), roles


def files_in(folder: Path) -> dict[str, Path]:
    """Returns the tokenizer files and config.json that exist in a folder, by name."""
    return {name: folder / name for name in FILES if (folder / name).is_file()}


def sentencepiece_error(path: Path) -> TokenizerError:
    """Returns the error for a SentencePiece model."""
    return TokenizerError("SentencePiece models are not read directly", where=path, fix=_CONVERT)


def build(content: Mapping[str, Any], origin: object) -> tokenizers.Tokenizer:
    """Builds the library's tokenizer from a definition. Raises TokenizerError if it cannot be used."""
    tokenizer_limits.check(content, origin)
    fix = f"It may be damaged, or need a newer version than tokenizers {tokenizers.__version__}"
    unusable = translated(TokenizerError, "cannot be used as a tokenizer", where=origin, fix=fix)
    with tokenizer_limits.explain_panics(origin), unusable:
        return tokenizers.Tokenizer.from_str(json.dumps(content, ensure_ascii=False))


def _check_settings(settings: Mapping[str, Any], files: Mapping[str, Path], origin: object) -> str:
    """Returns the tokenizer's class, "" if none is named; refuses code, and what transformers ignores."""
    where = files.get(TOKENIZER_CONFIG, origin)
    auto_map = settings.get("auto_map")
    if isinstance(auto_map, list) or (isinstance(auto_map, dict) and auto_map.get("AutoTokenizer")):
        problem = f"this tokenizer is Python code in the folder (auto_map: {str(auto_map)[:80]})"
        raise TokenizerError(problem, where=where, fix="Code in a folder is never run. " + _CONVERT)
    for option, harmless in _IGNORED.items():
        if (value := settings.get(option)) not in (None, harmless, []):
            problem = f"the option {option} = {json.dumps(value)[:80]} is not supported"
            raise TokenizerError(problem, where=where, fix=_CONVERT)
    for option in _SWITCHES:
        if option in settings and not isinstance(value := settings[option], bool | None):
            problem = f"must be true or false, not {json.dumps(value)[:80]}"
            raise TokenizerError(problem, where=where, key=option)
    name = settings.get("tokenizer_class") or _object(files, CONFIG).get("tokenizer_class") or ""
    if not isinstance(name, str):
        problem = f"must be a name, not {json.dumps(name)[:80]}"
        raise TokenizerError(problem, where=where, key="tokenizer_class")
    if TOKENIZER in files and name in _WITHOUT_JSON:
        raise TokenizerError(f"the tokenizer {name} is not supported", where=where, fix=_CONVERT)
    return name


def _switch(content: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Applies options of tokenizer_config.json to a tokenizer.json, as BERT's and RoBERTa's classes do."""
    for option, (part, type_, key) in _SWITCHES.items():
        step = content.get(part)
        is_set = option in settings and (settings[option] is not None or option == "strip_accents")
        if is_set and isinstance(step, dict) and step.get("type") == type_:
            step[key] = settings[option]


def _convert(
    files: Mapping[str, Path], settings: Mapping[str, Any], definition: dict[str, Any] | None, origin: object
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the definition and the roles as transformers reads them, from `definition` or without one."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    added = settings.get("added_tokens_decoder")
    if isinstance(added, dict) and len(added) > tokenizer_limits.MAX_ADDED:
        problem = f"its list of added tokens has {len(added):,} entries, over {tokenizer_limits.MAX_ADDED:,}"
        raise TokenizerError(problem, where=files[TOKENIZER_CONFIG])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in files.keys() - {TOKENIZER, TOKENIZER_CONFIG}:
            (folder / file).write_bytes(files[file].read_bytes())
        config = dict(settings)
        for key, token in settings.items():
            if key.endswith("_token") and isinstance(token, dict) and "content" in token:
                config[key] = token | {"__type": "AddedToken"}  # transformers 5 wants objects to say so
        if definition is not None:
            (folder / TOKENIZER).write_text(json.dumps(definition, ensure_ascii=False), encoding="utf-8")
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
        (folder / TOKENIZER_CONFIG).write_bytes(durable.to_json(config))
        try:
            kind = AutoTokenizer if definition is None else PreTrainedTokenizerFast
            tokenizer = kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        except Exception as error:  # of every kind: the files are a stranger's
            named = config.get("tokenizer_class") or _object(files, CONFIG).get("model_type")
            problem = f"transformers cannot read this tokenizer ({named}: {reason_of(error)[:200]})"
            where = files.get(TOKENIZER_CONFIG, origin)
            raise TokenizerError(problem.replace(name, str(origin)), where=where, fix=_CONVERT) from None
    if not tokenizer.is_fast:
        problem = f"{type(tokenizer).__name__} is a slow tokenizer, which gives no offsets"
        raise TokenizerError(problem, where=origin, fix=_CONVERT)
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    if definition is not None:  # else the same, rewritten by the library
        content = definition | {"added_tokens": content["added_tokens"]}
    roles = {role: getattr(tokenizer, f"{role}_token") for role in Specials._fields}
    return content, {role: text for role, text in roles.items() if text}


def _entries(content: Mapping[str, Any]) -> Any:
    entries = content["model"].get("vocab") if isinstance(content["model"], Mapping) else ()
    return entries if isinstance(entries, Mapping) else [entry[0] for entry in entries or () if entry]


def _object(files: Mapping[str, Path], name: str) -> dict[str, Any]:
    return durable.read_object(files[name], TokenizerError) if name in files else {}


def _content(token: Any) -> str | None:
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
