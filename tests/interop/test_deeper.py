"""electra deepen: the layers of a trained model are repeated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import transformers
from driven import toy_store  # noqa: F401

import electra
from electra.commands.framework.main import main
from electra.exchange.load import load
from electra.foundation.errors import ConfigError, ModelError
from electra.testing import small, toy_task


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_every_layer_is_repeated(
    architecture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = small.write_pair(tmp_path / "pair", architecture)
    has = load(pair, "discriminator").config.num_layers
    assert main(["extend", str(pair), str(tmp_path / "deeper"), "--layers", str(3 * has)]) == 0
    assert f"{has} to {3 * has} layers" in capsys.readouterr().out
    for kind in ("discriminator", "generator"):
        before, after = load(pair, kind), load(tmp_path / "deeper", kind)  # type: ignore[arg-type]
        shallow, deep = before.encoder.state_dict(), after.encoder.state_dict()
        layers = before.config.num_layers
        assert after.config.num_layers == 3 * layers
        for name in deep:
            parts = name.split(".")
            if parts[0] == "layers":
                parts[1] = str(int(parts[1]) % layers)
            if (same := ".".join(parts)) in shallow:
                assert torch.equal(deep[name], shallow[same]), name
            else:  # the first layer has no norm before its attention, its copies have
                assert "attention_norm" in name and parts[1] == "0" and torch.all(deep[name] == 1)
        assert before.head is not None and after.head is not None
        there, here = before.head.state_dict(), after.head.state_dict()
        assert all(torch.equal(here[name], there[name]) for name in there)


def test_transformers_reads_the_deeper_networks_of_a_run_alike(tmp_path: Path) -> None:
    pair = small.write_pair(tmp_path / "pair", "modern")
    shutil.copytree(pair / "generator", pair / "language_model")
    deeper = electra.deepen(
        pair, out=tmp_path / "deeper", layers=2 * load(pair, "discriminator").config.num_layers
    )
    assert deeper.language_model.config.num_layers == 2 * load(pair, "generator").config.num_layers
    reference = transformers.AutoModel.from_pretrained(tmp_path / "deeper" / "discriminator").eval()
    ids = torch.randint(5, 21, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(reference(ids).last_hidden_state, deeper.encoder.encoder(ids), atol=1e-5)


@pytest.mark.parametrize(("objective", "init"), [("rtd", "init"), ("mlm", "init_generator")])
@pytest.mark.slow
def test_it_is_trained_further(objective: str, init: str, toy_store: Path, tmp_path: Path) -> None:  # noqa: F811
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
    electra.deepen(run, out=tmp_path / "deeper", layers=2)
    on = electra.pretrain(
        toy_store,
        out=tmp_path / "on",
        budget="1steps",
        overrides=chosen,
        **{init: tmp_path / "deeper"},  # type: ignore[arg-type]
    )
    assert on.status == "finished" and electra.load(on).encoder.config.num_layers == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{pair}", "{out}", "--layers", "{has}"], "--layers: must be a multiple"),
        (["{pair}", "{out}", "--layers", "0"], "--layers: must be a multiple"),
        (["{pair}", "{out}", "--layers", "100000"], "to 1,000, not 100,000"),
        (["{pair}", "--layers", "4"], "needs --out"),
        (["{pair}", "{out}", "--layers", "4", "--length", "60"], "unknown option"),
        (["{missing}", "{out}", "--layers", "4"], "no such folder"),
        (["{windows}", "{out}", "--layers", "8"], "one layer in 3 attends to all tokens"),
    ],
)
def test_impossible_numbers_of_layers_are_refused(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = small.write_pair(tmp_path / "pair")
    sizes = {"vocab_size": 30, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    specials = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    if "{windows}" in words:
        shape = transformers.ModernBertConfig(
            num_hidden_layers=4, global_attn_every_n_layers=3, local_attention=8, **sizes, **specials
        )
        transformers.ModernBertModel(shape).save_pretrained(tmp_path / "windows")
        small.tokenizer(tmp_path / "windows").save(tmp_path / "windows")
    places = {name: tmp_path / name for name in ("out", "missing", "windows")}
    has = load(pair, "discriminator").config.num_layers
    assert main(["extend", *(word.format(**places, pair=pair, has=has) for word in words)]) == 2
    error = capsys.readouterr().err
    assert told in error.replace("\n", " ") and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_and_the_source_are_not_overwritten(
    toy_store: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny = {"training.length": 16, "training.batch_size": 4, "evaluation.rows": 4, "training.threads": 1}
    shape = {"model.encoder": "modern", "model.layers": 1, "model.hidden_size": 16}
    run = str(
        electra.pretrain(
            toy_store, out=tmp_path / "run", budget="1steps", overrides=tiny | shape, recipe="tiny"
        ).path
    )
    pair = str(small.write_pair(tmp_path / "pair"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")}
    for asked, message in (
        (["extend", run, run, "--layers", "2"], "this is the source"),
        (["extend", pair, run, "--layers", "4"], "this is a run"),
        (["import", pair, "--out", run], "this is a run"),
        (["extend", pair, f"{pair}/discriminator", "--layers", "4"], "this is the source"),
        (["extend", run, f"{pair}/discriminator", "--layers", "2"], "a model, "),
        (["extend", pair, str(tmp_path / "out"), "--layers", "4", "--store", "x"], "unknown option --store"),
    ):
        assert main(asked) == 2, asked
        assert message in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")}


def test_nothing_is_written_if_one_output_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair, out = small.write_pair(tmp_path / "pair"), tmp_path / "out"
    (out / "generator").mkdir(parents=True)
    (out / "generator" / "notes.txt").write_text("mine")
    for asked in (["extend", str(pair), str(out), "--layers", "4"], ["import", str(pair), "--out", str(out)]):
        assert main(asked) == 2
        assert "other files" in capsys.readouterr().err
        assert [path.name for path in out.iterdir()] == ["generator"]


@pytest.mark.slow
def test_the_card_has_none_of_the_old_numbers(tmp_path: Path) -> None:
    has = electra.load("tiny-en").config.num_layers
    deeper = electra.deepen("tiny-en", out=tmp_path / "deeper", layers=2 * has)
    card = (tmp_path / "deeper" / "discriminator" / "README.md").read_text()
    assert f"{has} to {2 * has} layers" in card and "auc" not in card and "base_model: tiny-en" in card
    for judge in ("discriminator", "language-model"):
        assert deeper.scorer(judge).threshold == 0.5  # type: ignore[arg-type]


def test_fine_tuned_models_and_other_lengths_are_refused(tmp_path: Path) -> None:
    model = toy_task.save_encoder(tmp_path / "model", "modern")
    data = toy_task.write_classification(tmp_path / "data", train=8, dev=4)
    electra.finetune(
        model,
        task="sst2",
        data=data,
        out=tmp_path / "tuned",
        head="linear",
        epochs=1,
        threads=1,
        baselines=False,
    )
    with pytest.raises(ModelError):
        electra.deepen(tmp_path / "tuned" / "model", out=tmp_path / "out", layers=4)
    with pytest.raises(ConfigError):
        electra.deepen(model, out=tmp_path / "out", layers=4.5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        electra.lengthen(model, out=tmp_path / "out", length="long")  # type: ignore[arg-type]
