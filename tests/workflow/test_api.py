"""The public API: quick to import, quiet, and the whole journey by it alone."""

from __future__ import annotations

import importlib.util
import json
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
from electra.foundation.errors import DataError, RunFolderError

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
print(took)
"""


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
        patch.setattr("electra.pages.svg.available", lambda: False)
        found: dict[str, Any] = example.journey(folder)
    return {**found, "folder": folder}


@pytest.fixture(scope="module")
def tiny() -> electra.Model:
    return electra.load("tiny-en", device="cpu")


def test_importing_electra_imports_no_submodule() -> None:
    ended = subprocess.run([sys.executable, "-c", QUICK], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert float(ended.stdout) < 1.0, "0.1 s, with room for a busy machine"


def test_every_public_name_can_be_imported() -> None:
    for name in electra.__all__:
        assert getattr(electra, name) is not None
    assert (Path(electra.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match=r"'electra' has no attribute 'pretrian'"):
        _ = electra.pretrian


def test_packages_do_not_shadow_public_functions() -> None:
    import electra.finetuning.settings
    import electra.laboratory.ablation.plan
    import electra.laboratory.evaluation.suite

    assert all(callable(getattr(electra, name)) for name in ("ablate", "evaluate", "finetune"))


def test_prepare_returns_a_store_with_its_facts(made: dict[str, Any]) -> None:
    store = made["store"]
    assert store.audit["documents_read"] == 225 and store.num_tokens == store.audit["tokens_train"]
    assert store.tokenizer.vocab_size <= 100
    store.verify()
    assert "225" not in repr(store) and "<table>" in store._repr_html_()
    assert isinstance(electra.open(store), electra.Store)


def test_an_interrupted_run_resumes(made: dict[str, Any]) -> None:
    run = made["run"]
    assert 30 <= made["interrupted_at"] < 60
    assert run.status == "finished" and run.step == run.total_steps == 60
    events = [event["event"] for event in run.events]
    assert events.count("stopped") == 1 and "resumed" in events and events[-1] == "finished"
    assert run.recipe["training"]["learning_rate"] == 2e-3
    assert run.checkpoints[-1] == 60
    curve = run.metrics.curve("eval", "auc")
    assert curve.x == [0, 30, 60] and all(0 <= auc <= 1 for auc in curve.y)
    assert run.scores["auc"] == curve.y[-1]
    assert set(run.metrics.frame()["kind"]) == {"train", "eval"}
    with pytest.raises(electra.ElectraError, match=r"acu.*'auc'"):
        run.metrics.curve("eval", "acu")
    assert run.plot("auc").axes[0].get_ylabel() == "auc"
    assert "finished" in repr(run) and made["page"].read_text().startswith("<!DOCTYPE html>")


def test_other_settings_are_refused_and_wrong_ones_named(made: dict[str, Any], example: Any) -> None:
    settings: dict[str, Any] = {"out": made["run"].path, "recipe": "tiny", "budget": "60steps"}
    with pytest.raises(electra.ElectraError, match=r"training\.seed.*1.*2"):
        electra.pretrain(made["store"], overrides={**example.SMALL, "training.seed": 2}, **settings)
    with pytest.raises(electra.ElectraError, match=r"training\.lerning_rate.*learning_rate"):
        electra.pretrain(made["store"], overrides={"training.lerning_rate": 1.0}, **settings)
    with pytest.raises(electra.ElectraError, match=r"training\.warmup"):
        electra.pretrain(made["store"], overrides={"training.warmup": 2.0}, **settings)


def test_the_same_call_resumes_with_an_option_of_the_objective_and_without_the_recipe(
    made: dict[str, Any], example: Any, tmp_path: Path, no_figures: None
) -> None:
    overrides = {**example.SMALL, "objective.mask_fraction": 0.2}
    for recipe in ("tiny", None):  # an old run of the default that was "tiny", too
        run = electra.pretrain(
            made["store"], out=tmp_path / "run", recipe=recipe, budget="2steps", overrides=overrides
        )
    assert run.status == "finished" and run.recipe["objective"]["mask_fraction"] == 0.2


def test_load_returns_a_model_that_detects_and_embeds(made: dict[str, Any]) -> None:
    detection, vectors = made["detection"], made["vectors"]
    assert [word.text for word in detection.words] == ["The", "cat", "eats", "the", "sea", "."]
    assert detection.text[detection.words[2].start : detection.words[2].end] == "eats"
    assert set(detection.marked) == {
        word for word in detection.words if word.p_replaced >= detection.threshold
    }
    assert list(made["table"][0]) == ["Original", "Masked", "Generated", "Label", "P(replaced)"]
    assert vectors.dtype == np.float32 and vectors.shape == (2, 128)
    model = electra.load(made["run"])
    assert np.allclose(model.embed("the cat sees the house ."), vectors[:1], atol=1e-6)
    assert not np.array_equal(model.embed("the cat sees the house .", pooling="cls"), vectors[:1])
    assert model.embed([]).shape == (0, 128)
    assert len(model.detect([])) == 0
    out = model.export(made["folder"] / "exported")
    assert np.allclose(out.embed("the cat sees the house ."), vectors[:1], atol=1e-6)
    assert isinstance(electra.open(out), electra.Model)


def test_finetune_returns_scores_predictions_and_mistakes(made: dict[str, Any]) -> None:
    tuned = made["tuned"]
    assert {"accuracy"} <= set(tuned.scores) and len(tuned.seeds) == 1
    assert tuned.labels == ("animal", "person")
    [first, second] = made["predictions"]
    assert first["text"] == "a dog finds an old book ." and first["predicted"] in tuned.labels
    assert first["probability"] == max(first["p(animal)"], first["p(person)"])
    assert first["p(animal)"] + first["p(person)"] == pytest.approx(1, abs=1e-4)
    assert second.keys() == first.keys()
    wrong = tuned.mistakes()
    assert all(row["gold"] != row["predicted"] for row in wrong)
    assert [row["probability"] for row in wrong] == sorted(
        (row["probability"] for row in wrong), reverse=True
    )
    rows = [json.loads(line) for line in (tuned.path / "data" / "train.jsonl").read_text().splitlines()]
    assert len(rows) == 36 and rows[0] == {"text": "the cat sees the house .", "label": "animal"}
    again = electra.open(tuned.path)
    assert isinstance(again, electra.FineTuned) and again.scores == tuned.scores
    assert again.mistakes() == wrong


def test_the_same_call_is_complete_and_other_rows_are_refused(made: dict[str, Any]) -> None:
    rows = [{"text": "the cat .", "label": "animal"}, {"text": "the queen .", "label": "person"}]
    with pytest.raises(RunFolderError) as caught:
        electra.finetune(made["run"], task="classification", data=rows, out=made["tuned"].path)
    assert caught.value.where == str(made["tuned"].path / "data" / "train.jsonl")
    stranger = made["folder"] / "stranger"
    stranger.mkdir()
    (stranger / "thesis.doc").write_text("years of work")
    with pytest.raises(electra.ElectraError, match=r"thesis.doc"):
        electra.finetune(made["run"], task="classification", data=rows, out=stranger)
    assert [path.name for path in stranger.iterdir()] == ["thesis.doc"]


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


TEXT = "the chef ate the meal"
CHOICES: dict[str, Callable[[electra.Model], object]] = {
    "scorer: 'language_model'.*'language-model'": (
        lambda model: model.detect(TEXT, scorer="language_model")  # type: ignore[arg-type]
    ),
    "scorer: None": lambda model: model.detect(TEXT, scorer=None),  # type: ignore[arg-type]
    "threshold: 'a'": lambda model: model.detect(TEXT, threshold="a"),  # type: ignore[arg-type]
    "pooling: 'median'.*'cls', 'mean'": lambda model: model.embed(TEXT, pooling="median"),  # type: ignore[arg-type]
    "device: 'gpu'": lambda model: electra.load(model, device="gpu"),  # type: ignore[arg-type]
    "device: None": lambda model: electra.load(model, device=None),  # type: ignore[arg-type]
    "backend: 'tf'": lambda model: electra.load(model, backend="tf"),  # type: ignore[arg-type]
    "mask_fraction: .*2": lambda model: model.table(TEXT, mask_fraction=2),
    "mask_fraction: .*-1": lambda model: model.table(TEXT, mask_fraction=-1),
    "mask_fraction: .*nan": lambda model: model.table(TEXT, mask_fraction=float("nan")),
    "mask_fraction: 'a'": lambda model: model.table(TEXT, mask_fraction="a"),  # type: ignore[arg-type]
    "seed: None": lambda model: model.table(TEXT, seed=None),  # type: ignore[arg-type]
    "seed: 1.5": lambda model: model.table(TEXT, seed=1.5),  # type: ignore[arg-type]
    r"text: \['a'\]": lambda model: model.table(["a"]),  # type: ignore[arg-type]
    "text: 3": lambda model: model.table(3),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("said", CHOICES)
def test_a_wrong_argument_is_one_line(said: str, tiny: electra.Model) -> None:
    with pytest.raises(electra.ElectraError, match=f"^{said}"):
        CHOICES[said](tiny)


WRONG: dict[str, Callable[[], object]] = {
    "recipe: 5": lambda: electra.pretrain("texts", out="run", recipe=5),  # type: ignore[arg-type]
    "out: None": lambda: electra.pretrain("texts", out=None),  # type: ignore[arg-type]
    "overrides: 5": lambda: electra.pretrain("texts", out="run", overrides=5),  # type: ignore[arg-type]
    "5: no such key": lambda: electra.pretrain("texts", out="run", overrides={5: 5}),  # type: ignore[dict-item]
    "processes: 'x'": lambda: electra.pretrain("texts", out="run", processes="x"),  # type: ignore[arg-type]
    "sizes: 5": lambda: electra.plan("texts", budget="2h", sizes=5),  # type: ignore[arg-type]
    "budget: 60": lambda: electra.extend("run", budget=60),  # type: ignore[arg-type]
    "probe: no probe named 'geometr'": lambda: electra.analyze("tiny-en", out="a", probe="geometr"),
    "a: ": lambda: electra.prepare({"a": [], "b": "t"}, out="o", mix_exponent=0.5),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_argument_of_a_function_is_one_line(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(electra.ElectraError, match=f"^{said}"):
        WRONG[said]()
    assert not list(tmp_path.iterdir())


def test_the_home_folder_is_meant_in_every_path(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run trained into `./~` could not be opened when it had ended."""
    from electra.foundation.config import convert
    from electra.foundation.options import as_name, checked_path

    monkeypatch.setenv("HOME", str(made["folder"]))
    assert as_name("~/store") == str(checked_path("~/store")) == str(made["folder"] / "store")
    assert convert(Path, "~/store", "out") == made["folder"] / "store"
    with pytest.raises(electra.ElectraError, match=f"^{made['folder']}/nowhere: "):
        electra.pretrain("~/nowhere", out="~/other", overrides={"training.steps": 1})
    assert not Path("~").exists()


