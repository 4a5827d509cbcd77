"""Published encoders in folders of transformers: equal states after loading and exporting again."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from published import TOLERANCE, edit, loaded_again, published, rows
from safetensors.torch import load_file, save_file

from electra.artifacts.model_files import WEIGHTS
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.configs import read_config
from electra.exchange.huggingface import export
from electra.exchange.load import load
from electra.foundation.errors import AbsentNetwork, ModelError
from electra.model.pair import Discriminator, Generator, Pair, build_encoder
from electra.training.starts import open_starts


def masked_logits(model: Any, ids: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(model(input_ids=ids, attention_mask=real.long())[0])[real]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize(
    ("name", "head", "changes"),
    [
        ("BERT", "ForMaskedLM", {}),
        ("BERT", "ForPreTraining", {}),
        ("ELECTRA", "ForMaskedLM", {}),
        ("RoBERTa", "ForMaskedLM", {}),
        ("XLM-RoBERTa", "ForMaskedLM", {}),
        ("ModernBERT", "ForMaskedLM", {}),
        ("ModernBERT", "ForMaskedLM", {"decoder_bias": False}),
    ],
)
@torch.inference_mode()
def test_masked_language_models_are_generators(  # noqa: PLR0917
    name: str, head: str, changes: dict[str, Any], tied: bool, uncased: Tokenizer, tmp_path: Path
) -> None:
    reference = published(name, tmp_path / "given", uncased, head, tie_word_embeddings=tied, **changes)
    ids, real, document_ids = rows(reference.config.pad_token_id)
    expected = masked_logits(reference, ids, real)
    loaded = load(tmp_path / "given", "generator")
    assert (loaded.logits(ids, document_ids)[real] - expected).abs().max() <= TOLERANCE
    assert load(tmp_path / "given", "encoder").kind == "generator"
    export(loaded, tmp_path / "ours", "x")
    written = load(tmp_path / "ours", "generator").logits(ids, document_ids)[real]
    assert (written - expected).abs().max() <= TOLERANCE
    again = loaded_again(tmp_path / "ours", "ModelForMaskedLM")
    assert (masked_logits(again, ids, real) - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", ["BERT", "RoBERTa"])
@pytest.mark.parametrize("place", ["beside the decoder", "in the decoder", "both"])
@torch.inference_mode()
def test_the_bias_over_the_vocabulary_in_either_place(
    name: str, place: str, uncased: Tokenizer, tmp_path: Path
) -> None:
    published(name, tmp_path, uncased, "ForMaskedLM")
    tensors = load_file(tmp_path / WEIGHTS)
    stem = "cls.predictions" if name == "BERT" else "lm_head"
    bias = next(tensors.pop(key) for key in (f"{stem}.bias", f"{stem}.decoder.bias") if key in tensors)
    tensors |= {f"{stem}.bias": bias} if place != "in the decoder" else {}
    tensors |= {f"{stem}.decoder.bias": 2 * bias} if place != "beside the decoder" else {}
    save_file(tensors, tmp_path / WEIGHTS, {"format": "pt"})
    reference = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    ids, real, document_ids = rows(reference.config.pad_token_id)
    actual = load(tmp_path, "generator").logits(ids, document_ids)[real]
    assert (actual - masked_logits(reference, ids, real)).abs().max() <= TOLERANCE


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_generator_starts_from_a_published_bert(tied: bool, uncased: Tokenizer, tmp_path: Path) -> None:
    reference = published("BERT", tmp_path, uncased, "ForMaskedLM", tie_word_embeddings=tied)
    config = load(tmp_path, "encoder").config
    pair = Pair(Discriminator(build_encoder(config)), Generator(build_encoder(config))).eval()
    if not tied:
        with pytest.raises(ModelError):
            open_starts(None, str(tmp_path)).load_into(pair)
        return
    open_starts(None, str(tmp_path)).load_into(pair)
    assert pair.generator is not None
    assert torch.equal(pair.generator.head.bias, reference.cls.predictions.bias)


@pytest.mark.parametrize("head", ["ForMultipleChoice", "ForNextSentencePrediction"])
def test_an_unused_head_of_bert_is_noted(head: str, uncased: Tokenizer, tmp_path: Path) -> None:
    published("BERT", tmp_path, uncased, head)
    loaded = load(tmp_path, "encoder")
    assert loaded.kind == "encoder" and "not used: " in loaded.notes[0] and "other." not in loaded.notes[0]
    with pytest.raises(ModelError, match=f"Bert{head}"):
        load(tmp_path, "generator")


@pytest.mark.parametrize(("key", "value"), [("local_attention", 1), ("model_type", "funnel")])
def test_unsupported_settings_are_named(key: str, value: Any, uncased: Tokenizer, tmp_path: Path) -> None:
    published("ModernBERT", tmp_path, uncased)
    edit(tmp_path, **{key: value})
    with pytest.raises(ModelError, match=f"{key}|{value}") as raised:
        read_config(tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kept", [True, False])
def test_transformers_completes_what_is_left_out(kept: bool, uncased: Tokenizer, tmp_path: Path) -> None:
    """As version 4 wrote ModernBERT, and a BERT without most of its keys."""
    published("BERT", tmp_path / "bert", uncased, num_hidden_layers=12, intermediate_size=3072)
    before = read_config(tmp_path / "bert")
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    for key in ("num_hidden_layers", "intermediate_size", "type_vocab_size", "layer_norm_eps", "id2label"):
        config.pop(key, None)
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config))
    assert read_config(tmp_path / "bert") == before
    published("mmBERT", tmp_path / "modern", uncased)
    before = read_config(tmp_path / "modern")
    config = json.loads((tmp_path / "modern" / "config.json").read_text())
    for key in ("layer_types", "rope_parameters"):
        config.pop(key)
    config |= {"global_rope_theta": 160_000, "local_rope_theta": 160_000} if kept else {}
    (tmp_path / "modern" / "config.json").write_text(json.dumps(config))
    assert (read_config(tmp_path / "modern") == before) is kept


@pytest.mark.parametrize("name", ["ModernBERT", "BERT", "RoBERTa"])
@torch.inference_mode()
def test_a_masked_language_model_is_trained_further_as_a_discriminator(
    name: str, uncased: Tokenizer, tmp_path: Path
) -> None:
    published(name, tmp_path, uncased)
    loaded = load(tmp_path, "encoder")
    pair = Pair(Discriminator(build_encoder(loaded.config))).eval()
    assert "encoder" in open_starts(str(tmp_path)).load_into(pair)[0]
    ids, _, _ = rows()
    assert torch.equal(pair.main.encoder(ids), loaded.encoder(ids))


def test_special_ids_that_contradict_the_tokenizer_are_noted(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]) + "\n")
    shape: dict[str, Any] = {"vocab_size": 8, "hidden_size": 16, "intermediate_size": 16}
    shape |= {"num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 16}
    for wrong in ({}, {"pad_token_id": 3}, {"cls_token_id": 1, "eos_token_id": 5}):
        transformers.BertModel(transformers.BertConfig(**shape, **wrong)).save_pretrained(tmp_path)
        notes = [note for note in load(tmp_path, "encoder").notes if "_token_id" in note]
        with pytest.raises(ModelError, match="BertModel"):  # its own class, not the one it is read as
            load(tmp_path, "discriminator")
        assert len(notes) == len(wrong) and all(any(key in note for note in notes) for key in wrong)


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForSequenceClassification"])
@pytest.mark.parametrize("name", ["BERT", "MPNet", "ALBERT"])
@torch.inference_mode()
def test_a_class_without_its_head_is_an_encoder(name: str, head: str, uncased: Tokenizer, tmp_path: Path) -> None:
    """all-mpnet-base-v2 names the class of the masked language model that it once was."""
    reference = published(name, tmp_path, uncased)
    edit(tmp_path, architectures=[type(reference).__name__.replace("Model", head)])
    loaded, (ids, *_) = load(tmp_path, "encoder"), rows()
    assert loaded.kind == "encoder" and loaded.head is None
    assert (loaded.encoder(ids[:1]) - reference(ids[:1]).last_hidden_state).abs().max() <= TOLERANCE
    with pytest.raises(AbsentNetwork, match="not a generator"):
        load(tmp_path, "generator")
