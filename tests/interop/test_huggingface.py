"""Exported folders in transformers: all keys match, and logits, tokens and sentence embeddings are equal."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from published import TOLERANCE, loaded_again, rows

from electra.artifacts.model_files import DETECTION, FILES
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.card import Card
from electra.exchange.huggingface import export_network
from electra.foundation.errors import ModelError
from electra.model.pair import Pair

MakePair = Callable[..., Pair]
ExportPair = Callable[..., tuple[Pair, Path]]
HEADS = {
    "electra": ("ModelForPreTraining", "ModelForMaskedLM"),
    "modern": ("ModelForTokenClassification", "ModelForMaskedLM"),
}
SIZES = [
    ("tiny", "electra"),
    ("small++", "electra"),
    pytest.param("large", "electra", marks=pytest.mark.slow),
    ("tiny", "modern"),
    pytest.param("base", "modern", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("size", "architecture"), SIZES)
@torch.inference_mode()
def test_logits_are_transformers(
    size: str, architecture: str, tmp_path: Path, uncased: Tokenizer, make_pair: MakePair
) -> None:
    pair = make_pair(size, architecture, uncased.vocab_size, num_layers=1 if size == "large" else 2)
    ids, real, document_ids = rows()
    for network, head in zip((pair.main, pair.auxiliary), HEADS[architecture], strict=True):
        assert network is not None
        export_network(tmp_path, network, uncased, Card("x", "discriminator"))
        logits = loaded_again(tmp_path, head)(input_ids=ids, attention_mask=real.long()).logits
        if architecture == "modern" and network is pair.main:
            assert not logits[..., 0].any()  # of ORIGINAL
            logits = logits[..., 1]
        ours = network.logits(network.encoder(ids, document_ids=document_ids))
        assert (ours - logits.view_as(ours))[real].abs().max() <= TOLERANCE
        full = network.logits(network.encoder(ids[:1]))
        assert (full - logits.view_as(ours)[:1]).abs().max() <= TOLERANCE, "a full row needs no mask"


@pytest.mark.parametrize("architecture", ["electra", "modern"])
@pytest.mark.parametrize("case", ["cased", "uncased"])
def test_tokenizer_is_read_as_it_is(
    case: str, architecture: str, tmp_path: Path, make_pair: MakePair, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(case)
    network = make_pair("tiny", architecture, tokenizer.vocab_size).main
    assert network is not None
    export_network(tmp_path, network, tokenizer, Card("x", "discriminator"))
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("The Chef cooked", "Caf\u00e9 CAFE caf\u00e9", "a\u6f22\u5b57b \ud55c", "x\u0000y \u2603"):
        assert reference(text)["input_ids"] == list(tokenizer.encode(text).ids)
    assert reference.model_max_length == network.encoder.config.max_positions
    assert ("token_type_ids" in reference("a", "b")) == (architecture == "electra")
    if architecture == "electra":
        assert reference("the meal", "the chef")["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]
    assert reference.pad_token_id == tokenizer.specials.pad
    assert reference.mask_token_id == tokenizer.specials.mask


def test_config_carries_everything(export_pair: ExportPair) -> None:
    """transformers' own reading of our file, saved again, differs in nothing that shapes the model."""
    for architecture in ("electra", "modern"):
        _, folder = export_pair(architecture, architecture=architecture)
        for name in ("discriminator", "generator"):
            written = json.loads((folder / name / "config.json").read_text())
            reference = transformers.AutoConfig.from_pretrained(folder / name).to_dict()
            differing = {key: value for key, value in written.items() if reference.get(key, value) != value}
            assert differing in ({}, IDS_AS_TEXT)


# JSON's keys are text, transformers' are numbers.
IDS_AS_TEXT = {"id2label": {"0": "ORIGINAL", "1": "REPLACED"}}


def test_folder_is_whole_and_holds_nothing_else(export_pair: ExportPair, make_pair: MakePair) -> None:
    _, folder = export_pair()
    files = (file for file in (folder / "discriminator").rglob("*") if file.is_file())
    assert {str(file.relative_to(folder / "discriminator")) for file in files} == {*FILES} - {DETECTION}
    with pytest.raises(ModelError, match=r"notes\.txt"):
        (folder / "discriminator" / "notes.txt").write_text("mine")
        pair = make_pair(vocab_size=400)
        export_network(folder / "discriminator", pair.main, None, Card("x", "discriminator"))  # type: ignore[arg-type]


def test_tokenizer_must_fit_the_model(tmp_path: Path, uncased: Tokenizer, make_pair: MakePair) -> None:
    network = make_pair(vocab_size=uncased.vocab_size - 1).main
    assert network is not None
    with pytest.raises(ModelError):
        export_network(tmp_path / "new", network, uncased, Card("x", "discriminator"))
    assert not (tmp_path / "new").exists()


def test_same_network_same_bytes(export_pair: ExportPair) -> None:
    folders = [export_pair(f"copy-{number}")[1] / "generator" for number in range(3)]
    for name in {*FILES} - {DETECTION}:
        assert len({(folder / name).read_bytes() for folder in folders}) == 1, name
