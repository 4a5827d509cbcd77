"""DeBERTa-v2 and -v3 folders in both directions, with the states and logits of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from copies import from_pickle
from published import LENGTH, SIZES, TOLERANCE, V3, loaded_again, published, rows
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from transformers.initialization import no_init_weights

import electra
from electra.artifacts.model import WEIGHTS
from electra.data.tokenizer import Tokenizer
from electra.exchange.card import Card
from electra.exchange.convert import export
from electra.exchange.huggingface import write_model
from electra.exchange.load import load
from electra.exchange.warm_start import load_weights_into
from electra.exchange.weight_names import from_transformers
from electra.foundation.config import RECIPES
from electra.model import flops
from electra.model.pair import Pair, build_encoder, build_pair
from electra.model.precision import device_kind
from electra.model.sizes import EncoderConfig, discriminator_config, generator_config, resolve_size
from electra.testing import toy
from electra.training.recipe import make_recipe, read_recipe

LAST = "DeBERTa, v3"


@pytest.mark.parametrize("accelerator", [False, True])
@pytest.mark.parametrize("name", ["v3", "own projections", "content to position", "position to content"])
def test_gradients_are_those_of_transformers(
    name: str, accelerator: bool, uncased: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with the large products of an accelerator, here on the CPU."""
    reference = published(f"DeBERTa, {name}", tmp_path, uncased)
    ours = load(str(tmp_path), "encoder").encoder
    kind = replace(device_kind(torch.device("cpu")), own_memory=accelerator)
    monkeypatch.setattr("electra.model.deberta.device_kind", lambda tensor: kind)
    ids, real, document_ids = rows()
    weights = torch.randn(*ids.shape, SIZES["hidden_size"]) * real[..., None]
    (ours(ids, document_ids=document_ids) * weights).sum().backward()
    (reference(ids, attention_mask=real.long()).last_hidden_state * weights).sum().backward()
    tensors = {f"deberta.{n}": p.grad for n, p in reference.named_parameters()}
    template = {f"encoder.{n}": p for n, p in ours.state_dict().items()}
    expected, _ = from_transformers(tensors, template, "deberta", "encoder", "memory")
    for parameter, tensor in ours.named_parameters():
        assert tensor.grad is not None
        torch.testing.assert_close(tensor.grad, expected[f"encoder.{parameter}"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("ForSequenceClassification", "classifier"),
        ("ForTokenClassification", "tagger"),
        ("ForQuestionAnswering", "reader"),
    ],
)
@torch.inference_mode()
def test_fine_tuned_heads_both_ways(head: str, kind: Any, uncased: Tokenizer, tmp_path: Path) -> None:
    from electra.finetuning.heads.parts.contract import HeadShape
    from electra.finetuning.runner.finetuned_model import build_head
    from electra.finetuning.windows.features import Batch

    outputs = 2 if kind == "reader" else 3
    reference = published(LAST, tmp_path / "given", uncased, head, num_labels=outputs)
    ids, real, document_ids = rows()
    actual = reference(input_ids=ids, attention_mask=real.long())
    expected = (
        actual.logits if kind != "reader" else torch.stack([actual.start_logits, actual.end_logits], -1)
    )
    loaded = load(tmp_path / "given", kind)
    ours = build_head("transformers", HeadShape(kind, loaded.config, outputs), 0).eval()
    ours.load_state_dict(loaded.head_weights)
    batch = Batch(torch.arange(3).numpy(), ids, torch.zeros_like(ids), document_ids, None)
    logits = ours(loaded.encoder(ids, document_ids=document_ids), batch)
    at = slice(None) if kind == "classifier" else real
    assert (logits - expected)[at].abs().max() <= TOLERANCE
    labels = loaded.labels if kind != "reader" else ()
    given_to = {"kind": kind, "labels": labels, "tokenizer": uncased, "card": Card("x", kind)}
    write_model(tmp_path / "ours", loaded.encoder, ours, **given_to)
    actual = loaded_again(tmp_path / "ours", f"Model{head}")(input_ids=ids, attention_mask=real.long())
    again = actual.logits if kind != "reader" else torch.stack([actual.start_logits, actual.end_logits], -1)
    assert (again - expected)[at].abs().max() <= TOLERANCE


def with_both_heads(folder: Path, uncased: Tokenizer) -> dict[str, torch.Tensor]:
    """A folder as Microsoft publishes version 3: both heads beside one encoder, no name of a class."""
    published(LAST, folder, uncased, "ForMaskedLM", legacy=False)
    tensors, draw = load_file(folder / WEIGHTS), torch.Generator().manual_seed(3)
    shapes = {"dense.weight": (24, 24), "dense.bias": (24,), "classifier.weight": (1, 24)}
    shapes |= {"classifier.bias": (1,), "LayerNorm.weight": (24,), "LayerNorm.bias": (24,)}
    for name, shape in shapes.items():
        tensors[f"mask_predictions.{name}"] = 0.2 * torch.randn(shape, generator=draw)
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.pop("architectures")
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


