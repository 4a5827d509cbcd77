"""Exported models return bit by bit, published layouts are read, wrong folders are one-line errors."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from copies import SPECIALS, from_pickle
from published import edit, published
from safetensors.torch import load_file, save_file

from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.huggingface import exported_weights
from electra.exchange.load import load
from electra.foundation import durable
from electra.foundation.errors import AbsentNetwork, ElectraError, ModelError
from electra.model.pair import Pair

MakePair = Callable[..., Pair]
ExportPair = Callable[..., tuple[Pair, Path]]


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_export_then_load_changes_no_tensor(architecture: str, export_pair: ExportPair) -> None:
    pair, folder = export_pair(architecture=architecture)
    for kind, network in (("discriminator", pair.main), ("generator", pair.auxiliary)):
        loaded = load(folder, kind)  # type: ignore[arg-type]
        assert network is not None and loaded.kind == kind and not loaded.notes
        assert loaded.config == network.encoder.config
        mine, back = (exported_weights(each.encoder, each.head) for each in (network, loaded))
        assert mine.keys() == back.keys()
        assert [name for name in mine if not torch.equal(mine[name], back[name])] == []
        assert not loaded.encoder.training


@pytest.fixture
def given(tmp_path: Path, uncased: Tokenizer) -> Callable[..., tuple[Any, Path]]:
    """Writes a folder with transformers."""

    def make(head: str = "ForPreTraining", name: str = "ELECTRA", **changes: Any) -> tuple[Any, Path]:
        folder = tmp_path / f"{name}{head}"
        return published(name, folder, uncased, head, num_hidden_layers=2, **changes), folder

    return make


@torch.inference_mode()
def same_logits(model: Any, folder: Path, kind: Any) -> bool:
    ids = torch.randint(5, 100, (2, 9), generator=torch.Generator().manual_seed(0))
    return bool((load(folder, kind).logits(ids) - model(ids).logits).abs().max() <= 1e-5)


def test_old_names_and_extra_heads(given: Callable[..., tuple[Any, Path]]) -> None:
    """position_ids buffers, gamma and beta, the tied output layer, and a head nobody asked for."""
    model, folder = given("ForMaskedLM")
    tensors = load_file(folder / "model.safetensors")
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
        for name, t in tensors.items()
    }
    tensors["electra.embeddings.position_ids"] = torch.arange(80)[None]
    tensors["generator_lm_head.weight"] = tensors["electra.embeddings.word_embeddings.weight"].clone()
    tensors["qa_outputs.weight"] = torch.zeros(2, 24)
    save_file(tensors, folder / "model.safetensors")
    assert same_logits(model, folder, "generator")
    [note] = load(folder, "generator").notes
    assert "(qa_outputs.weight)" in note


def test_bare_encoder_and_foreign_head_serve_as_encoders(given: Callable[..., tuple[Any, Path]]) -> None:
    model, folder = given("Model")
    loaded = load(folder, "encoder")
    ids = torch.randint(5, 100, (2, 9))
    with torch.inference_mode():
        assert (loaded.encoder(ids) - model(ids).last_hidden_state).abs().max() <= 1e-5
    assert (loaded.kind, loaded.head) == ("encoder", None)
    _, folder = given()
    edit(folder, architectures=None)
    assert load(folder, "encoder").kind == "discriminator"
    _, folder = given("ForSequenceClassification")
    assert load(folder, "encoder").kind == "classifier"
    assert load(folder, "classifier").labels == ("LABEL_0", "LABEL_1")


def change(folder: Path, how: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    how(tensors)
    save_file(tensors, folder / "model.safetensors")


LAST, BIAS = "electra.encoder.layer.1.output.dense.bias", "discriminator_predictions.dense.bias"
BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "gpt2": (lambda f: edit(f, model_type="gpt2"), "gpt2 is a decoder"),
    "mra": (lambda f: edit(f, model_type="mra"), "mra attends by a CUDA kernel"),
    "decoder": (lambda f: edit(f, is_decoder=True), "is_decoder is true; only encoders"),
    "cross": (lambda f: edit(f, model_type="bert", add_cross_attention=True), "add_cross_attention is true;"),
    "tensorflow": (lambda f: (f / "model.safetensors").rename(f / "tf_model.h5"), "Convert tf_model.h5"),
    "integers": (lambda f: change(f, lambda w: w.update({BIAS: w[BIAS].char()})), BIAS),
    "complex": (lambda f: change(f, lambda w: w.update({BIAS: w[BIAS].cfloat()})), BIAS),
    "no config": (lambda f: (f / "config.json").unlink(), "config.json: no such file"),
    "not json": (lambda f: (f / "config.json").write_text("{,"), "config.json:1: not readable as JSON"),
    "a list": (lambda f: (f / "config.json").write_text("[]"), "not a JSON object"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no model.safetensors"),
    "not safetensors": (lambda f: (f / "model.safetensors").write_bytes(b"x" * 99), "model.safetensors"),
    "cut": (lambda f: os.truncate(f / "model.safetensors", 5000), "model.safetensors"),
    "no tokenizer": (lambda f: [(f / n).unlink() for n in ("tokenizer.json", "vocab.txt")], ""),
    "other shape": (lambda f: edit(f, intermediate_size=48), "has the shape [40, 24], expected [48, 24]"),
    "lost tensor": (lambda f: change(f, lambda w: w.pop(LAST)), "encoder.layer.1.output.dense.bias"),
    "not a number": (lambda f: change(f, lambda w: w[BIAS].fill_(torch.nan)), BIAS),
    "infinite": (lambda f: change(f, lambda w: w[BIAS].fill_(torch.inf)), BIAS),
    "fewer layers": (lambda f: edit(f, num_hidden_layers=1), "electra.encoder.layer.1."),
    "wrong type": (lambda f: edit(f, hidden_size="wide"), 'hidden_size is "wide", not a whole number'),
    "heads": (lambda f: edit(f, num_attention_heads=5), "heads 5"),
    "layers": (lambda f: edit(f, num_hidden_layers=200), "200 layers"),
    "part of a layer": (lambda f: edit(f, num_hidden_layers=1.7), "num_hidden_layers is 1.7, not a whole"),
    "yes positions": (lambda f: edit(f, max_position_embeddings=True), "embeddings is true, not a whole"),
    "two positions": (lambda f: edit(f, max_position_embeddings=2), "2 positions"),
    "padding": (lambda f: edit(f, pad_token_id=10**6), "padding id 1000000"),
    "labels": (lambda f: edit(f, id2label={"a": 0, "b": 1}), "id2label"),
    "no model type": (lambda f: edit(f, model_type=None), 'add "model_type": "electra"'),
    "another's tokenizer": (
        lambda f: [(f / "tokenizer.json").unlink(), (f / "vocab.txt").write_text("\n".join(SPECIALS))],
        "the tokenizer has 5 entries",
    ),
    "twins": (lambda f: edit(f, id2label={"0": "a", "1": "a"}), "id2label"),
    "no vocabulary size": (lambda f: edit(f, vocab_size=None), "vocab_size is null, not a whole number"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_wrong_folder_is_one_line(case: str, given: Callable[..., tuple[Any, Path]]) -> None:
    _, folder = given()
    breaking, message = BROKEN[case]
    breaking(folder)
    with pytest.raises(ElectraError) as caught:
        load(folder)
    assert message in str(caught.value) and str(folder) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [("ELECTRA", "ForPreTraining", "discriminator"), ("ModernBERT", "ForMaskedLM", "generator")],
)
def test_any_config_loads_or_is_a_one_line_error(
    name: str, head: str, kind: Any, given: Callable[..., tuple[Any, Path]]
) -> None:
    """Every key, every kind of wrong value: never a traceback, and no memory taken for sizes that the weights
    do not have.
    """
    _, folder = given(head, name)
    good = (folder / "config.json").read_text()
    for key in json.loads(good):
        for value in (None, -1, 7, 10**9, 10**30, float("nan"), "x", ["x"], {"x": "y"}):
            edit(folder, **{key: value})
            try:
                with torch.inference_mode():
                    load(folder, kind).logits(torch.tensor([[5, 6, 7]]))
            except ElectraError as error:
                assert "\n" not in str(error)
            (folder / "config.json").write_text(good)


def test_wrong_kind_is_one_line(given: Callable[..., tuple[Any, Path]], export_pair: ExportPair) -> None:
    _, folder = given("ForMaskedLM")
    with pytest.raises(AbsentNetwork, match="ElectraForMaskedLM"):
        load(folder)
    _, folder = given("Model")
    with pytest.raises(AbsentNetwork, match="ElectraModel"):
        load(folder, "generator")
    _, modern = export_pair(architecture="modern")
    with pytest.raises(ModelError, match="ModernBertForTokenClassification"):
        load(modern / "discriminator", "generator")
    with pytest.raises(ModelError):
        load(modern, "classifier")
    shutil.rmtree(modern / "generator")
    with pytest.raises(AbsentNetwork):
        load(modern, "generator")


@pytest.mark.parametrize("name", ["ELECTRA", "ModernBERT"])
def test_the_weights_say_that_an_output_layer_is_not_the_table(
    name: str, given: Callable[..., tuple[Any, Path]]
) -> None:
    model, folder = given("ForMaskedLM", name, tie_word_embeddings=False)
    edit(folder, tie_word_embeddings=True)
    assert same_logits(model, folder, "generator")


class Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (os.environ["PAYLOAD"],))


def test_pickles_are_not_opened(
    given: Callable[..., tuple[Any, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = given()
    (folder / "model.safetensors").unlink()
    monkeypatch.setenv("PAYLOAD", str(tmp_path / "executed"))
    for save in (lambda file: torch.save({"x": Payload()}, file), lambda file: pickle.dump(Payload(), file)):
        with open(folder / "pytorch_model.bin", "wb") as file:
            save(file)
        with pytest.raises(ModelError, match="safetensors"):
            load(folder)
        with pytest.raises(pickle.UnpicklingError):
            from_pickle.convert(folder, tmp_path / "out")
    assert not (tmp_path / "executed").exists()


def test_an_export_that_was_killed_between_two_names_is_found(
    given: Callable[..., tuple[Any, Path]], tmp_path: Path
) -> None:
    """On a file system that cannot exchange names: the new folder is whole, under its temporary name."""
    _, folder = given()
    files: dict[str, durable.Content] = {file.name: file.read_bytes() for file in folder.iterdir()}
    durable.commit_directory(tmp_path / "mine", files)
    (tmp_path / "mine").rename(tmp_path / ".tmp-mine-99999999")
    assert load(tmp_path / "mine", "discriminator").kind == "discriminator"
    assert not list(tmp_path.glob(".tmp-*"))
