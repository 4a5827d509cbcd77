"""`deepen` and `lengthen`: the layers of a trained model repeated, its positions extended."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import transformers
from driven import toy_store  # noqa: F401

import electra
from electra.exchange.convert import export
from electra.exchange.layers import deepen, keep_layers
from electra.exchange.load import load
from electra.exchange.longer import lengthen
from electra.foundation.errors import ConfigError, ModelError
from electra.testing import small

OLD, NEW = 24, 60


def windowed(folder: Path, layers: int) -> Path:
    """A published ModernBERT with a window in every second layer."""
    shape = {"vocab_size": 30, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    specials = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    config = transformers.ModernBertConfig(
        **shape, **specials, num_hidden_layers=layers, max_position_embeddings=OLD, local_attention=8,
        global_attn_every_n_layers=2,
    )  # fmt: skip
    folder.mkdir()
    small.tokenizer(folder).save(folder)
    transformers.ModernBertModel(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("architecture", ["electra", "modern"])
@pytest.mark.parametrize("kind", ["discriminator", "generator"])
def test_every_layer_is_repeated(kind: str, architecture: str, tmp_path: Path) -> None:
    before = load(small.write_pair(tmp_path / "pair", architecture), kind)  # type: ignore[arg-type]
    layers = before.config.num_layers
    after = deepen(before, 3 * layers)
    shallow, deep = before.encoder.state_dict(), after.encoder.state_dict()
    for name in deep:
        parts = name.split(".")
        if parts[0] == "layers":
            parts[1] = str(int(parts[1]) % layers)
        if (same := ".".join(parts)) in shallow:
            assert torch.equal(deep[name], shallow[same]), name
        else:  # the first layer has no norm before its attention, its copies have
            assert "attention_norm" in name and parts[1] == "0" and torch.all(deep[name] == 1)
    assert after.config.num_layers == 3 * layers and after.head is before.head


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_positions_are_extended(architecture: str, tmp_path: Path) -> None:
    before = load(small.write_pair(tmp_path / "pair", architecture))
    after = lengthen(before, NEW)
    there, here = before.encoder.state_dict(), after.encoder.state_dict()
    for name in there.keys() - {"embeddings.positions.weight"}:
        assert torch.equal(there[name], here[name]), name
    ids = torch.arange(5, 5 + 3 * 20).reshape(3, 20) % before.config.vocab_size
    if architecture == "electra":
        with torch.no_grad():
            assert torch.equal(before.encoder(ids), after.encoder(ids)), (
                "a text that fitted is read as before"
            )
        table = here["embeddings.positions.weight"]
        assert torch.equal(table[OLD : 2 * OLD], table[:OLD])
        assert torch.equal(table[2 * OLD :], table[: NEW - 2 * OLD])
    else:
        d = before.config.hidden_size // before.config.num_heads
        old, new = before.config.rope_theta, after.config.rope_theta
        slowest = [theta ** -((d - 2) / d) * length for theta, length in ((old, OLD), (new, NEW))]
        assert new > old and math.isclose(*slowest, rel_tol=1e-6), "turned as far at the end as before"


def test_transformers_reads_what_was_reshaped_alike(tmp_path: Path) -> None:
    before = load(windowed(tmp_path / "published", 4), "encoder")
    after = lengthen(deepen(before, 8), NEW)
    assert after.config.window_theta == before.config.window_theta
    export(after, tmp_path / "out", "somebody/model", summary="Made deeper and longer.")
    reference = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(5, 21, (2, NEW), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(reference(ids).last_hidden_state, after.encoder(ids), atol=1e-5)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "Made deeper and longer." in card and "base_model: somebody/model" in card and "auc" not in card


def test_other_numbers_are_refused(tmp_path: Path) -> None:
    model = load(small.write_pair(tmp_path / "pair"))
    has = model.config.num_layers
    for layers in (0, has, 2 * has + 1, 100_000):
        with pytest.raises(ConfigError):
            deepen(model, layers)
    for length in (OLD, 9_999_999):
        with pytest.raises(ConfigError):
            lengthen(model, length)
    odd = load(windowed(tmp_path / "windows", 3), "encoder")
    with pytest.raises(ModelError):
        deepen(odd, 6)
    with pytest.raises(ModelError):
        keep_layers(odd, (0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["rtd", "mlm"])
def test_it_is_trained_further(objective: str, toy_store: Path, tmp_path: Path) -> None:  # noqa: F811
    tiny = {"training.length": 16, "training.batch_size": 4, "evaluation.rows": 4, "training.threads": 1}
    shape = {
        "model.encoder": "modern",
        "model.layers": 1,
        "model.hidden_size": 16,
        "training.warmup_steps": 1,
    }
    chosen = tiny | {"objective.name": objective}
    run = electra.pretrain(
        toy_store, out=tmp_path / "run", budget="2steps", overrides=chosen | shape, recipe="tiny"
    )
    for network in ("discriminator", "generator") if objective == "rtd" else ("generator",):
        longer = lengthen(deepen(load(run.path, network), 2), 700)  # type: ignore[arg-type]
        export(longer, tmp_path / "deeper" / network, run.path)
    init = {"init" if objective == "rtd" else "init_generator": tmp_path / "deeper"}
    rows = chosen | {"training.length": 600}
    on = electra.pretrain(toy_store, out=tmp_path / "on", budget="1steps", overrides=rows, **init)  # type: ignore[arg-type]
    assert on.status == "finished" and electra.load(on).encoder.config.num_layers == 2
