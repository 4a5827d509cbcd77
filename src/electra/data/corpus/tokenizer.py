"""Converts text to ids and back, with any tokenizer of the `tokenizers` library, trained here or published.

A tokenizer consists of its definition (the content of a tokenizer.json) and the names of its five special
tokens. Special tokens in a text are plain text: "[MASK]" in a document masks nothing.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from electra.artifacts.model_files import TOKENIZER, TOKENIZER_CONFIG, VOCABULARY
from electra.data.corpus import byte_bpe, tokenizer_folder, tokenizer_limits, wordpiece
from electra.data.corpus.encoding import SURROGATE, CorpusEncoder
from electra.data.corpus.tokenizer_folder import STYLES, VOCABULARIES, Specials
from electra.data.tables.hub_files import could_be_hub_name, download
from electra.data.text_settings import TokenizerConfig
from electra.foundation import durable
from electra.foundation.arrays import Bools
from electra.foundation.errors import TokenizerError

__all__ = ["Count", "Encoding", "Tokenizer", "TokenizerConfig"]

_SPACES = (byte_bpe.SPACE, *byte_bpe.BYTE_SPACES)  # prefixes of tokens that begin a word
_PARTS = {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"}
EXAMPLES, CHARACTERS = 20, 2000  # texts with unknown tokens that are kept, and of each the characters


class Encoding(NamedTuple):
    """A text or a pair with special tokens, as the input of a model; each list has one entry per token."""

    ids: list[int]
    # Start and end in characters of the token's own text, without white space; (0, 0) for special tokens
    offsets: list[tuple[int, int]]
    words: list[int | None]  # the index of the word in the token's own text; None for special tokens
    segments: list[int]  # 0 in the first text, 1 in the second
    special: list[bool]


class Count:
    """Tokens, how many of them are unknown, and some texts with unknown tokens."""

    def __init__(self, tokens: int = 0, unknown: int = 0, texts: Iterable[str] = ()) -> None:
        self.tokens, self.unknown, self.texts = tokens, unknown, list(texts)

    @classmethod
    def of(cls, audit: Mapping[str, Any]) -> Self:
        """Returns the counts in the audit of a store."""
        return cls(audit["tokens"], audit["tokens_unknown"], audit.get("unknown_words", ()))

    @classmethod
    def sum(cls, counts: Iterable["Count"]) -> Self:
        """Returns the counts of all texts together."""
        total = cls()
        for count in counts:
            total.add(next(iter(count.texts), ""), count.tokens, count.unknown)
        return total

    def add(self, text: str, tokens: int, unknown: int) -> None:
        """Counts the tokens of a text."""
        self.tokens, self.unknown = self.tokens + tokens, self.unknown + unknown
        if unknown and len(self.texts) < EXAMPLES:
            self.texts.append(text[:CHARACTERS])


class Tokenizer:
    """A tokenizer and the names and ids of its special tokens.

    Attributes:
        definition: the content of a tokenizer.json, without truncation and padding.
        names: role ("pad", "unk", "cls", "sep", "mask") -> token.
        specials: the id of each role.
        vocab_size: the largest id plus one.
        origin: where it came from, for messages.
        counted: the tokens of all texts that were encoded since it was last set.
    """

    def __init__(self, definition: str, names: dict[str, str], origin: object = "tokenizer") -> None:
        """Builds a tokenizer; `names` has the tokens of the roles that do not have their usual ones.

        Raises TokenizerError if the definition cannot be used, or a role has no token.
        """
        content = json.loads(definition)
        content["truncation"] = content["padding"] = None  # set by each call, not by the tokenizer
        self._raw = tokenizer_folder.build(content, origin)
        if not content.keys() >= _PARTS or "type" not in content["model"]:  # written by an older library
            content = json.loads(self._raw.to_str())
        self.definition = json.dumps(content, ensure_ascii=False)
        self.origin, self.counted = origin, Count()
        vocabulary = self._raw.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values(), default=-1) + 1
        self.names = _find_names(names, vocabulary, origin)
        self.specials = Specials(**{role: vocabulary[name] for role, name in self.names.items()})
        if (plain := self.with_plain_roles()) != content:
            self._raw = tokenizer_folder.build(plain, origin)
        self._raw.encode_special_tokens = True
        empty = self._raw.encode("", add_special_tokens=False)
        with tokenizer_limits.explain_panics(origin):
            added = self._raw.post_process(empty).ids + self._raw.post_process(empty, empty).ids
        largest = max([self.vocab_size - 1, *added])
        if largest >= min(self.vocab_size, 2 * tokenizer_limits.MAX_ENTRIES):
            problem = f"its ids reach {largest}, beyond its vocabulary"
            fix = "Correct the ids of its entries and post_processor in tokenizer.json"
            raise TokenizerError(problem, where=origin, fix=fix)

    def with_plain_roles(self) -> dict[str, Any]:
        """Returns the definition with only the tokens that have a role marked as special.

        In a text, special tokens are then encoded as plain text, and other added tokens as tokens.
        """
        content: dict[str, Any] = json.loads(self.definition)
        special_tokens = set(self.names.values())
        added = [token | {"special": token["content"] in special_tokens} for token in content["added_tokens"]]
        return content | {"added_tokens": added}

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig, *, has_forms: bool = False) -> Self:
        """Trains a vocabulary on `texts`, which are iterated repeatedly.

        With `has_forms`, the corpus has texts that are not in Unicode's form NFC. Raises TokenizerError if
        there is no text, or `vocab_size` is too small for byte-level BPE.
        """
        is_bpe = config.kind == "bpe"  # which always composes
        raw = byte_bpe.train(texts, config) if is_bpe else wordpiece.train(texts, config, has_forms)
        return cls(raw.to_str(), wordpiece.SPECIAL_TOKENS)

    @classmethod
    def load(cls, name: str | Path) -> Self:
        """Loads a tokenizer from a folder, a file or the hub; TokenizerError if it cannot be used."""
        path = Path(name).expanduser()
        if path.is_dir():
            files = tokenizer_folder.files_in(path)
        elif path.is_file():
            if path.suffix == ".model":
                raise tokenizer_folder.sentencepiece_error(path)
            kind = VOCABULARY if path.suffix == ".txt" else TOKENIZER
            siblings = tokenizer_folder.files_in(path.parent)
            files = {file: sibling for file, sibling in siblings.items() if file not in VOCABULARIES}
            files[kind] = path
        elif could_be_hub_name(str(name)):
            files = tokenizer_folder.files_in(download(str(name), tokenizer_folder.FILES, TokenizerError))
        else:
            raise TokenizerError("no such tokenizer folder or file", where=name)
        return cls(*tokenizer_folder.read(files, name), name)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the definition and the names; it does not depend on the layout of the file."""
        content = json.dumps([json.loads(self.definition), self.names], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def continues(self) -> Bools:
        """[V] whether each token continues a word; all False if the tokenizer does not mark words.

        WordPiece marks continuations. Byte-level BPE and SentencePiece mark tokens after a space instead, so
        that a word extends to the next white space and includes its punctuation.
        """
        content = json.loads(self.definition)
        vocabulary = self._raw.get_vocab(with_added_tokens=True)
        continues = np.zeros(self.vocab_size, dtype=np.bool_)
        if content["model"]["type"] == "WordPiece":
            prefix = content["model"]["continuing_subword_prefix"]
            continues[[id_ for token, id_ in vocabulary.items() if token.startswith(prefix)]] = True
        elif any(token.startswith(_SPACES) for token in vocabulary):
            added = {token["content"] for token in content["added_tokens"]} | set(self.names.values())
            inner = (token for token in vocabulary if token not in added and not token.startswith(_SPACES))
            continues[[vocabulary[token] for token in inner]] = True
        return continues

    @cached_property
    def _corpus_encoder(self) -> CorpusEncoder:
        return CorpusEncoder(self._raw, self.with_plain_roles(), self.vocab_size)

    def encode_corpus(self, texts: Sequence[str]) -> list[npt.NDArray[np.unsignedinteger[Any]]]:
        """Returns the ids of each text, without special tokens or offsets; faster than `encode`."""
        with tokenizer_limits.explain_panics(self.origin):
            encoded = self._corpus_encoder(texts)
        for text, ids in zip(texts, encoded, strict=True):
            self.counted.add(text, len(ids), int((ids == self.specials.unk).sum()))
        return encoded

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """Encodes a text or a pair with special tokens."""
        texts = [text] if pair is None else [text, pair]
        with tokenizer_limits.explain_panics(self.origin):
            parts = [self._raw.encode(SURROGATE.sub("\ufffd", t), add_special_tokens=False) for t in texts]
        for part, encoded in zip(texts, parts, strict=True):
            self.counted.add(part, len(encoded.ids), encoded.ids.count(self.specials.unk))
        encoding = self._raw.post_process(parts[0], parts[1] if pair is not None else None)
        special = [bool(flag) for flag in encoding.special_tokens_mask]
        # From the parts, since RoBERTa's processor trims offsets once more. Type ids do not tell the texts
        # apart in every tokenizer; sequence ids do, but those of a pair's first text may be left out.
        spans, offsets = [iter(part.offsets) for part in parts], []
        for sequence, is_special in zip(encoding.sequence_ids, special, strict=True):
            number = int(sequence == 1)
            span = (0, 0) if is_special else _without_spaces(texts[number], *next(spans[number]))
            offsets.append(span)
        return Encoding(encoding.ids, offsets, encoding.word_ids, encoding.type_ids, special)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Token -> id."""
        return dict(self._raw.get_vocab(with_added_tokens=True))

    def unknown_words(self, text: str) -> list[str]:
        """Returns the parts of a text that are unknown tokens."""
        encoding = self._raw.encode(SURROGATE.sub("\ufffd", text), add_special_tokens=False)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [text[start:end] for id_, (start, end) in spans if id_ == self.specials.unk and start < end]

    def normalised(self, text: str) -> str:
        """Returns a text as the normaliser changes it."""
        return str(self._raw.normalizer.normalize_str(text)) if self._raw.normalizer else text

    def decode(self, ids: Iterable[int], skip_specials: bool = True) -> str:
        """Returns the text of ids, by default without special tokens."""
        text: str = self._raw.decode([int(i) for i in ids], skip_special_tokens=skip_specials)
        return text

    def id_to_token(self, token_id: int) -> str:
        """Returns the token of an id, a placeholder for a gap; TokenizerError if it is out of range."""
        token: str | None = self._raw.id_to_token(int(token_id))
        if token is None and not 0 <= token_id < self.vocab_size:
            raise TokenizerError(f"no token has id {token_id}")
        return f"[no token {token_id}]" if token is None else token  # ids of published vocabularies have gaps

    def readable(self, token_id: int) -> str:
        """Returns a token for display: in every kind of tokenizer, with `##` if it continues a word."""
        token = self.id_to_token(token_id)
        is_own = token.startswith(wordpiece.PREFIX) or not self.continues[token_id]
        if is_own and not token.startswith(_SPACES):
            return token
        text = token
        if self._is_byte_level:  # part of a character becomes U+FFFD
            text = self._raw.decode([token_id], skip_special_tokens=False)
        mark = wordpiece.PREFIX if self.continues[token_id] else ""
        return mark + (text.replace(byte_bpe.SPACE, " ").strip() or token)

    @cached_property
    def _is_byte_level(self) -> bool:
        return '"ByteLevel"' in json.dumps(json.loads(self.definition)["decoder"])

    def token_to_id(self, token: str) -> int | None:
        """Returns the id of a token, or None if there is no such token."""
        token_id: int | None = self._raw.token_to_id(token)
        return token_id

    def files(self) -> dict[str, bytes]:
        """Returns the files of a tokenizer folder, from which transformers produces identical ids.

        transformers 5 rebuilds the pipelines of the classes that it knows from a few flags, and would
        lower-case a cased vocabulary; PreTrainedTokenizerFast does not. Input names keep token_type_ids.
        """
        content = json.loads(self.definition)
        settings: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
        }
        settings |= {f"{role}_token": name for role, name in self.names.items()}
        files = {}
        if content["model"]["type"] == "WordPiece":
            # For tools that read vocab.txt
            for normalizer in wordpiece.bert_steps(content["normalizer"])[-1:]:
                settings["do_lower_case"] = normalizer["lowercase"]
                settings["strip_accents"] = normalizer["strip_accents"]
                settings["tokenize_chinese_chars"] = normalizer["handle_chinese_chars"]
            pieces = sorted(content["model"]["vocab"].items(), key=lambda item: item[1])
            if [id_ for _, id_ in pieces] == list(range(len(pieces))):
                files[VOCABULARY] = "".join(f"{piece}\n" for piece, _ in pieces).encode()
        files[TOKENIZER] = (self.definition + "\n").encode()
        files[TOKENIZER_CONFIG] = durable.to_json(settings)
        return files

    def save(self, folder: str | Path) -> None:
        """Writes the files into a folder. Raises DiskError."""
        for name, content in self.files().items():
            durable.commit_file(Path(folder) / name, content)


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    token = text[start:end]
    if not token.strip():
        return end, end
    return end - len(token.lstrip()), start + len(token.rstrip())


def _find_names(names: dict[str, str], vocabulary: dict[str, int], origin: object) -> dict[str, str]:
    by_role = {}
    for role in Specials._fields:
        usual_name = next((style[role] for style in STYLES if style[role] in vocabulary), "")
        name = names.get(role) or usual_name
        if name not in vocabulary:
            problem = f"it has no {role} token ({' or '.join(style[role] for style in STYLES)})"
            fix = f"Set {role}_token in {TOKENIZER_CONFIG} to one of its tokens, or to a new one to add"
            raise TokenizerError(problem, where=origin, fix=fix)
        by_role[role] = name
    if len(set(by_role.values())) < len(by_role):
        fix = "Use a different token for each role"
        raise TokenizerError(f"two roles share one token ({by_role})", where=origin, fix=fix)
    return by_role
