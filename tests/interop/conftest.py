"""Tiny networks and tokenizers for the tests of exchange."""

import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from copies import SPECIALS
from torch import nn

from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.model.networks import Networks
from electra.model.pair import Pair, build_networks
from electra.model.sizes import EncoderConfig, discriminator_config, generator_config, resolve_size

WORDS = ["the", "chef", "cooked", "meal", "ate", "##s", "##ed", "The", "Chef", "Meal", "caf\u00e9", "cafe"]
LETTERS = [*string.ascii_letters, *string.digits, *string.punctuation, *"\u00e9\u00fc\u6f22\u5b57\ud55c"]


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_tokenizer(folder: Path, lowercase: bool = True) -> Tokenizer:
    """A WordPiece tokenizer of words and letters, written by the tokenizers library and read by ours."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, normalizers, pre_tokenizers, processors

    entries = [*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS]
    vocabulary = {entry: index for index, entry in enumerate(dict.fromkeys(entries))}
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    backend.add_special_tokens(SPECIALS)
    folder.mkdir(parents=True, exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    return Tokenizer.load(folder)


@pytest.fixture(scope="session")
def uncased(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizers") / "uncased")


@pytest.fixture(scope="session")
def cased(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizers") / "cased", lowercase=False)


def configs(size: str, architecture: str, vocab_size: int, **changes: object) -> tuple[EncoderConfig, EncoderConfig]:
    """(generator, discriminator) of a named size with two layers, whatever it has, so that the large one is
    cheap.
    """
    named = resolve_size(size)
    full = discriminator_config(
        named, architecture, vocab_size=vocab_size, dropout=0.1, attention_dropout=0.1, pad_id=0
    )  # type: ignore[arg-type]
    full = replace(full, **{"num_layers": 2, **changes})  # type: ignore[arg-type]
    return generator_config(full, named.generator_width, 1.0), full


def pair_of(
    size: str = "tiny", architecture: str = "electra", vocab_size: int = 400, seed: int = 1, **changes: object
) -> Pair:
    """A pair whose weights are random everywhere: biases and norms too, so that a mix-up of any two shows."""
    sharing = changes.pop("sharing", "embeddings")
    generator, discriminator = configs(size, architecture, vocab_size, **changes)
    pair = build_networks(Networks.pair(discriminator, generator), sharing=sharing, seed=seed)  # type: ignore[arg-type]
    scatter(pair, seed)
    return pair.eval()


@pytest.fixture(scope="session")
def make_pair() -> Callable[..., Pair]:
    return pair_of


def scatter(module: nn.Module, seed: int = 1) -> None:
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            scale = 0.1 if parameter.dim() == 1 else 0.05
            parameter.add_(torch.randn(parameter.shape, generator=draw) * scale)


@pytest.fixture
def export_pair(tmp_path: Path, uncased: Tokenizer) -> Callable[..., tuple[Pair, Path]]:
    """Make a pair and export both networks; returns the pair and the folder that holds discriminator/ and
    generator/.
    """

    def make(name: str = "pair", **changes: object) -> tuple[Pair, Path]:
        pair = pair_of(vocab_size=uncased.vocab_size, **changes)
        for network in (pair.main, pair.auxiliary):
            assert network is not None
            kind = "discriminator" if network is pair.main else "generator"
            export_network(tmp_path / name / kind, network, uncased, Card(kind, kind))
        return pair, tmp_path / name

    return make