@torch.inference_mode()
def test_a_published_discriminator_detects(uncased: Tokenizer, tmp_path: Path) -> None:
    """Its head by the definition of the published code: LayerNorm(first + state), dense, gelu, one number."""
    tensors = with_both_heads(tmp_path / "given", uncased)
    ids, real, document_ids = rows()
    model = transformers.DebertaV2Model.from_pretrained(tmp_path / "given").eval()
    states = model(input_ids=ids, attention_mask=real.long()).last_hidden_state
    w = {name.removeprefix("mask_predictions."): tensor for name, tensor in tensors.items()}
    normed = F.layer_norm(states + states[:, :1], (24,), w["LayerNorm.weight"], w["LayerNorm.bias"], 1e-7)
    dense = F.gelu(F.linear(normed, w["dense.weight"], w["dense.bias"]))
    expected = F.linear(dense, w["classifier.weight"], w["classifier.bias"]).squeeze(-1)
    loaded = load(tmp_path / "given", "discriminator")
    assert (loaded.logits(ids, document_ids) - expected)[real].abs().max() <= TOLERANCE
    generator = load(tmp_path / "given", "generator")
    reference = transformers.DebertaV2ForMaskedLM.from_pretrained(tmp_path / "given").eval()
    logits = reference(input_ids=ids, attention_mask=real.long()).logits
    assert (generator.logits(ids, document_ids) - logits)[real].abs().max() <= TOLERANCE

    packed = loaded.encoder(
        torch.cat([ids[:1, :40], ids[:1, :30]], 1),
        torch.cat([torch.arange(40), torch.arange(30)])[None],
        torch.tensor([[0] * 40 + [1] * 30]),
    )
    places = torch.cat([torch.arange(40), torch.arange(30)])[None]
    assert loaded.head is not None
    apart = [loaded.logits(ids[:1, :40]), loaded.logits(ids[:1, :30])]
    assert (loaded.head(packed, places) - torch.cat(apart, 1)).abs().max() <= TOLERANCE


@torch.inference_mode()
def test_a_mask_decoder_runs_the_last_layer_twice_over_positions(uncased: Tokenizer, tmp_path: Path) -> None:
    """Compares with the definition, computed with the layers of transformers."""
    reference = published(LAST, tmp_path, uncased, "ForMaskedLM", legacy=False)
    tensors = load_file(tmp_path / WEIGHTS)
    places = torch.randn(80, 24, generator=torch.Generator().manual_seed(2))
    tensors["deberta.embeddings.position_embeddings.weight"] = places
    save_file(tensors, tmp_path / WEIGHTS, {"format": "pt"})
    loaded = load(tmp_path, "generator")
    ids, real, document_ids = rows()
    layers = reference.deberta.encoder
    actual = reference.deberta(input_ids=ids, attention_mask=real.long(), output_hidden_states=True)
    before = actual.hidden_states[-2]
    queries, mask = before + places[:LENGTH], layers.get_attention_mask(real.long())
    for _ in range(2):
        queries, _ = layers.layer[-1](
            before, mask, query_states=queries, relative_pos=layers.get_rel_pos(before),
            rel_embeddings=layers.get_rel_embedding(),
        )  # fmt: skip
    assert (loaded.encoder(ids, document_ids=document_ids) - queries)[real].abs().max() <= TOLERANCE
    export(load(tmp_path, "generator"), tmp_path / "ours" / "generator", "x")
    again = load(tmp_path / "ours" / "generator", "generator")
    assert again.config == loaded.config and again.config.mask_decoder
    assert torch.equal(again.logits(ids, document_ids), loaded.logits(ids, document_ids))
    loaded_again(tmp_path / "ours" / "generator", "ModelForMaskedLM")
    assert not load(tmp_path, "encoder").config.mask_decoder or load(tmp_path, "encoder").kind == "generator"