def test_no_store_is_prepared_into_a_run_of_another(made: dict[str, Any]) -> None:
    """The run was then refused, with a foreign store in it."""
    run = made["run"].path
    said = rf"^{run}: .*{made['folder']}/store"
    with pytest.raises(electra.ElectraError, match=said):
        electra.pretrain(made["folder"] / "text.txt", out=run)
    assert not (run / "store").exists()


def test_a_run_records_how_its_store_was_made(made: dict[str, Any]) -> None:
    """And not the settings that a corpus would have been prepared with."""
    settings, recorded = made["store"].folder.record["settings"], made["run"].folder.record
    assert recorded["data"]["unit"] == settings["corpus"]["unit"] == "line"
    assert recorded["data"]["heldout"] == settings["corpus"]["heldout"] != 0.005
    assert recorded["tokenizer"]["vocab_size"] == settings["tokenizer"]["vocab_size"] != 8192


@pytest.mark.parametrize("dtype", ["int2", None])
def test_weights_are_exported_in_named_types_only(dtype: Any, tiny: electra.Model, tmp_path: Path) -> None:
    with pytest.raises(electra.ElectraError, match=r"^dtype: .*'float32', 'bfloat16', 'float16'"):
        tiny.export(tmp_path / "out", dtype=dtype)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("texts", "where"),
    [
        (pd.DataFrame({"text": [TEXT]}), "texts"),
        ({"text": TEXT}, "texts"),
        ([TEXT, None], "text 2"),
        ([TEXT, float("nan")], "text 2"),
        ([TEXT, pd.NA], "text 2"),
        ([3], "text 1"),
        ([[TEXT]], "text 1"),
        ([b"the chef"], "text 1"),
        (b"the chef", "texts"),
        (None, "texts"),
        (Path("a.txt"), "texts"),
        (np.array(TEXT), "texts"),
    ],
)
def test_input_that_is_not_text_is_named_by_its_number(texts: Any, where: str, tiny: electra.Model) -> None:
    for read in (tiny.detect, tiny.embed, lambda texts: list(tiny.detections(texts))):
        with pytest.raises(DataError) as caught:
            read(texts)
        assert caught.value.where == where


