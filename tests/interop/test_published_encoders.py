"""Published encoders in folders of transformers: equal states after loading and exporting again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import electra
from electra.artifacts.model import WEIGHTS
from electra.data.tokenizer import Tokenizer
from electra.exchange.card import Card
from electra.exchange.convert import export
from electra.exchange.huggingface import write_model
from electra.exchange.load import load
from electra.exchange.warm_start import load_main, load_weights_into
from electra.foundation.errors import ModelError
from electra.inference.filling import fill
from electra.model.hidden import attention_weights
from electra.model.pair import Discriminator, Generator, Pair, build_encoder
from electra.model.sizes import generator_config

TOLERANCE = 1e-5
SIZES = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "ModernBERT": ("ModernBert", {"num_hidden_layers": 4, "local_attention": 8}),
    "ModernBERT, every second layer": (
        "ModernBert",
        {"num_hidden_layers": 5, "local_attention": 6, "global_attn_every_n_layers": 2},
    ),
    "mmBERT": (
        "ModernBert",
        {
            "num_hidden_layers": 4,
            "local_attention": 8,
            "global_rope_theta": 160_000,
            "local_rope_theta": 160_000,
        },
    ),
    "ModernBERT, a window as long as the text": (
        "ModernBert",
        {"num_hidden_layers": 4, "local_attention": 64},
    ),
    "BERT": ("Bert", {"num_hidden_layers": 2, "max_position_embeddings": 40}),
    "RoBERTa": (
        "Roberta",
        {"num_hidden_layers": 2, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1},
    ),
    "XLM-RoBERTa": (
        "XLMRoberta",
        {"num_hidden_layers": 2, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1},
    ),
}


def published(name: str, folder: Path, uncased: Tokenizer, head: str = "Model") -> Any:
    """A model of that shape with random weights, saved by transformers, with our tokenizer beside it."""
    family, options = SHAPES[name]
    torch.manual_seed(1)
    options = {"pad_token_id": 0, **SIZES, **options, "vocab_size": uncased.vocab_size}
    model = getattr(transformers, f"{family}{head}")(
        getattr(transformers, f"{family}Config")(**options)
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # away from what a fresh one has: biases of 0, norms of 1
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    uncased.save(folder)
    return model


def states(model: Any, ids: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    actual = model(input_ids=ids, attention_mask=real.long())
    return torch.as_tensor(actual.last_hidden_state)


def rows(pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(5, 100, (3, 33), generator=torch.Generator().manual_seed(0))
    real = torch.arange(33)[None] < torch.tensor([33, 20, 4])[:, None]
    return ids.masked_fill(~real, pad), real


@pytest.mark.parametrize("name", SHAPES)
@torch.inference_mode()
def test_states_are_those_of_transformers(name: str, uncased: Tokenizer, tmp_path: Path) -> None:
    reference = published(name, tmp_path / "given", uncased)
    loaded = load(tmp_path / "given", "encoder")
    ids, real = rows(reference.config.pad_token_id)
    document_ids = torch.where(real, 0, -1)
    ours = loaded.encoder(ids, document_ids=document_ids)
    expected = states(reference, ids, real)
    assert (ours - expected)[real].abs().max() <= TOLERANCE
    assert (loaded.encoder(ids[:1]) - expected[:1]).abs().max() <= TOLERANCE, "a full row needs no mask"

    write_model(
        tmp_path / "ours",
        loaded.encoder,
        None,
        kind="encoder",
        labels=(),
        tokenizer=uncased,
        card=Card("x", "encoder"),
    )
    family = "ModernBert" if SHAPES[name][0] == "ModernBert" else "Electra"
    again, report = getattr(transformers, f"{family}Model").from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (states(again.eval(), ids, real) - expected)[real].abs().max() <= TOLERANCE
    assert load(tmp_path / "ours", "encoder").config == loaded.config


@torch.inference_mode()
def test_packed_documents_have_windows_of_their_own(uncased: Tokenizer, tmp_path: Path) -> None:
    published("ModernBERT", tmp_path, uncased)
    encoder = load(tmp_path, "encoder").encoder
    ids, _ = rows(0)
    first, second = ids[:1, :13], ids[1:2, :20]
    packed = encoder(
        torch.cat([first, second], 1),
        torch.cat([torch.arange(13), torch.arange(20)])[None],
        torch.tensor([[0] * 13 + [1] * 20]),
    )
    apart = torch.cat([encoder(first), encoder(second)], 1)
    assert (packed - apart).abs().max() <= TOLERANCE


@torch.inference_mode()
def test_attention_that_is_looked_at_has_the_windows(uncased: Tokenizer, tmp_path: Path) -> None:
    published("ModernBERT", tmp_path, uncased)
    encoder = load(tmp_path, "encoder").encoder
    ids, _ = rows(0)
    far = (torch.arange(33)[:, None] - torch.arange(33)).abs() > 4
    seen = [bool(weights[..., far].any()) for weights in attention_weights(encoder, ids[:1])]
    assert seen == [True, False, False, True]


def test_the_generator_of_a_pair_has_windows_too(uncased: Tokenizer, tmp_path: Path) -> None:
    published("ModernBERT", tmp_path, uncased)
    config = generator_config(load(tmp_path, "encoder").config, width=0.5, depth=0.5)
    assert (config.num_layers, config.global_every, config.window) == (2, 3, 4)
    build_encoder(config)


def masked_logits(model: Any, ids: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(model(input_ids=ids, attention_mask=real.long())[0])[real]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("BERT", "ForMaskedLM"),
        ("BERT", "ForPreTraining"),
        ("RoBERTa", "ForMaskedLM"),
        ("XLM-RoBERTa", "ForMaskedLM"),
        ("ModernBERT", "ForMaskedLM"),
    ],
)
@torch.inference_mode()
def test_masked_language_models_are_generators(  # noqa: PLR0917
    name: str, head: str, tied: bool, uncased: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, options = SHAPES[name]
    monkeypatch.setitem(SHAPES, name, (family, {**options, "tie_word_embeddings": tied}))
    reference = published(name, tmp_path / "given", uncased, head)
    pad = reference.config.pad_token_id
    ids, real = rows(pad)
    expected = masked_logits(reference, ids, real)
    loaded = load(tmp_path / "given", "generator")
    assert (loaded.logits(ids, torch.where(real, 0, -1))[real] - expected).abs().max() <= TOLERANCE
    assert load(tmp_path / "given", "encoder").kind == "generator"

    export(load(tmp_path / "given", "generator"), tmp_path / "ours" / "generator", "x")
    kept = tmp_path / "ours" / "generator"
    assert (
        load(kept, "generator").logits(ids, torch.where(real, 0, -1))[real] - expected
    ).abs().max() <= 1e-5
    again, report = transformers.AutoModelForMaskedLM.from_pretrained(kept, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (masked_logits(again.eval(), ids, real) - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", ["BERT", "RoBERTa"])
@pytest.mark.parametrize(
    "place", ["beside the decoder", "in the decoder", "both, of which transformers decides"]
)
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
    ids, real = rows(reference.config.pad_token_id)
    actual = load(tmp_path, "generator").logits(ids, torch.where(real, 0, -1))[real]
    assert (actual - masked_logits(reference, ids, real)).abs().max() <= TOLERANCE


@torch.inference_mode()
def test_an_output_layer_without_a_bias(uncased: Tokenizer, tmp_path: Path, monkeypatch: Any) -> None:
    family, options = SHAPES["ModernBERT"]
    monkeypatch.setitem(SHAPES, "ModernBERT", (family, {**options, "decoder_bias": False}))
    reference = published("ModernBERT", tmp_path, uncased, "ForMaskedLM")
    ids, real = rows(0)
    actual = load(tmp_path, "generator").logits(ids, torch.where(real, 0, -1))[real]
    assert (actual - masked_logits(reference, ids, real)).abs().max() <= TOLERANCE


@torch.inference_mode()
def test_a_published_bert_fills_masks(uncased: Tokenizer, tmp_path: Path) -> None:
    reference = published("BERT", tmp_path, uncased, "ForMaskedLM")
    text = "the king [MASK] the cows"
    ids = torch.tensor([uncased.encode("the king").ids[:-1] + [uncased.specials.mask]])
    ids = torch.cat([ids, torch.tensor([uncased.encode("the cows").ids[1:]])], 1)
    expected = reference(input_ids=ids).logits[0, (ids[0] == uncased.specials.mask)][0].softmax(-1).topk(3)
    [[slot]] = fill(electra.load(tmp_path).language_model, [text], top=3)
    assert [candidate.p for candidate in slot] == pytest.approx(expected.values.tolist(), abs=TOLERANCE)
    assert [candidate.token for candidate in slot] == [uncased.readable(i) for i in expected.indices.tolist()]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_generator_starts_from_a_published_bert(
    tied: bool, uncased: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, options = SHAPES["BERT"]
    monkeypatch.setitem(SHAPES, "BERT", (family, {**options, "tie_word_embeddings": tied}))
    reference = published("BERT", tmp_path, uncased, "ForMaskedLM")
    config = load(tmp_path, "encoder").config
    pair = Pair(Discriminator(build_encoder(config)), Generator(build_encoder(config))).eval()
    if not tied:
        with pytest.raises(ModelError):
            load_weights_into(pair, generator=tmp_path)
        return
    load_weights_into(pair, generator=tmp_path)
    assert pair.generator is not None
    assert torch.equal(pair.generator.head.bias, reference.cls.predictions.bias)


@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForTokenClassification"])
def test_an_unused_head_of_bert_is_noted(head: str, uncased: Tokenizer, tmp_path: Path) -> None:
    published("BERT", tmp_path, uncased, head)
    loaded = load(tmp_path, "encoder")
    assert loaded.kind == "encoder" and "not used: " in loaded.notes[0]
    with pytest.raises(ModelError, match=f"Bert{head}"):
        load(tmp_path, "generator")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layer_types": ["sliding_attention"] + ["full_attention"] * 3}, "layer_types"),
        ({"local_attention": 1}, "local_attention"),
        ({"attention_bias": True}, "attention_bias"),
        ({"model_type": "funnel"}, "funnel"),
    ],
)  # fmt: skip
def test_unsupported_settings_are_named(
    changes: dict[str, Any], said: str, uncased: Tokenizer, tmp_path: Path
) -> None:
    published("ModernBERT", tmp_path, uncased)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(ModelError, match=said):
        load(tmp_path, "encoder")


@pytest.mark.parametrize("name", ["ModernBERT", "BERT", "RoBERTa"])
@torch.inference_mode()
def test_a_masked_language_model_is_trained_further_as_a_discriminator(
    name: str, uncased: Tokenizer, tmp_path: Path
) -> None:
    published(name, tmp_path, uncased)
    loaded = load_main(tmp_path)
    pair = Pair(Discriminator(build_encoder(loaded.config))).eval()
    assert "encoder" in load_weights_into(pair, discriminator=tmp_path)[0]
    ids, _ = rows(0)
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