def test_a_pair_as_microsoft_publishes_it_is_converted(
    uncased: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pickles of both networks in one folder, whose config.json describes the discriminator."""
    tensors = with_both_heads(tmp_path / "given", uncased)
    (tmp_path / "given" / WEIGHTS).unlink()
    torch.save(tensors, tmp_path / "given" / "pytorch_model.bin")
    small = {name: tensor for name, tensor in tensors.items() if ".layer.2." not in name}
    small = {name: tensor for name, tensor in small.items() if not name.startswith("mask_predictions")}
    small["deberta.embeddings.position_embeddings.weight"] = torch.randn(80, 24)
    torch.save(small, tmp_path / "given" / "pytorch_model.generator.bin")
    monkeypatch.setattr("sys.argv", ["", str(tmp_path / "given"), "--out", str(tmp_path / "pair")])
    from_pickle.main()
    judge, writer = (load(tmp_path / "pair", kind) for kind in ("discriminator", "generator"))  # type: ignore[arg-type]
    assert (judge.config.num_layers, judge.config.mask_decoder) == (3, False)
    assert (writer.config.num_layers, writer.config.mask_decoder) == (2, True)
    pair = build_pair(judge.config, writer.config, sharing="disentangled").eval()
    load_weights_into(pair, discriminator=tmp_path / "pair", generator=tmp_path / "pair", tokenizer=uncased)
    ids, _, document_ids = rows()
    assert pair.auxiliary is not None
    with torch.inference_mode():
        logits = pair.auxiliary.logits(pair.auxiliary.encoder(ids, document_ids=document_ids))
        assert torch.allclose(logits, writer.logits(ids, document_ids), atol=TOLERANCE)


@torch.inference_mode()
def test_exports_of_a_pair_load_in_transformers(export_pair: Callable[..., tuple[Pair, Path]]) -> None:
    """A narrow generator, and embeddings that were a sum."""
    pair, folder = export_pair(architecture="deberta", sharing="disentangled")
    ids, real, document_ids = rows()
    for kind, head in (("discriminator", "Model"), ("generator", "ForMaskedLM")):
        model = getattr(transformers, f"DebertaV2{head}").from_pretrained(folder / kind).eval()
        actual = model(input_ids=ids, attention_mask=real.long())[0]
        hidden = pair.named[kind].encoder(ids, document_ids=document_ids)
        expected = hidden if kind == "discriminator" else pair.named[kind].logits(hidden)
        assert (actual - expected)[real].abs().max() <= TOLERANCE
    assert electra.load(folder).detect(["the chef cooked the meal"])[0].words


def products(model: torch.nn.Module, length: int, device: str) -> int:
    """The operations of matrix products that torch counts for one more row: what a batch shares drops out."""
    model.requires_grad_(False)
    counted = []
    for count in (1, 2):
        with FlopCounterMode(display=False) as counter:
            model(torch.zeros(count, length, dtype=torch.long, device=device))
        counted.append(counter.get_total_flops())
    return counted[1] - counted[0]


@pytest.mark.parametrize(
    ("recipe", "layers", "backbone"), [("deberta-v3-small", 6, 44e6), ("deberta-v3-base", 12, 86e6)]
)
def test_recipes_have_the_published_sizes(
    recipe: str, layers: int, backbone: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parameters of transformers, the published millions, the operations that torch counts."""
    from electra.training.networks import network_table

    sections = read_recipe(RECIPES / f"{recipe}.toml")
    output = make_recipe(sections)
    store = replace(toy.store(), vocab_size=output.tokenizer.vocab_size)
    networks = network_table(output.model, store, toy.objective("rtd"))
    full, small = networks.main, networks.auxiliary
    assert small is not None and (full.num_layers, small.num_layers) == (layers, layers // 2)
    assert full.hidden_size == small.hidden_size and small.mask_decoder and not full.mask_decoder
    with torch.device("meta"), no_init_weights():
        reference = transformers.DebertaV2Model(
            transformers.DebertaV2Config(
                **V3 | {"position_buckets": 256}, vocab_size=128_100, hidden_size=768,
                num_attention_heads=12, intermediate_size=3072, num_hidden_layers=layers,
                pad_token_id=None,  # else it looks for padding, and there are no values to look at
            )
        ).eval()  # fmt: skip
        ours = build_encoder(full)
    size = sum(parameter.numel() for parameter in ours.parameters())
    assert size == reference.num_parameters()
    assert abs(size - 128_100 * 768 - backbone) < 1.2e6, "as the model cards say"

    length = output.training.length
    counted, in_blocks = products(reference, length, "meta"), layers * flops.product_flops(full, length)
    monkeypatch.setattr(flops, "DISTANCE_BLOCK", 1)  # transformers scores 512 distances, not those of a block
    assert layers * flops.product_flops(full, length) == pytest.approx(counted, rel=1e-3)
    assert counted < in_blocks < 1.012 * counted


@pytest.mark.parametrize("length", [48, 128])
def test_operations_are_those_that_torch_counts(length: int) -> None:
    config = discriminator_config(
        resolve_size("tiny", 2), "deberta", vocab_size=60, dropout=0.1, attention_dropout=0.1, pad_id=0
    )
    counted = products(build_encoder(config).eval(), length, "cpu")
    assert counted == config.num_layers * flops.product_flops(config, length)


def test_a_generator_keeps_the_table_and_narrows() -> None:
    config = EncoderConfig("deberta", 60, 32, 32, 2, 2, 64, norm_eps=1e-7, num_token_types=0)
    narrow = generator_config(config, 0.5, 1.0)
    assert (narrow.embedding_size, narrow.hidden_size) == (32, 16)
    with torch.inference_mode():
        assert build_encoder(narrow)(torch.zeros(1, 7, dtype=torch.long)).shape == (1, 7, 16)
