"""The examples pass the tests that ours pass, and run."""

import json
from pathlib import Path
from typing import Any, ClassVar

import driven
import numpy as np
import pytest
from contracts import toy_task
from contracts.probes import ProbeContract
from contracts.tasks import TaskContract
from sklearn.metrics import cohen_kappa_score

import electra
import electra.testing
from electra import objectives
from electra.commands.framework.main import main
from electra.exchange.load import load
from electra.finetuning.heads.parts.contract import HeadShape
from electra.foundation.config import read_toml
from electra.foundation.extensions import HEADS, OBJECTIVES, TASKS, trust
from electra.laboratory.ablation.study import arm_recipe, read_study
from electra.testing import toy

EXAMPLES = Path(__file__).parents[2] / "examples"


class TestTheObjective(electra.testing.ObjectiveContract):
    objective = EXAMPLES / "shuffled_tokens.py"


class TestTheProbe(ProbeContract):
    probe = EXAMPLES / "typos.py"
    options: ClassVar = {"resamples": 40, "fraction": 0.3, "sentences": 40}
    knows = "[UNK]"  # what a misspelt word is to the small tokenizer

    def write_data(self, folder: Path) -> Path:
        folder.mkdir()
        (folder / "text.txt").write_text(10 * "the chef like that meal that the chef ate that new meal .\n")
        return folder


class TestTheTask(TaskContract):
    task = EXAMPLES / "star_ratings.py"


def test_quadratic_kappa_is_the_library_s() -> None:
    trust(EXAMPLES / "star_ratings.py")
    draw = np.random.default_rng(1)
    predicted, gold = draw.integers(5, size=(2, 200))
    found = TASKS.load(str(EXAMPLES / "star_ratings.py")).quadratic_kappa(predicted, gold).value
    assert found == pytest.approx(cohen_kappa_score(predicted, gold, weights="quadratic"), rel=1e-12)


def test_the_study_plans_its_arms_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trust(EXAMPLES / "shuffled_tokens.py")
    study = read_study(EXAMPLES / "word_order.toml")
    recipes = {name: arm_recipe(study, arm, "tiny") for name, arm in study.arms.items()}
    shuffled = recipes["nearby"].objective
    assert OBJECTIVES.canonical_name(shuffled["name"]) == "shuffled_tokens" and shuffled["reach"] == 2.0
    for recipe in recipes.values():
        assert objectives.create(
            recipe.objective,
            vocab_size=60,
            specials=toy.SPECIALS._asdict(),
            statistics=toy.store(),
        ).weights


