"""The public API: quick to import, quiet, and the whole journey by it alone."""

import importlib
import importlib.util
import json
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import electra
from electra.foundation.errors import DataError

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = """
import sys, time
began = time.perf_counter()
import electra
took = time.perf_counter() - began
loaded = [name for name in sys.modules if name.startswith("electra.")]
assert not loaded, loaded
assert not {"torch", "numpy", "rich", "tokenizers"} & set(sys.modules)
assert {"pretrain", "Run", "__version__"} <= set(dir(electra))
assert took < 1, "0.1 s, with room for a busy machine"
"""
TEXT = "the chef ate the meal"


@pytest.fixture(scope="module")
def example() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("api_example", EXAMPLES / "api.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(example: types.ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("journey")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("electra.pages.figures.missing", lambda: "without figures")
        found: dict[str, Any] = example.journey(folder)
    return {**found, "folder": folder}


@pytest.fixture(scope="module")
def tiny() -> electra.Model:
    return electra.load("tiny-en", device="cpu")


def test_importing_electra_imports_no_submodule() -> None:
    subprocess.run([sys.executable, "-c", QUICK], check=True)


def test_every_public_name_can_be_imported() -> None:
    for name in electra.__all__:
        assert getattr(electra, name) is not None
    assert (Path(electra.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="pretrian"):
        _ = electra.pretrian
    importlib.import_module("electra.finetuning.settings")  # a package does not shadow a function
    assert callable(electra.finetune)


def test_prepare_returns_a_store_with_its_facts(made: dict[str, Any]) -> None:
    store = made["store"]
    assert store.tokens.audit["documents_read"] == 225
    assert store.tokens.vocab_size <= 100 and str(store.path) in repr(store)
    assert not [finding for finding in electra.verify(store) if finding.problem]
    assert isinstance(electra.open(store), electra.Store)


def test_an_interrupted_run_resumes(made: dict[str, Any]) -> None:
    run = made["run"]
    assert 30 <= made["interrupted_at"] < 60
    assert run.status == "finished" and run.step == run.total_steps == 60
    events = [event.name for event in run.folder.ledger().events]
    assert events.count("stopped") == 1 and "resumed" in events and events[-1] == "finished"
    assert run.checkpoints[-1] == 60
    rows = run.metrics.frame()
    held_out = rows[rows["kind"] == "eval"]
    assert list(held_out["step"]) == [0, 30, 60] and held_out["auc"].between(0, 1).all()
    assert run.scores["auc"] == held_out["auc"].iloc[-1] and set(rows["kind"]) == {"train", "eval"}
    assert "auc" in repr(run.metrics) and made["page"].read_text().startswith("<!DOCTYPE html>")
    settings, recorded = made["store"].folder.record["settings"], run.folder.record
    assert recorded["training"]["learning_rate"] == 2e-3
    assert recorded["data"]["unit"] == settings["corpus"]["unit"] == "line"
    assert recorded["tokenizer"]["vocab_size"] == settings["tokenizer"]["vocab_size"] != 8192


def test_the_same_call_resumes_without_the_recipe(
    made: dict[str, Any], example: Any, tmp_path: Path, no_figures: None
) -> None:
    overrides = {**example.SMALL, "objective.mask_fraction": 0.2}
    for recipe in ("tiny", None):
        run = electra.pretrain(made["store"], out=tmp_path / "run", recipe=recipe, budget="2steps", overrides=overrides)
    assert run.status == "finished" and run.folder.record["objective"]["mask_fraction"] == 0.2


def test_load_returns_a_model_that_detects_and_embeds(made: dict[str, Any]) -> None:
    detection, vectors = made["detection"], made["vectors"]
    assert [word.text for word in detection.words] == ["The", "cat", "eats", "the", "sea", "."]
    assert detection.text[detection.words[2].start : detection.words[2].end] == "eats"
    assert set(detection.marked) == {word for word in detection.words if word.p_replaced >= detection.threshold}
    assert list(made["table"][0]) == ["Original", "Masked", "Generated", "Label", "P(replaced)"]
    assert vectors.dtype == np.float32 and vectors.shape == (2, 128)
    model = electra.load(made["run"])
    assert np.allclose(model.embed("the cat sees the house ."), vectors[:1], atol=1e-6)
    assert not np.array_equal(model.embed("the cat sees the house .", pooling="cls"), vectors[:1])
    assert model.embed([]).shape == (0, 128) and len(model.detect([])) == 0
    out = electra.load(electra.export(model, out=made["folder"] / "exported"))
    assert np.allclose(out.embed("the cat sees the house ."), vectors[:1], atol=1e-6)
    assert isinstance(electra.open(out), electra.Model)


def test_finetune_returns_scores_predictions_and_mistakes(made: dict[str, Any]) -> None:
    tuned = made["tuned"]
    assert {"accuracy"} <= set(tuned.scores) and len(tuned.seeds) == 1
    [first, second] = made["predictions"]
    assert first["text"] == "a dog finds an old book ." and first["predicted"] in ("animal", "person")
    assert first["probability"] == max(first["p(animal)"], first["p(person)"])
    assert first["p(animal)"] + first["p(person)"] == pytest.approx(1, abs=1e-4)
    assert second.keys() == first.keys()
    wrong = tuned.mistakes()
    confidence = [row["probability"] for row in wrong]
    assert all(row["gold"] != row["predicted"] for row in wrong)
    assert confidence == sorted(confidence, reverse=True)
    again = electra.open(tuned.path)
    assert isinstance(again, electra.FineTuned) and again.scores == tuned.scores
    assert again.mistakes() == wrong


def test_nothing_is_printed(made: dict[str, Any], example: Any, capfd: pytest.CaptureFixture[str]) -> None:
    settings: dict[str, Any] = {"recipe": "tiny", "budget": "60steps", "overrides": example.SMALL}
    run = electra.pretrain(made["store"], out=made["run"].path, **settings)
    electra.load(run).detect(["the cat ."])
    electra.open(made["tuned"].path)
    told: list[tuple[str, float | None]] = []
    electra.prepare(
        made["folder"] / "text.txt",
        out=made["folder"] / "store",
        vocab_size=100,
        unit="line",
        heldout=0.1,
        progress=lambda line, share: told.append((line, share)),
    )
    assert capfd.readouterr() == ("", "")
    assert any("225 read" in line for line, _ in told)


WRONG: dict[str, Callable[[Any], object]] = {
    "scorer: 'language_model'.*'language-model'": lambda model: model.detect(TEXT, scorer="language_model"),
    "pooling: 'median'.*'cls', 'mean'": lambda model: model.embed(TEXT, pooling="median"),
    "device: 'gpu'": lambda model: electra.load(model, device="gpu"),  # type: ignore[arg-type]
    "mask_fraction: .*2": lambda model: electra.show(model, TEXT, mask_fraction=2),
    "mask_fraction: .*nan": lambda model: electra.show(model, TEXT, mask_fraction=float("nan")),
    r"text: \['a'\]": lambda model: electra.show(model, ["a"]),  # type: ignore[arg-type]
    "dtype: 'int2'.*'float32', 'bfloat16'": lambda model: electra.export(model, out="out", dtype="int2"),
    "out: None": lambda model: electra.pretrain("texts", out=None),  # type: ignore[arg-type]
    "workers: 'x'": lambda model: electra.pretrain("t", out="run", workers="x"),  # type: ignore[arg-type]
    "budget: 60": lambda model: electra.extend("run", budget=60),  # type: ignore[arg-type]
    "probe: no probe named 'geometr'": lambda model: electra.analyze("tiny-en", out="a", probe="geometr"),
}


@pytest.mark.parametrize("named", WRONG)
def test_a_wrong_argument_is_named_and_nothing_is_written(
    named: str, tiny: electra.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(electra.ElectraError) as caught:
        WRONG[named](tiny)
    assert re.match(named, str(caught.value)) and "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_home_folder_is_meant_in_any_path(made: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run trained into `./~` could not be opened when it had ended."""
    monkeypatch.setenv("HOME", str(made["folder"]))
    assert electra.Store("~/store").path == made["folder"] / "store"
    with pytest.raises(electra.ElectraError, match=f"^{made['folder']}/nowhere: "):
        electra.pretrain("~/nowhere", out="~/other", overrides={"training.steps": 1})
    assert not Path("~").exists()


def test_no_store_is_prepared_into_a_run_of_another(made: dict[str, Any]) -> None:
    """The run was then refused, with a foreign store in it."""
    run = made["run"].path
    with pytest.raises(electra.ElectraError, match=rf"^{run}: .*{made['folder']}/store"):
        electra.pretrain(made["folder"] / "text.txt", out=run)
    assert not (run / "store").exists()


@pytest.mark.parametrize(
    ("texts", "where"),
    [
        (pd.DataFrame({"text": [TEXT]}), "texts"),
        ({"text": TEXT}, "texts"),
        ([[TEXT]], "text 1"),
        ([b"the chef"], "text 1"),
        (b"the chef", "texts"),
        (None, "texts"),
        (Path("a.txt"), "texts"),
        (np.array(TEXT), "texts"),
    ],
)
def test_input_that_is_not_text_is_named_by_its_number(texts: Any, where: str, tiny: electra.Model) -> None:
    for read in (tiny.detect, tiny.embed):
        with pytest.raises(DataError) as caught:
            read(texts)
        assert caught.value.where == where


def test_a_column_of_texts_is_read(tiny: electra.Model) -> None:
    texts = [TEXT, "a dog ran"]
    for given in (pd.Series(texts), np.array(texts), (text for text in texts)):
        assert [found.text for found in tiny.detect(given, 0.5, scorer="discriminator")] == texts


@pytest.mark.parametrize("given", [None, 3, b"a", ["a"], "a" * 5000, "a\0b", "~nobody-of-this-name/a"])
def test_a_path_of_the_wrong_type_is_one_line(given: Any) -> None:
    for use in (
        electra.load,
        electra.open,
        electra.Store,
        lambda path: list(electra.verify(path)),
        lambda path: electra.extend(path, budget="1h"),
        lambda path: electra.export(path, out="x"),
    ):
        with pytest.raises(electra.ElectraError) as caught:
            use(given)
        assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_example_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its code cells run in order; what a cell ends with shows itself."""
    notebook = json.loads((EXAMPLES / "journey.ipynb").read_text(encoding="utf-8"))
    cells = notebook["cells"]
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in cells}) == len(cells)
    monkeypatch.setattr("electra.pages.figures.missing", lambda: "without figures")
    home = 'tempfile.mkdtemp(prefix="electra-journey-")'
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            source = "".join(cell["source"]).replace(home, repr(str(tmp_path)))
            exec(compile(source, cell["id"], "exec"), names)
    assert names["folder"] == tmp_path
    assert names["run"].status == "finished" and len(names["tuned"].scores) > 1
