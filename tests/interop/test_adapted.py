"""Encoders that transformers runs: the adapter gives its states, and everything else works as with ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from published import ADAPTED, TOLERANCE, published, rows

import electra
from electra.data.tokenizer import Tokenizer
from electra.exchange.convert import export
from electra.exchange.layers import keep_layers
from electra.exchange.load import load
from electra.foundation.errors import ConfigError, ModelError
from electra.inference.filling import fill
from electra.model.adapted import AdaptedEncoder, settings_of
from electra.model.hidden import hidden_states
from electra.pages import figures

TEXT = "the chef cooked the meal. the chef ate the meal and the cafe.\n"
TINY = {
    "training.length": 24,
    "training.batch_size": 4,
    "training.checkpoint_every": 2,
    "evaluation.rows": 4,
    "training.threads": 1,
    "model.dropout": 0.1,
    "model.attention_dropout": 0.1,
}
every = pytest.mark.parametrize("name", ADAPTED)


@pytest.fixture(scope="module")
def folders(uncased: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Each architecture's folder, with a masked language model where there is one, and the model."""
    made = {}
    for name in ADAPTED:
        folder = tmp_path_factory.mktemp("adapted") / "given"
        made[name] = folder, published(name, folder, uncased, "ForMaskedLM")
    return made


@pytest.fixture(scope="module")
def store(folders: dict[str, tuple[Path, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text in the vocabulary that all of them have."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(TEXT[number % 20 :] for number in range(60)))
    tokenizer = folders["MPNet"][0]
    electra.prepare(folder / "text.txt", out=folder / "store", tokenizer=tokenizer, progress="quiet")
    return folder / "store"


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "missing", lambda: "without figures")  # figures take seconds


@every
@torch.inference_mode()
def test_states_and_logits_are_those_of_transformers(name: str, folders: Any, tmp_path: Path) -> None:
    """Padded, full and packed rows, every layer, the head, and the folders that we write."""
    given, reference = folders[name]
    ids, real, document_ids = rows(reference.config.pad_token_id)
    outputs = reference(input_ids=ids, attention_mask=real.long(), output_hidden_states=True)
    loaded = load(given, "generator")
    assert isinstance(loaded.encoder, AdaptedEncoder) and "transformers" in loaded.notes[0]
    states = hidden_states(loaded.encoder, ids, document_ids)
    assert len(states) == loaded.config.num_layers + 1
    for ours, theirs in zip(states, outputs.hidden_states, strict=True):
        assert (ours - theirs)[real].abs().max() <= TOLERANCE
    assert (loaded.logits(ids, document_ids) - outputs.logits)[real].abs().max() <= TOLERANCE
    assert (loaded.encoder(ids[:1]) - states[-1][:1]).abs().max() <= TOLERANCE
    first, second = ids[:1, :13], ids[:1, 9:70]
    packed = loaded.encoder(torch.cat([first, second], 1), None, torch.tensor([[0] * 13 + [1] * 61]))
    apart = torch.cat([loaded.encoder(first), loaded.encoder(second)], 1)
    assert (packed - apart).abs().max() <= TOLERANCE
    for network, auto in (("generator", "ModelForMaskedLM"), ("encoder", "Model")):
        whole = load(given, network)  # type: ignore[arg-type]
        export(whole, tmp_path / network, "x")
        again, report = getattr(transformers, f"Auto{auto}").from_pretrained(
            tmp_path / network, output_loading_info=True
        )
        missing = [key for key in report["missing_keys"] if "pooler" not in key]
        assert not missing and (network == "encoder" or not report["unexpected_keys"])
        answer = again.eval()(input_ids=ids, attention_mask=real.long())[0]
        expected = outputs.logits if network == "generator" else outputs.hidden_states[-1]
        assert (answer - expected)[real].abs().max() <= TOLERANCE
        ours = load(tmp_path / network, "encoder").encoder(ids, document_ids=document_ids)
        assert (ours - states[-1])[real].abs().max() <= TOLERANCE


@every
def test_a_text_is_embedded_filled_and_read_in_another_vocabulary(
    name: str, folders: Any, uncased: Tokenizer, tmp_path: Path
) -> None:
    given, reference = folders[name]
    model = electra.load(given)
    ids = torch.tensor([uncased.encode("the chef ate").ids])
    with torch.no_grad():
        expected = reference.base_model(input_ids=ids)[0][0].mean(0)
        [[[slot]]] = fill(model.language_model, ["the chef [MASK]"], top=1)
        masked = torch.tensor([[*uncased.encode("the chef").ids[:-1], uncased.specials.mask, ids[0, -1]]])
        top = reference(input_ids=masked).logits[0, -2].softmax(-1).max(0)
    assert np.allclose(model.embed("the chef ate"), expected, atol=TOLERANCE)
    assert slot.p == pytest.approx(float(top.values), abs=TOLERANCE)
    fewer = keep_layers(model.encoder, (0, 2))
    assert fewer.config.num_layers == 2 and len(hidden_states(fewer.encoder, ids)) == 3
    assert len(electra.load(given).detect("the chef")[0].words) == 2  # by the masked language model


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "DeBERTa")) for name in ADAPTED],
)
def test_a_run_resumes_with_the_same_bits(name: str, folders: Any, store: Path, tmp_path: Path) -> None:
    given, _ = folders[name]
    options = TINY | {"model.sharing": "disentangled" if name == "DeBERTa" else "embeddings"}
    for out, budgets in (("whole", (4,)), ("parts", (2, 4))):
        for steps in budgets:
            run = electra.pretrain(
                store, out=tmp_path / out, recipe="continue", init_discriminator=given, progress="quiet",
                overrides=options | {"training.schedule": "wsd"}, budget="4steps",
            )  # fmt: skip
            if steps < 4:  # as if it had been killed after its first checkpoint
                for last in sorted((tmp_path / out / "checkpoints").iterdir())[1:]:
                    shutil.rmtree(last)
                shutil.rmtree(tmp_path / out / "discriminator")
                (tmp_path / out / "examples.json").unlink()
    first, second = (load(tmp_path / out, "discriminator") for out in ("whole", "parts"))
    assert isinstance(first.encoder, AdaptedEncoder) and run.status == "finished"
    for (key, one), other in zip(
        first.encoder.state_dict().items(), second.encoder.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other), key
    started = load(given, "encoder").encoder.state_dict()
    assert any(not torch.equal(value, started[key]) for key, value in first.encoder.state_dict().items())
    exported = electra.load(run).export(tmp_path / "exported", dtype="int8")
    [before], [after] = electra.load(run).detect(["the chef ate"]), exported.detect(["the chef ate"])
    assert [word.p_replaced for word in before.words] == pytest.approx(
        [word.p_replaced for word in after.words], abs=0.02
    )


