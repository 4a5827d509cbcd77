"""Text to ids and back, with any tokenizer that the `tokenizers` library runs, trained here or brought along.

A tokenizer is its definition (the content of a tokenizer.json) and the names of its five special tokens.
Literal special tokens in a text are plain text: a document that says "[MASK]" hides nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from electra.artifacts.model import SENTENCE_PIECES, TOKENIZER, TOKENIZER_CONFIG, VOCABULARY
from electra.data import hostile, space_marked, tokenizer_folder, wordpiece
from electra.data.encoding import CorpusEncoder
from electra.data.settings import TokenizerConfig
from electra.data.tokenizer_folder import STYLES, VOCABULARIES, Specials
from electra.data.wordpiece import Accents, Characters, loses_marks
from electra.foundation import durable
from electra.foundation.arrays import Bools
from electra.foundation.errors import TokenizerError

__all__ = ["Encoding", "Tokenizer", "TokenizerConfig"]

_SPACES = (space_marked.SPACE, *space_marked.BYTE_SPACES)  # before a word, in tokenizers that mark it
_PARTS = {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"}
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(@\w[\w./-]*)?")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Encoding(NamedTuple):
    """A text, or a pair of texts, as a model takes it: with special tokens."""

    ids: list[int]
    offsets: list[
        tuple[int, int]
    ]  # of each token, in characters of the original text (of its own text in a pair), without white space;
    # (0, 0) for specials
    words: list[int | None]  # the word each token is a part of, counted in its own text; None for specials
    segments: list[int]  # 0 in the first text, 1 in the second
    special: list[bool]


class Tokenizer:
    def __init__(self, definition: str, names: dict[str, str], origin: object = "tokenizer") -> None:
        """`definition`: the content of a tokenizer.json. `names`: the tokens of roles with unusual names."""
        content = json.loads(definition)
        content["truncation"] = content["padding"] = None  # settings of one use, not of the tokenizer
        self._raw = tokenizer_folder.build(content, origin)
        if not content.keys() >= _PARTS or "type" not in content["model"]:  # of an older library
            content = json.loads(self._raw.to_str())
        self.definition = json.dumps(content, ensure_ascii=False)
        self.origin = origin
        vocabulary = self._raw.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values(), default=-1) + 1
        self.names = _find_names(names, vocabulary, origin)
        self.specials = Specials(**{role: vocabulary[name] for role, name in self.names.items()})
        if (plain := self.with_plain_roles()) != content:
            self._raw = tokenizer_folder.build(plain, origin)
        self._raw.encode_special_tokens = True
        with hostile.panics(origin):
            around = self._raw.post_process(self._raw.encode("", add_special_tokens=False)).ids
        if around and max(around) >= self.vocab_size:
            what = (
                f"its post-processor adds the id {max(around)}, but its {self.vocab_size} entries end before"
            )
            raise TokenizerError(
                what, where=origin, fix="Correct the ids of post_processor in tokenizer.json"
            )

    def with_plain_roles(self) -> dict[str, Any]:
        """The definition in which just the tokens that have a role count as special, which are plain text in
        a text: other added tokens are tokens there.
        """
        content: dict[str, Any] = json.loads(self.definition)
        own = set(self.names.values())
        added = [token | {"special": token["content"] in own} for token in content["added_tokens"]]
        return content | {"added_tokens": added}

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
        """A tokenizer with a vocabulary trained on `texts`, which are read several times."""
        trained = {
            "wordpiece": wordpiece.train,
            "bpe": space_marked.train_bpe,
            "unigram": space_marked.train_unigram,
        }[config.kind](texts, config)
        return cls(trained.to_str(), wordpiece.SPECIAL_TOKENS)

    @classmethod
    def load(cls, name: str | Path) -> Tokenizer:
        """From a folder, a tokenizer.json, a vocab.txt, or a name on the Hugging Face hub."""
        path = Path(name).expanduser()
        if path.is_dir():
            files = tokenizer_folder.files_in(path)
        elif path.is_file():
            if path.suffix == ".model" and path.name != SENTENCE_PIECES:
                raise tokenizer_folder.sentence_pieces(path)
            kind = VOCABULARY if path.suffix == ".txt" else TOKENIZER
            kind = SENTENCE_PIECES if path.name == SENTENCE_PIECES else kind
            beside = tokenizer_folder.files_in(path.parent)
            files = {file: place for file, place in beside.items() if file not in VOCABULARIES} | {kind: path}
        elif could_be_hub_name(str(name)):
            files = _download(str(name))
        else:
            raise TokenizerError("no such tokenizer folder or file", where=name)
        return cls(*tokenizer_folder.read(files, name), name)

    @cached_property
    def digest(self) -> str:
        """The identity of the tokenizer: what it does, not how its file is laid out."""
        content = json.dumps([json.loads(self.definition), self.names], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def continues(self) -> Bools:
        """True at the tokens that go on with a word [V]. Nowhere, if the tokenizer does not say which do.

        WordPiece marks these tokens. Byte-level BPE and Unigram mark those after a space instead, so that a
        word is what stands between white space, its punctuation included.
        """
        content = json.loads(self.definition)
        vocabulary = self._raw.get_vocab(with_added_tokens=True)
        found = np.zeros(self.vocab_size, dtype=np.bool_)
        if content["model"]["type"] == "WordPiece":
            prefix = content["model"]["continuing_subword_prefix"]
            found[[number for token, number in vocabulary.items() if token.startswith(prefix)]] = True
        elif any(token.startswith(_SPACES) for token in vocabulary):
            own = {token["content"] for token in content["added_tokens"]} | set(self.names.values())
            inner = (token for token in vocabulary if token not in own and not token.startswith(_SPACES))
            found[[vocabulary[token] for token in inner]] = True
        return found

    @cached_property
    def _corpus_encoder(self) -> CorpusEncoder:
        return CorpusEncoder(self._raw, self.with_plain_roles(), self.vocab_size)

    def encode_corpus(self, texts: Sequence[str]) -> list[npt.NDArray[np.unsignedinteger[Any]]]:
        """The ids of each text, without special tokens: the fast way, for text that needs no offsets."""
        with hostile.panics(self.origin):
            return self._corpus_encoder(texts)

    def removed_accents(self, characters: Characters) -> Accents | None:
        """The share of characters that lose their marks here; None where none does."""
        normalizer = self._raw.normalizer
        if normalizer is None:
            return None
        share = characters.share(lambda letter: loses_marks(letter, normalizer.normalize_str(letter)))
        return Accents(removed=True, share=share) if share else None

    def encode(self, text: str, pair: str | None = None, max_length: int | None = None) -> Encoding:
        """A text or a pair with its special tokens. Beyond `max_length` the longer text is truncated."""
        with hostile.panics(self.origin):
            parts = [
                self._raw.encode(_SURROGATE.sub("\ufffd", part), add_special_tokens=False)
                for part in (text, pair)
                if part is not None
            ]
        if max_length is not None:
            room = max_length - self._raw.num_special_tokens_to_add(pair is not None)
            if room < len(parts):
                raise TokenizerError(f"a length of {max_length} leaves no room for text")
            by_length = sorted(parts, key=lambda part: len(part.ids))
            if len(by_length) == 2:
                by_length[0].truncate(max(room // 2, room - len(by_length[1].ids)))
                room -= len(by_length[0].ids)
            by_length[-1].truncate(room)
        whole = self._raw.post_process(parts[0], parts[1] if pair is not None else None)
        special = [bool(flag) for flag in whole.special_tokens_mask]
        texts = {
            0: text,
            1: pair or "",
            None: "",
        }  # which text a token is of; types would not tell everywhere
        offsets = [
            _trimmed(texts[own], *at) for own, at in zip(whole.sequence_ids, whole.offsets, strict=True)
        ]
        return Encoding(whole.ids, offsets, whole.word_ids, whole.type_ids, special)

    def decode(self, ids: Iterable[int], skip_specials: bool = True) -> str:
        text: str = self._raw.decode([int(i) for i in ids], skip_special_tokens=skip_specials)
        return text

    def id_to_token(self, token_id: int) -> str:
        token: str | None = self._raw.id_to_token(int(token_id))
        if token is None and not 0 <= token_id < self.vocab_size:
            raise TokenizerError(f"no token has id {token_id}")
        return f"[no token {token_id}]" if token is None else token  # ids of published vocabularies have gaps

    def readable(self, token_id: int) -> str:
        """A token as a person reads it, whatever marks its tokenizer uses: `##` if it goes on with a word."""
        name = self.id_to_token(token_id)
        if not name.startswith(_SPACES) and (
            name.startswith(wordpiece.PREFIX) or not self.continues[token_id]
        ):
            return name
        plain = name
        if self._by_bytes:  # a part of a character is U+FFFD
            plain = self._raw.decode([token_id], skip_special_tokens=False)
        mark = wordpiece.PREFIX if self.continues[token_id] else ""
        return mark + (plain.replace(space_marked.SPACE, " ").strip() or name)

    @cached_property
    def _by_bytes(self) -> bool:
        return '"ByteLevel"' in json.dumps(json.loads(self.definition)["decoder"])

    def token_to_id(self, token: str) -> int | None:
        token_id: int | None = self._raw.token_to_id(token)
        return token_id

    def files(self) -> dict[str, bytes]:
        """The files of a tokenizer folder that the Hugging Face libraries read as it is meant.

        transformers 5 rebuilds the pipeline of the tokenizer classes that it knows from a few flags, and
        would lower-case a cased vocabulary; PreTrainedTokenizerFast takes tokenizer.json word for word, and
        the input names keep token_type_ids.
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
            normalizer = content["normalizer"] or {}
            if normalizer.get("type") == "BertNormalizer":  # for tools that read vocab.txt
                settings |= {
                    "do_lower_case": normalizer["lowercase"],
                    "strip_accents": normalizer["strip_accents"],
                }
                settings["tokenize_chinese_chars"] = normalizer["handle_chinese_chars"]
            pieces = sorted(content["model"]["vocab"].items(), key=lambda item: item[1])
            if [number for _, number in pieces] == list(range(len(pieces))):
                files[VOCABULARY] = "".join(f"{piece}\n" for piece, _ in pieces).encode()
        files[TOKENIZER] = (self.definition + "\n").encode()
        files[TOKENIZER_CONFIG] = durable.to_json(settings)
        return files

    def save(self, folder: str | Path) -> None:
        for name, content in self.files().items():
            durable.commit_file(Path(folder) / name, content)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without the white space that a token may carry."""
    kept = text[start:end]
    if not kept.strip():
        return end, end
    return end - len(kept.lstrip()), start + len(kept.rstrip())


def _find_names(names: dict[str, str], vocabulary: dict[str, int], origin: object) -> dict[str, str]:
    found = {}
    for role in Specials._fields:
        usual = next((style[role] for style in STYLES if style[role] in vocabulary), "")
        name = names.get(role) or usual
        if name not in vocabulary:
            what = f"it has no {role} token ({' or '.join(style[role] for style in STYLES)})"
            fix = f"Name one of its tokens, or a new one to add, as {role}_token in {TOKENIZER_CONFIG}"
            raise TokenizerError(what, where=origin, fix=fix)
        found[role] = name
    if len(set(found.values())) < len(found):
        raise TokenizerError(
            f"two roles share one token ({found})", where=origin, fix="Give each role a token of its own"
        )
    return found


def could_be_hub_name(name: str) -> bool:
    """owner/name or name, maybe @revision; but texts/typo is a path when there is a folder texts/ here."""
    parent = Path(in_repository(name)[0]).parent
    return bool(_HUB_NAME.fullmatch(name)) and (parent == Path(".") or not parent.is_dir())


def in_repository(name: str) -> tuple[str, str | None]:
    """Of owner/name@revision the repository and the branch, tag or commit; None: its main branch."""
    repository, _, revision = name.partition("@")
    return repository, revision or None


def _download(name: str) -> dict[str, Path]:
    """A tokenizer's files from the hub, or from its cache when there is no network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    fix = "Give a folder, or check the name and the network (HF_HUB_OFFLINE, HF_TOKEN)"
    repository, revision = in_repository(name)
    try:
        folder = Path(
            snapshot_download(repository, revision=revision, allow_patterns=list(tokenizer_folder.FILES))
        )
    except LocalEntryNotFoundError:
        raise TokenizerError(
            "no such folder or file, and the hub cannot be reached", where=name, fix=fix
        ) from None
    except Exception as error:  # network, names, permissions: the library raises dozens of kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TokenizerError(
            f"no such folder or file, and not found on the hub ({reason})", where=name, fix=fix
        ) from None
    return tokenizer_folder.files_in(folder)