@pytest.mark.slow
def test_the_objective_trains_from_the_command_line(
    toy_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped after 3 steps and resumed from another folder; refused by name once the file has changed."""
    own = tmp_path / "mine.py"
    own.write_text((EXAMPLES / "shuffled_tokens.py").read_text())
    monkeypatch.chdir(tmp_path)
    words = driven.command(toy_store, tmp_path / "run", **{"training.steps": "3", "training.device": "cpu"})
    assert main([*words, "--objective.name", "mine.py"]) == 0, capsys.readouterr()
    record = read_toml(tmp_path / "run" / "run.toml")
    assert record["objective"] == {"name": "mine", "mask_fraction": 0.15}
    assert record["identity"]["objective_file"] == "mine.py"
    (tmp_path / "elsewhere").mkdir()
    own = own.rename(tmp_path / "elsewhere" / "mine.py")
    assert main([*words, "--objective.name", str(own)]) == 0, capsys.readouterr()
    own.write_text(own.read_text().replace("15", "16"))
    assert main([*words, "--objective.name", str(own), "--objective.mask-fraction", "0.15"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "identity.objective_sha256 has other contents" in told and "mine.py has changed since the run began" in told
    own.unlink()  # what was trained needs it no more
    assert main(["detect", str(tmp_path / "run"), "the cat sees the sea", "--device", "cpu"]) == 0
    assert main(["verify", str(tmp_path / "run")]) == 0
    assert main(["report", str(tmp_path / "run")]) == 0


def test_help_lists_the_options_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", "--objective.name", str(EXAMPLES / "shuffled_tokens.py"), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--objective.reach" in shown and "may move" in shown


def test_the_probe_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kept when it has answered this question before; asked anew once its file has changed."""
    model, own = str(toy_task.save_encoder(tmp_path / "model")), tmp_path / "my_typos.py"
    own.write_text((EXAMPLES / "typos.py").read_text())
    (tmp_path / "text.txt").write_text(5 * "the film of the night was bright and its music slow in my town .\n")
    words = ["analyze", model, "--probe", str(own), "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    words += ["--probe-option", "my_typos.resamples=5", "--device", "cpu"]
    assert main(words) == 0, capsys.readouterr().err
    record = json.loads((tmp_path / "out" / "my_typos.probe.json").read_text())
    assert record["probe"] == "my_typos" and record["probe_file"] == "my_typos.py"
    assert main(words) == 0 and "(reused" in capsys.readouterr().out
    own.write_text(own.read_text() + "\n")
    assert main(words) == 0 and "kept" not in capsys.readouterr().out


def test_the_overlap_head_learns_pairs_texts_and_numbers(tmp_path: Path) -> None:
    """Its linear model alone tells equal pairs, of words that no training pair has; folders need the file."""
    head, model = str(EXAMPLES / "overlap_head.py"), toy_task.save_encoder(tmp_path / "model")
    trust(head)
    words = [f"{a}{b}" for a in "bdfgklmnprst" for b in "aeiou"]

    def pairs(words: list[str]) -> list[dict[str, Any]]:
        other = words[7:] + words[:7]
        texts = [(a, a if i % 2 else b, i % 2) for i, (a, b) in enumerate(zip(words, other, strict=True))]
        return [{"text_a": f"the {a}", "text_b": f"a {b}", "label": f"{same}"} for a, b, same in texts]

    data = {"train": pairs(words[:40]), "dev": pairs(words[40:])}
    options: dict[str, Any] = {"head": head, "baselines": False, "device": "cpu", "threads": 1}
    options["allow_unknown"] = True
    tuned = electra.finetune(model, task="pair", data=data, out=tmp_path / "pairs", epochs=0.3, **options)
    assert tuned.scores["accuracy"] == 1.0 and not tuned.mistakes()
    assert [row["predicted"] for row in tuned.predict(data["dev"], allow_unknown=True)] == [
        row["label"] for row in data["dev"]
    ]
    words_of_export = ["export", str(tuned.path), "--out", str(tmp_path / "graph"), "--format", "onnx"]
    assert main(words_of_export) == 2 and not (tmp_path / "graph").exists()
    many = toy_task.write_classification(tmp_path / "texts", train=60, dev=20)
    texts = electra.finetune(model, task="sst2", data=many, out=tmp_path / "single", epochs=0, **options)
    assert texts.scores["accuracy"] > 0.7
    numbers = [{**row, "score": 2.5 + 4.0 * int(row.pop("label"))} for row in pairs(words)]
    found = electra.finetune(model, task="regression", data=numbers, out=tmp_path / "n", epochs=0, **options)
    assert found.scores["spearmanr"] > 0.8 and found.scores["mae"] < 1.0


def test_the_overlap_head_trains_on_logits_of_fits_without_the_example(tmp_path: Path) -> None:
    trust(EXAMPLES / "overlap_head.py")
    factory = HEADS.load(str(EXAMPLES / "overlap_head.py")).HEAD
    head = factory.build(HeadShape("classifier", load(str(toy_task.save_encoder(tmp_path / "m"))).config, 3))
    texts, targets = [(f"word{i} {'xyz'[i % 3]}",) for i in range(30)], np.arange(30) % 3
    texts[0] = ("word0 y",)  # a wrong label, which a fit to it would follow
    head.fit(texts, targets)
    assert head.held_out[0].argmax() == 1 and (head.held_out.argmax(1).numpy() == targets)[1:].all()
    assert not head.standard.output.weight.any()