@pytest.mark.parametrize("name", ["MPNet", pytest.param("ALBERT", marks=pytest.mark.slow)])
def test_it_teaches_and_is_fine_tuned(name: str, folders: Any, store: Path, tmp_path: Path) -> None:
    given, _ = folders[name]
    table = tmp_path / "table.csv"
    lines = [
        f"the chef {'the ' * number}{'ate' if number % 2 else 'cooked'},{'yes' if number % 2 else 'no'}"
        for number in range(40)
    ]
    table.write_text("text,label\n" + "\n".join(lines) + "\n")
    tuned = electra.finetune(
        given, task="classification", data=table, out=tmp_path / "tuned", epochs=1, seeds=1, progress="quiet"
    )
    before = tuned.predict(["the chef ate"])
    again = electra.predict(tmp_path / "tuned" / "model", "the chef ate")
    assert before[0].items() >= again.records()[0].items() - {("text", "the chef ate")}
    run = electra.distil(
        given, store, out=tmp_path / "student", budget="2steps", progress="quiet",
        overrides=TINY | {"model.layers": 1, "model.hidden_size": 32},
    )  # fmt: skip
    assert run.status == "finished"


def test_our_own_folders_need_no_transformers() -> None:
    code = (
        "import sys, electra; electra.load('tiny-en').detect('a cat'); print('transformers' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        .stdout.strip()
        .endswith("False")
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "gpt2"}, "decoder"),
        ({"model_type": "vit"}, "texts"),
        ({"model_type": "t5"}, "texts"),
        ({"model_type": "mine", "auto_map": {"AutoModel": "mine.Model"}}, "code"),
        ({"vocab_size": 1 << 40}, "range"),
        ({"dim": "x"}, "transformers cannot build"),
        ({"is_decoder": True}, "is_decoder"),
        ({"quantization_config": {"quant_method": "mine"}}, "quantized"),
    ],
)
def test_what_is_no_encoder_is_refused_in_one_line(
    change: dict[str, Any], named: str, folders: Any, tmp_path: Path
) -> None:
    shutil.copytree(folders["DistilBERT"][0], tmp_path / "x")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    (tmp_path / "x" / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ModelError, match=named) as refused:
        load(tmp_path / "x", "encoder")
    assert "\n" not in str(refused.value)


def test_code_that_a_config_names_is_left_out(folders: Any, tmp_path: Path) -> None:
    shutil.copytree(folders["DistilBERT"][0], tmp_path / "x")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    (tmp_path / "x" / "config.json").write_text(json.dumps(config | {"attn_implementation": "eager"}))
    encoder = load(tmp_path / "x", "encoder").encoder
    assert "implementation" not in encoder.config.settings
    sneaked = replace(encoder.config, settings=json.dumps(config | {"attn_implementation": "owner/kernel"}))
    assert settings_of(sneaked)._attn_implementation != "owner/kernel"


def test_what_the_adapter_lacks_is_refused(folders: Any, store: Path, tmp_path: Path) -> None:
    given, _ = folders["DistilBERT"]
    with pytest.raises(ModelError, match="optimum"):
        electra.load(given).export_onnx(tmp_path / "graph")
    with pytest.raises(ConfigError, match="share"):
        electra.pretrain(
            store, out=tmp_path / "run", recipe="continue", init_discriminator=given, progress="quiet",
            overrides=TINY | {"model.sharing": "all"}, budget="1steps",
        )  # fmt: skip
    with pytest.raises(ModelError, match="head of a masked language model"):
        electra.pretrain(
            store, out=tmp_path / "two", recipe="continue", init=given, progress="quiet",
            overrides=TINY | {"objective.name": "mlm"}, budget="1steps",
        )  # fmt: skip