def test_a_column_of_texts_is_read(tiny: electra.Model) -> None:
    texts = [TEXT, "a dog ran"]
    for given in (pd.Series(texts), np.array(texts), (text for text in texts)):
        assert [found.text for found in tiny.detect(given, 0.5, scorer="discriminator")] == texts


@pytest.mark.parametrize("given", [None, 3, b"a", ["a"], "a" * 5000, "a\0b", "~nobody-of-this-name/a"])
def test_a_path_of_the_wrong_type_is_one_line(given: Any, tiny: electra.Model) -> None:
    for use in (
        electra.load,
        electra.open,
        electra.Store,
        lambda path: list(electra.verify(path)),
        tiny.export,
        lambda path: electra.extend(path, budget="1h"),
        lambda path: electra.lengthen(path, out="o", length=9),
        lambda path: electra.deepen(path, out="o", layers=8),
        lambda path: electra.import_pair(path, out="o"),
        lambda path: electra.push(path, "me/mine"),
    ):
        with pytest.raises(electra.ElectraError) as caught:
            use(given)
        assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_example_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its code cells run in order; what a cell ends with shows itself."""
    notebook = json.loads((EXAMPLES / "journey.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(
        notebook["cells"]
    )
    monkeypatch.setattr("electra.pages.svg.available", lambda: False)
    home = 'tempfile.mkdtemp(prefix="electra-journey-")'
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            source = "".join(cell["source"]).replace(home, repr(str(tmp_path)))
            exec(compile(source, cell["id"], "exec"), names)
    assert names["folder"] == tmp_path
    assert names["run"].status == "finished" and len(names["tuned"].scores) > 1
