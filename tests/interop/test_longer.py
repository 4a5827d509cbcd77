"""electra lengthen: the same weights with positions for longer texts."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from driven import toy_store  # noqa: F401

import electra
from electra.commands.framework.main import main
from electra.exchange.load import load
from electra.testing import small, toy_task

OLD, NEW = 24, 60


@pytest.mark.parametrize("architecture", ["electra", "modern"])
def test_a_pair_gets_positions_for_longer_texts(
    architecture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = small.write_pair(tmp_path / "pair", architecture)
    assert main(["extend", str(pair), str(tmp_path / "longer"), "--length", str(NEW)]) == 0
    assert "24 to 60 tokens" in capsys.readouterr().out
    for kind in ("discriminator", "generator"):
        before, after = load(pair, kind), load(tmp_path / "longer", kind)  # type: ignore[arg-type]
        assert after.config.max_positions == NEW and after.tokenizer.digest == before.tokenizer.digest
        there, here = before.encoder.state_dict(), after.encoder.state_dict()
        for name in there.keys() - {"embeddings.positions.weight"}:
            assert torch.equal(there[name], here[name]), name
    ids = torch.arange(5, 5 + 3 * 20).reshape(3, 20) % before.config.vocab_size
    with torch.no_grad():
        short, again = before.encoder(ids), after.encoder(ids)
    if architecture == "electra":
        assert torch.equal(short, again), "a text that fitted before gives the same numbers"
        table = here["embeddings.positions.weight"]
        assert torch.equal(table[OLD : 2 * OLD], table[:OLD]) and torch.equal(
            table[2 * OLD :], table[: NEW - 2 * OLD]
        )
    else:
        d = before.config.hidden_size // before.config.num_heads
        old, new = before.config.rope_theta, after.config.rope_theta
        slowest = [theta ** -((d - 2) / d) * length for theta, length in ((old, OLD), (new, NEW))]
        assert new > old and math.isclose(*slowest, rel_tol=1e-6), "turned as far at the end as before"


def test_the_language_model_of_a_pair_is_copied(tmp_path: Path) -> None:
    pair = small.write_pair(tmp_path / "pair", "modern")
    shutil.copytree(pair / "generator", pair / "language_model")
    assert main(["extend", str(pair), str(tmp_path / "longer"), "--length", str(NEW)]) == 0
    assert main(["import", str(pair), "--out", str(tmp_path / "copy")]) == 0
    for out, length in (("longer", NEW), ("copy", OLD)):
        named_by = electra.load(tmp_path / out).language_model
        assert named_by.folder == tmp_path / out / "language_model"
        assert named_by.config.max_positions == length


def test_transformers_reads_the_longer_folder_alike(tmp_path: Path) -> None:
    """With a window in every second layer, whose rotary base stays."""
    output = transformers.ModernBertModel(
        transformers.ModernBertConfig(
            vocab_size=30,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=48,
            max_position_embeddings=OLD,
            global_attn_every_n_layers=2,
            local_attention=8,
            pad_token_id=0,
            cls_token_id=2,
            sep_token_id=3,
            bos_token_id=2,
            eos_token_id=3,
        )
    )
    output.save_pretrained(tmp_path / "published")
    small.tokenizer(tmp_path / "published").save(tmp_path / "published")
    longer = electra.lengthen(tmp_path / "published", out=tmp_path / "longer", length=NEW)
    before, after = load(tmp_path / "published", "encoder").config, longer.encoder.config
    assert after.window_theta == before.window_theta and after.rope_theta > before.rope_theta
    reference = transformers.AutoModel.from_pretrained(tmp_path / "longer").eval()
    ids = torch.randint(5, 21, (2, NEW), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(reference(ids).last_hidden_state, longer.encoder.encoder(ids), atol=1e-5)


@pytest.mark.slow
def test_a_longer_model_is_trained_and_fine_tuned(toy_store: Path, tmp_path: Path) -> None:  # noqa: F811
    tiny = {"training.length": 16, "training.batch_size": 4, "evaluation.rows": 4, "training.threads": 1}
    shape = {
        "model.encoder": "modern",
        "model.layers": 1,
        "model.hidden_size": 16,
        "training.warmup_steps": 1,
    }
    run = electra.pretrain(
        toy_store, out=tmp_path / "run", budget="2steps", overrides=tiny | shape, recipe="tiny"
    )
    longer = electra.lengthen(run, out=tmp_path / "longer", length=700)
    rows = tiny | {"training.length": 600}
    on = electra.pretrain(
        toy_store,
        out=tmp_path / "on",
        budget="1steps",
        overrides=rows,
        init_discriminator=tmp_path / "longer",
        recipe="tiny",
    )
    assert on.status == "finished" and longer.encoder.config.max_positions == 700
    data = toy_task.write_classification(tmp_path / "task", train=8, dev=4)
    tuned = electra.finetune(
        longer,
        task="sst2",
        data=data,
        out=tmp_path / "tuned",
        max_length=600,
        epochs=1,
        threads=1,
        baselines=False,
    )
    assert tuned.path.is_dir()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{pair}"], "--budget"),
        (["{pair}", "{out}", "--length", "60", "--budget", "5steps"], "--budget"),
        (["{pair}", "--length", "60"], "needs --out"),
        (["{pair}", "{out}", "--budget", "5steps"], "unexpected argument"),
        (["{pair}", "{out}", "--length", "24"], "--length: must be above the model's 24"),
        (["{pair}", "{out}", "--length", "9999999"], "at most 131,072"),
        (["{missing}", "{out}", "--length", "60"], "no such folder"),
    ],
)
def test_impossible_lengths_are_refused(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = small.write_pair(tmp_path / "pair")
    places = {"pair": pair, "out": tmp_path / "out", "missing": tmp_path / "missing"}
    assert main(["extend", *(word.format(**places) for word in words)]) == 2
    error = capsys.readouterr().err
    assert told in error.replace("\n", " ") and not (tmp_path / "out").exists()
